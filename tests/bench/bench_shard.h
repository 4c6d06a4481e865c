// A shard for benchmarks: a real node, any number of emulated ones, queue pairs between them, and a
// network in between if one is asked for. What goes wrong ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/slab.h"
#include "tests/engine/rig.h"

namespace understudy {

[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}
inline void must(bool right, const std::string& what) {
  if (!right) give_up("not as it has to be: " + what);
}
/// `found` is what was counted.
inline void must_equal(const char* what, uint64_t found, uint64_t expected) {
  must(found == expected,
       std::string(what) + " " + std::to_string(found) + " instead of " + std::to_string(expected));
}

inline Rate bench_line() { return Rate::bits_per_second(400'000'000'000); }

/// What is between the real node and the emulated ones, 1 us each way.
enum class Between {
  kNothing,  ///< links take no time
  kTwoLinks,
  kFatTree,  ///< six links: three levels of switches
};

inline NodeNic bench_nic(NodeId id) {
  NodeNic nic;
  nic.id = id;
  nic.real = id == kRealNode;
  nic.mac = MacAddress{{2, 0x75, 0, static_cast<uint8_t>(id >> 16), static_cast<uint8_t>(id >> 8),
                        static_cast<uint8_t>(id)}};
  nic.v4 = IpAddress::v4(0x0a00'0001 + id);
  return nic;
}

/// A fat tree of switches with four ports, the real node in its first pod. The emulated ones are in
/// the last: one at the edge, several there side by side.
inline std::shared_ptr<const SwitchedNetwork> bench_fat_tree(uint32_t emulated) {
  constexpr uint32_t kPods = 4, kHalf = 2, kLinks = 6;
  const Duration latency = Duration::us(1) / kLinks;
  auto network = std::make_shared<SwitchedNetwork>();
  Graph& g = network->graph;
  const auto add = [&](VertexKind kind, uint32_t number, uint8_t tier) {
    std::string name(1, "nlsc"[tier]);  // as numbered() makes it: GCC 12 warns of the sum
    name += std::to_string(number);
    return g.add_vertex({kind, name, kind == VertexKind::kNic ? number : 0, 0, tier});
  };
  std::vector<VertexId> cores;
  for (uint32_t c = 0; c < kHalf * kHalf; ++c) cores.push_back(add(VertexKind::kSwitch, c, 3));
  VertexId first_edge = kNoVertex, last_edge = kNoVertex;
  for (uint32_t pod = 0; pod < kPods; ++pod) {
    std::vector<VertexId> edges;
    for (uint32_t e = 0; e < kHalf; ++e) {
      edges.push_back(add(VertexKind::kSwitch, pod * kHalf + e, 1));
      if (first_edge == kNoVertex) first_edge = edges.back();
      last_edge = edges.back();
    }
    for (uint32_t a = 0; a < kHalf; ++a) {
      const VertexId spine = add(VertexKind::kSwitch, pod * kHalf + a, 2);
      for (const VertexId edge : edges) g.connect(edge, spine, bench_line(), latency);
      for (uint32_t c = 0; c < kHalf; ++c) {
        g.connect(spine, cores[a * kHalf + c], bench_line(), latency);
      }
    }
  }
  for (uint32_t id = 0; id <= emulated; ++id) {
    const VertexId nic = add(VertexKind::kNic, id, 0);
    g.connect(nic, id == kRealNode ? first_edge : last_edge, bench_line(), latency);
    network->nics.push_back(nic);
  }
  network->settings.classes = {ClassSettings()};
  return network;
}

inline ShardConfig bench_config(uint32_t emulated, uint32_t queue_pairs, Between between) {
  ShardConfig c;
  for (NodeId id = 0; id <= emulated; ++id) c.nodes.add(bench_nic(id));
  c.rates.assign(emulated + 1, bench_line());
  c.wires.front().physical = bench_line();  // as fast as what it stands for: the wire is the link
  c.latencies.assign(emulated + 1,
                     between == Between::kTwoLinks ? Duration::us(1) / 2 : Duration());
  c.pacing = between != Between::kNothing;
  if (between == Between::kFatTree) c.network = bench_fat_tree(emulated);
  c.queue_pairs = queue_pairs;
  c.regions = emulated;
  return c;
}

class BenchShard {
 public:
  explicit BenchShard(const ShardConfig& config) : shard(config) {}

  /// Of one queue pair of node `node` for the real node. Both sides use the same numbers.
  QpConfig qp_config(uint32_t slot, NodeId node, uint32_t mtu) const {
    const NodeNic& real = shard.nodes()[0];
    const NodeNic& own = shard.nodes()[node];
    QpConfig q;
    q.node = node;
    q.qpn = q.remote_qpn = shard.qpn_of(slot);
    q.mtu = mtu;
    q.timeout = 0;
    q.addressing.src_mac = own.mac;
    q.addressing.dst_mac = real.mac;
    q.addressing.src = *own.v4;
    q.addressing.dst = *real.v4;
    return q;
  }
  /// Payload is not looked at, as of memory that stands for none.
  Qp& add_qp(const QpConfig& config, Endpoint& endpoint, QpControl* control = nullptr) {
    qps_.push_back(qp_memory_.make(config, shard.regions(), shard.rc_counters(), endpoint));
    qps_.back()->responder().set_endless_receives();
    Command add;
    add.kind = CommandKind::kAddQp;
    add.qp = qps_.back().get();
    add.endpoint = &endpoint;
    add.control = control;
    add.needs_payload = false;
    command(add);
    return *qps_.back();
  }
  /// The only one of `node`, without contents.
  Rkey add_region(NodeId node, uint64_t bytes) {
    Command add;
    add.kind = CommandKind::kAddRegion;
    add.region_index = node - 1;
    add.region = {node, 0, bytes, kAccessRemoteAny, nullptr, false};
    command(add);
    return shard.regions().rkey(add.region_index);
  }
  void command(Command c) {
    c.sequence = ++sequence_;
    shard.commands().push(c);
    shard.poll(now, sink_for_commands_);
    Reply reply;
    must(shard.replies().pop(reply) && reply.status == ReplyStatus::kDone, "a command's answer");
  }

  uint64_t drops() const {
    uint64_t n = 0;
    for (const uint64_t d : shard.counters().drops) n += d;
    return n;
  }
  uint64_t drops(Drop reason) const { return shard.counters().drops[static_cast<size_t>(reason)]; }
  uint64_t rc(RcEvent e) const { return shard.counters().rc[static_cast<size_t>(e)]; }

  Shard shard;
  Time now;

 private:
  struct NoRoom final : TxSink {
    uint8_t* reserve(uint32_t) override { return nullptr; }
    void commit(uint32_t, Time) override {}
  };
  NoRoom sink_for_commands_;
  Slab<Qp> qp_memory_;
  std::vector<Slab<Qp>::Pointer> qps_;
  uint64_t sequence_ = 0;
};

}  // namespace understudy
