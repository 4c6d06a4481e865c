// A shard under a virtual clock: frames go in at stated times, what it sends is kept with its
// times.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "dataplane/engine/shard.h"
#include "tests/wire/frames.h"

namespace understudy {

inline constexpr NodeId kRealNode = 0;  ///< 10.0.0.1 / fd00::1; the emulated nodes follow

inline IpAddress node_ip(NodeId id, bool v6 = false) {
  return *IpAddress::parse((v6 ? "fd00::" : "10.0.0.") + std::to_string(id + 1));
}
inline MacAddress node_mac(NodeId id) {
  return {{0x02, 0x75, 0, 0, 0, static_cast<uint8_t>(0x0a + id)}};
}

/// A shard's configuration: node `real` is the real one of `count` nodes with equal links.
inline ShardConfig rig_config(Rate rate, Duration latency, uint32_t count = 2,
                              NodeId real = kRealNode) {
  ShardConfig c;
  for (NodeId id = 0; id < count; ++id) {
    NodeNic nic;
    nic.id = id;
    nic.real = id == real;
    nic.mac = node_mac(id);
    nic.v4 = node_ip(id);
    nic.v6 = node_ip(id, true);
    c.nodes.add(nic);
  }
  c.rates.assign(count, rate);
  c.latencies.assign(count, latency);
  c.host_mac = MacAddress{{2, 0, 0, 0, 0, 0x77}};
  c.packets = 256;
  c.queue_pairs = 64;
  c.regions = 16;
  return c;
}

inline void tag_nodes(ShardConfig& config, uint16_t tci) {
  NodeTable tagged;
  for (NodeNic nic : config.nodes.nics()) {
    nic.vlan_tci = tci;
    tagged.add(nic);
  }
  config.nodes = tagged;
}

struct SentFrame {
  Time scheduled, actual;
  std::vector<uint8_t> bytes;
};

class RigSink : public TxSink {
 public:
  uint8_t* reserve(uint32_t bytes) override {
    if (room == 0) return nullptr;
    reserved_.resize(bytes);
    return reserved_.data();
  }
  void commit(uint32_t bytes, Time scheduled) override {
    --room;
    if (keep) {
      sent.push_back({scheduled, now, {reserved_.begin(), reserved_.begin() + bytes}});
    } else {
      ++unkept;
    }
  }
  Duration lead() const override { return ahead; }
  Time now;
  Duration ahead;
  size_t room = SIZE_MAX;
  bool keep = true;
  uint64_t unkept = 0;
  std::vector<SentFrame> sent;

 private:
  std::vector<uint8_t> reserved_;
};

/// Keeps what happens at its queue pairs, with the times.
class RigEndpoint : public Endpoint {
 public:
  struct Seen {
    Time at;
    Qpn qpn;
    uint64_t id;  ///< of completions; length of receptions; cookie of wakes
  };
  void on_received(Time now, Qp& qp, const Received& m) override {
    received.push_back({now, qp.config().qpn, m.length});
    if (then) then(now, qp);
  }
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override {
    completed.push_back({now, qp.config().qpn, id});
    failures += status == WorkStatus::kSuccess ? 0 : 1;
  }
  void on_transmitted(Time scheduled, Time, Qp& qp, uint64_t id) override {
    transmitted.push_back({scheduled, qp.config().qpn, id});
  }
  void on_wake(Time now, uint64_t cookie) override {
    woken.push_back({now, 0, cookie});
    if (wake) wake(now, *host_);
  }
  std::vector<Seen> received, completed, transmitted, woken;
  uint64_t failures = 0;
  std::function<void(Time, Qp&)> then;
  std::function<void(Time, EndpointHost&)> wake;
};

class Rig {
 public:
  explicit Rig(const ShardConfig& config) : shard(config) {}

