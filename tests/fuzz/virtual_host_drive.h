// Any frames, segments that nearly fit, calls and time for a host of our own.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ctrl/virtual_host/virtual_host.h"
#include "tests/fuzz/input.h"

namespace understudy {

class VirtualHostDrive {
 public:
  explicit VirtualHostDrive(std::span<const uint8_t> bytes)
      : in_(bytes),
        host_(spec(), 1, callbacks(), [this](std::span<const uint8_t> frame) { went(frame); }) {
    must(host_
             .listen_at({ours(0), 1}, 3,
                        [this](const AcceptedConnection& a) -> std::unique_ptr<Peer> {
                          if (a.client_port % 4 == 3) return nullptr;
                          open_.insert(a.id);
                          return std::make_unique<Echo>(heard_);
                        })
             .has_value());
  }

  void run() {
    while (!in_.done()) step();
    for (const ConnectionId id : std::set(open_)) drop(id);
    // All that is left ends by itself.
    advance(Duration::s(200));
    host_.on_time(now_ + Duration::s(61));
    must(host_.connection_count() == 0 && host_.tcp_connections() == 0);
    must(host_.deadline().is_never());
  }
  const VirtualHostCounters& counters() const { return host_.counters(); }
  uint64_t heard() const { return heard_; }  ///< bytes that machines were given

 private:
  class Echo;

  static IpAddress ours(uint8_t i) { return IpAddress::v4(0x0a090100u + i); }
  static IpAddress theirs() { return IpAddress::v4(0x0a0901c8); }
  static HostNamespaceSpec spec() {
    HostNamespaceSpec spec;
    spec.mtu = 300;
    spec.emulated = {IpPrefix{ours(0), 24}};
    spec.real = {theirs()};
    return spec;
  }
  PeerHost::Callbacks callbacks() {
    PeerHost::Callbacks callbacks;
    callbacks.ended = [this](const EndedConnection& end) { must(open_.erase(end.id) == 1); };
    return callbacks;
  }

  /// Says again what it hears, or something first if it calls; "q" ends it.
  class Echo final : public Peer {
   public:
    explicit Echo(uint64_t& heard) : heard_(heard) {}
    void on_bytes(Time, std::span<const uint8_t> bytes) override {
      must(!bytes.empty() && !closed_);
      heard_ += bytes.size();
      if (!calls_) output_.insert(output_.end(), bytes.begin(), bytes.end());
      finished_ = bytes.back() == 'q';
    }
    void on_endpoint(Time, const EndpointReady&) override { must(false); }
    void on_closed(Time) override {
      must(!closed_);
      closed_ = true;
    }
    void on_connected(Time) override {
      calls_ = true;
      output_.assign(700, 'c');
    }

   private:
    uint64_t& heard_;
    bool calls_ = false, closed_ = false;
  };

  /// What the other side would know of a flow, from our last segment.
  struct Known {
    uint32_t next = 0;  ///< the number that we send next
    uint32_t due = 0;   ///< and the one that we wait for
  };

  void step() {
    switch (in_.byte() % 8) {
      case 0: {
        const auto frame = in_.take(in_.byte());
        return host_.on_frame(now_, std::vector(frame.begin(), frame.end()));
      }
      case 1:
        return advance(Duration::ms(in_.byte() * 40));
      case 2: {
        const auto id =
            host_.call({ours(in_.byte() % 2)}, {in_.byte() % 4 == 0 ? ours(0) : theirs(), 1},
                       std::make_unique<Echo>(heard_));
        if (id) open_.insert(*id);
        return;
      }
      case 3:
        if (!open_.empty()) drop(*open_.begin());
        return;
      case 4:  // a new call
        return segment({{theirs(), in_.byte()}, {ours(in_.byte() % 2), 1}}, {0, in_.word()},
                       kTcpSyn);
      default: {  // something on a flow that there is or was
        if (known_.empty()) return;
        auto at = known_.begin();
        std::advance(at, in_.byte() % known_.size());
        return segment({at->first.remote, at->first.local}, at->second, kTcpAck);
      }
    }
  }

  void segment(const TcpFlow& from, Known known, uint8_t usual) {
    const uint8_t how = in_.byte();
    TcpSegment segment;
    segment.flags = (how & 1) != 0 ? in_.byte() : usual;
    segment.seq = known.due + ((how & 2) != 0 ? in_.byte() - 128u : 0u);
    segment.ack = known.next + ((how & 4) != 0 ? in_.byte() - 128u : 0u);
    segment.window = (how & 8) != 0 ? in_.byte() : uint16_t{65535};
    if ((how & 16) != 0) segment.mss = static_cast<uint16_t>(in_.byte() * 8);
    if ((how & 32) != 0) segment.payload = in_.take(in_.byte());
    host_.on_frame(now_, build_tcp(from, segment));
  }

  void drop(ConnectionId id) {
    host_.drop(id);
    open_.erase(id);
  }

  void advance(Duration by) {
    const Time until = now_ + by;
    for (int turns = 0; host_.deadline() <= until; ++turns) {
      must(turns < 100'000);  // or time stands still
      now_ = std::max(now_, host_.deadline());
      host_.on_time(now_);
    }
    now_ = until;
  }

  void went(std::span<const uint8_t> frame) {
    TcpFlow flow;
    TcpSegment segment;
    must(parse_tcp(frame, flow, segment) == TcpFrameKind::kTcp);
    must(flow.local.address == theirs() && frame.size() <= 14 + 300);
    if (segment.has(kTcpRst)) return;
    Known& known = known_[{flow.remote, flow.local}];
    known.next = segment.seq + segment.length();
    if (segment.has(kTcpAck)) known.due = segment.ack;
  }

  FuzzInput in_;
  Time now_;
  std::set<ConnectionId> open_;
  std::map<TcpFlow, Known> known_;
  uint64_t heard_ = 0;
  VirtualHost host_;
};

}  // namespace understudy
