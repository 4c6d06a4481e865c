// Two hosts of our own with a wire between them, in virtual time: frames are lost, repeated,
// delayed and damaged as a test wants it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/virtual_host/virtual_host.h"

namespace understudy {

/// Sends `bytes` once it is connected or something has come, in pieces; is finished when it has
/// heard `wanted` bytes if it calls, and when the other side closes if it does not.
class TalkingPeer final : public Peer {
 public:
  struct Memory {  ///< outlives the machine
    std::string heard;
    bool closed = false, connected = false;
  };
  TalkingPeer(std::string bytes, size_t wanted, std::shared_ptr<Memory> memory)
      : bytes_(std::move(bytes)), wanted_(wanted), memory_(std::move(memory)) {}

  void on_connected(Time) override {
    memory_->connected = calls_ = true;
    say();
  }
  void on_bytes(Time, std::span<const uint8_t> bytes) override {
    memory_->heard.append(bytes.begin(), bytes.end());
    say();
    finished_ = calls_ && memory_->heard.size() >= wanted_;
  }
  void on_endpoint(Time, const EndpointReady&) override {}
  void on_closed(Time) override {
    memory_->closed = true;
    if (memory_->heard.size() < wanted_) failure_ = "too little";
  }

 private:
  void say() {
    output_.insert(output_.end(), bytes_.begin(), bytes_.end());
    bytes_.clear();
  }
  std::string bytes_;
  size_t wanted_;
  std::shared_ptr<Memory> memory_;
  bool calls_ = false;
};

class VirtualHosts {
 public:
  using Frame = std::vector<uint8_t>;
  /// What becomes of frame `number` (from 0) that side `from` has sent: when it comes, any number
  /// of times.
  using Wire = std::function<std::vector<Duration>(size_t number, int from)>;
  static constexpr Duration kLatency = Duration::us(10);

  explicit VirtualHosts(Wire wire = {}, bool v4 = true, uint32_t mtu = 1500)
      : wire_(std::move(wire)), v4_(v4) {
    for (const int side : {0, 1}) {
      HostNamespaceSpec spec;
      spec.mtu = mtu;
      spec.emulated = {IpPrefix{address(side), v4 ? 24u : 64u}};
      spec.real = {address(1 - side)};
      PeerHost::Callbacks callbacks;
      callbacks.endpoint = [](NodeId, ConnectionId, const EndpointRequest&) {};
      callbacks.start = [](const EndpointStart&) {};
      callbacks.ended = [this, side](const EndedConnection& end) { ended[side].push_back(end); };
      hosts[side] = std::make_unique<VirtualHost>(
          spec, 7u + static_cast<unsigned>(side), callbacks,
          [this, side](std::span<const uint8_t> frame) { carry(side, frame); });
    }
  }

  /// An emulated address of side 0 or 1: the other's prefix is another one.
  IpAddress address(int side) const {
    return IpAddress::parse(std::string(v4_ ? "10.9." : "fd00:9:") + (side == 0 ? "1" : "2") +
                            (v4_ ? ".1" : "::1"))
        .value();
  }

  /// Runs until nobody has anything to do, or until `limit`.
  void run(Time limit = Time::never()) {
    for (;;) {
      const Time next = std::min({hosts[0]->deadline(), hosts[1]->deadline(), next_frame()});
      if (next.is_never() || next > limit) return;
      now = std::max(now, next);
      if (next_frame() <= now) {
        const auto [to, frame] = std::move(under_way_.begin()->second);
        under_way_.erase(under_way_.begin());
        hosts[to]->on_frame(now, frame);
      }
      for (const auto& host : hosts) {
        if (host->deadline() <= now) host->on_time(now);
      }
    }
  }
  /// Everything that waits for late segments goes.
  void outlast() {
    run();
    now += Duration::s(61);
    for (const auto& host : hosts) host->on_time(now);
  }

  std::unique_ptr<VirtualHost> hosts[2];
  std::vector<EndedConnection> ended[2];
  std::vector<Frame> frames;  ///< all that were sent
  Time now;
  bool keep_frames = false;
  size_t sent = 0;

 private:
  Time next_frame() const { return under_way_.empty() ? Time::never() : under_way_.begin()->first; }
  void carry(int from, std::span<const uint8_t> frame) {
    const Frame bytes(frame.begin(), frame.end());
    if (keep_frames) frames.push_back(bytes);
    const size_t number = sent++;
    for (const Duration delay : wire_ ? wire_(number, from) : std::vector{kLatency}) {
      under_way_.insert({now + delay, {1 - from, bytes}});
    }
  }

  Wire wire_;
  bool v4_;
  std::multimap<Time, std::pair<int, Frame>> under_way_;
};

}  // namespace understudy