  /// Runs the shard up to and including `until`.
  void advance(Time until) {
    while (shard.next_wake() <= until) poll(std::max(now, shard.next_wake()));
    poll(until);
  }
  void advance(Duration by) { advance(now + by); }
  void receive(std::span<const uint8_t> frame, Duration uncertainty = Duration()) {
    const std::span<const uint8_t> frames[] = {frame};
    shard.rx({now, uncertainty, frames});
  }
  void poll(Time at) {
    now = sink.now = at;
    shard.poll(at, sink);
  }

  ReplyStatus command(Command c) {
    c.sequence = ++sequence_;
    shard.commands().push(c);
    poll(now);
    Reply reply;
    EXPECT_TRUE(shard.replies().pop(reply));
    EXPECT_EQ(reply.sequence, sequence_);
    return reply.status;
  }

  QpConfig qp_config(uint32_t slot, NodeId node = 1, NodeId peer = kRealNode, bool v6 = false) {
    QpConfig c;
    c.node = node;
    c.qpn = shard.qpn_of(slot);
    c.remote_qpn = c.qpn;  // both sides use the same slots
    c.timeout = 0;
    c.addressing.src_mac = node_mac(node);
    c.addressing.dst_mac = node_mac(peer);
    c.addressing.src = node_ip(node, v6);
    c.addressing.dst = node_ip(peer, v6);
    c.addressing.vlan_tci = shard.nodes()[0].vlan_tci;
    return c;
  }
  Qp& add_qp(const QpConfig& config, bool needs_payload = true) {
    qps.push_back(std::make_unique<Qp>(config, shard.regions(), shard.rc_counters(), endpoint));
    qps.back()->responder().set_endless_receives();
    Command c;
    c.kind = CommandKind::kAddQp;
    c.qp = qps.back().get();
    c.endpoint = &endpoint;
    c.needs_payload = needs_payload;
    EXPECT_EQ(command(c), ReplyStatus::kDone);
    return *qps.back();
  }
  /// Region 1 of `node`: its contents are `bytes`, or none.
  Rkey add_region(NodeId node, uint64_t length, uint8_t* bytes = nullptr) {
    Command c;
    c.kind = CommandKind::kAddRegion;
    c.region_index = 1;
    c.region = {node, 0, length, kAccessRemoteRead | kAccessRemoteWrite, bytes, false};
    EXPECT_EQ(command(c), ReplyStatus::kDone);
    return shard.regions().rkey(1);
  }
  uint64_t drops(Drop reason) const { return shard.counters().drops[static_cast<size_t>(reason)]; }
  uint64_t rc(RcEvent e) const { return shard.counters().rc[static_cast<size_t>(e)]; }

  Shard shard;
  RigSink sink;
  RigEndpoint endpoint;
  std::vector<std::unique_ptr<Qp>> qps;
  Time now;

 private:
  uint64_t sequence_ = 0;
};

/// Two shards back to back: node 0 lives in `real`, where links take no time, so that all times are
/// those of `emulated`, where the other nodes live.
struct RigPair {
  explicit RigPair(const ShardConfig& config)
      : emulated(config),
        real(rig_config(Rate(), Duration(), static_cast<uint32_t>(config.nodes.nics().size()), 1)) {
  }
  RigPair(const ShardConfig& config, const ShardConfig& peer) : emulated(config), real(peer) {}

  void run(Time until) {
    for (;;) {
      const Time next =
          std::max(emulated.now, std::min(emulated.shard.next_wake(), real.shard.next_wake()));
      if (next > until) break;
      step(emulated, real, next);
      step(real, emulated, next);
    }
    emulated.poll(until);
    real.poll(until);
  }

  Rig emulated, real;
  std::vector<SentFrame> to_real, to_emulated;  ///< everything that crossed

 private:
  void step(Rig& from, Rig& to, Time at) {
    from.poll(at);
    for (SentFrame& frame : from.sink.sent) {
      to.now = at;
      to.receive(frame.bytes);
      (&from == &emulated ? to_real : to_emulated).push_back(std::move(frame));
    }
    from.sink.sent.clear();
  }
};

}  // namespace understudy
