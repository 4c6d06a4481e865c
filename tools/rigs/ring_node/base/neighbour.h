// One neighbour of the real rank: its socket and the out-of-band machine on it, RingClient or
// RealPeer.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "dataplane/base/try.h"
#include "tools/rigs/ring_node/base/tcp.h"

namespace understudy {

template <typename Machine>
class Neighbour {
 public:
  Neighbour(std::string name, TcpStream stream, Machine machine)
      : name_(std::move(name)), stream_(std::move(stream)), machine_(std::move(machine)) {}

  Machine& machine() { return machine_; }

  /// Sends what the machine has to say and receives until `arrived()` holds; an error if it does
  /// not within `limit`, or the peer gives up or closes. `what` names what is awaited.
  template <typename Condition>
  Result<void> wait_for(const char* what, std::chrono::milliseconds limit, Condition arrived) {
    using std::chrono::milliseconds;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    milliseconds left{0};  // what is awaited may have come already
    for (;;) {
      TRY(exchange(left));
      if (arrived(machine_)) return flush();
      left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left <= milliseconds(0)) {
        return fail(name_ + ": no " + what + " within " + std::to_string(limit.count()) + " ms");
      }
    }
  }

  /// Sends what is to be sent and takes what has come until `limit`; returns after the first bytes.
  Result<void> exchange(std::chrono::milliseconds limit) {
    auto sent = flush();
    bool closed = false;
    // The peer's last words are read even if it no longer takes ours.
    const auto bytes = stream_.receive(std::max(limit, std::chrono::milliseconds(0)), closed);
    if (bytes) machine_.on_bytes(*bytes);
    if (closed) machine_.on_closed();
    if (!machine_.failure().empty()) return fail(name_ + ": " + machine_.failure());
    if (!bytes) return fail(name_ + ": " + bytes.error().text);
    return sent;
  }

 private:
  Result<void> flush() {
    const auto sent = stream_.send(machine_.take_output());
    return sent ? Result<void>() : fail(name_ + ": " + sent.error().text);
  }

  std::string name_;
  TcpStream stream_;
  Machine machine_;
};

}  // namespace understudy
