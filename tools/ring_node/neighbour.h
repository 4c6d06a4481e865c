// One neighbour of the real rank: its socket and the out-of-band machine on it.
#pragma once

#include <chrono>
#include <string>

#include "tools/ring_node/oob.h"
#include "tools/ring_node/tcp.h"

namespace understudy {

class Neighbour {
 public:
  Neighbour(std::string name, TcpStream stream, RingClient client)
      : name_(std::move(name)), stream_(std::move(stream)), client_(std::move(client)) {}

  RingClient& client() { return client_; }

  /// Sends what the machine has to say and receives until `arrived()` holds; an error if it does
  /// not within `limit`, or the peer gives up or closes. `what` names what is awaited.
  template <typename Condition>
  Result<void> wait_for(const char* what, std::chrono::milliseconds limit, Condition arrived) {
    using std::chrono::milliseconds;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    milliseconds left{0};  // what is awaited may have come already
    for (;;) {
      if (auto exchanged = exchange(left); !exchanged) return exchanged;
      if (arrived(client_)) return {};
      left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left <= milliseconds(0)) {
        return fail(name_ + ": no " + what + " within " + std::to_string(limit.count()) + " ms");
      }
    }
  }

  /// Sends what is to be sent and takes what has come until `limit`; returns after the first bytes.
  Result<void> exchange(std::chrono::milliseconds limit);

 private:
  std::string name_;
  TcpStream stream_;
  RingClient client_;
};

}  // namespace understudy
