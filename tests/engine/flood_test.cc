// Two real nodes at ports of their own: what one of them floods the emulated nodes with, kind by kind, leaves the other one at least
// 90 % of its rate in virtual time, in both directions, at the flooded node and elsewhere; takes no memory; and leaves nothing behind.
// Requests of RDMA-CM: ctrl/services/cm_flood_test. UNDERSTUDY_FLOOD_TABLE=1 prints what tools/experiments/flood_study shows.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

#include "dataplane/wire/pfc.h"
#include "tests/engine/rig.h"
#include "tests/rigs/live_bytes.h"
#include "tests/rigs/neighbour_frames.h"

namespace understudy {
namespace {

constexpr NodeId kGood = 0, kFlooder = 1, kFlooded = 2, kOther = 3;
constexpr uint32_t kVictims = 3;    ///< connections of each emulated node and direction
constexpr uint32_t kAttackers = 8;  ///< queue pairs that the flooder has
constexpr uint32_t kMessage = 4 << 10;
const Duration kWarmUp = Duration::ms(1), kStep = Duration::us(20);
constexpr uint64_t kPerStep = 16;  ///< frames: 800,000 a second

using Frames = std::vector<std::vector<uint8_t>>;
bool table() { return std::getenv("UNDERSTUDY_FLOOD_TABLE") != nullptr; }
/// Longer where figures are wanted.
Duration measured() { return table() ? Duration::ms(20) : Duration::ms(4); }

/// Of an emulated node and a direction, toward it or from it: bytes that arrived while it was measured.
using Rates = std::map<std::pair<NodeId, bool>, uint64_t>;

class Ports {
 public:
  /// `rate`: of the emulated nodes' links. Those of 10 Gbit/s have room for victims and flood.
  explicit Ports(Rate rate = Rate::bits_per_second(10'000'000'000))
      : shard_(near_config(rate)), far_(far_config()) {
    rkey_of_good_ = far_.add_region(kGood, 1 << 30);
    for (const NodeId node : {kFlooded, kOther}) {
      Command c;
      c.kind = CommandKind::kAddRegion;
      c.region_index = node;
      c.region = {node, 0, 1 << 30, kAccessRemoteRead | kAccessRemoteWrite, nullptr, false};
      command(c);
      for (const bool inward : {false, true}) add_victims(node, inward);
    }
    for (uint32_t i = 0; i < kAttackers; ++i) {
      attacked_.push_back(&add_qp(next_slot(), kFlooded, kFlooder));
    }
  }

  Rates measure(const Frames& flood) {
    run(kWarmUp, flood);
    const Rates before = bytes_;
    run(measured(), flood);
    Rates out = bytes_;
    for (auto& [group, bytes] : out) bytes -= before.at(group);
    return out;
  }
  /// Without measuring.
  void run(Duration time, const Frames& flood) {
    for (const Time end = now_ + time; now_ < end;) {
      keep_busy();
      receive_flood(flood);
      const Time until = now_ + kStep;
      for (Time next; (next = std::min(shard_.next_wake(), far_.shard.next_wake())) <= until;) {
        now_ = std::max(now_, next);
        cross();
      }
      now_ = until;
      cross();
      count();
    }
  }

  /// A frame of the flooder's to queue pair `slot` of those that it has.
  std::vector<uint8_t> request(uint32_t slot, RoceFields f, uint32_t payload = 0) const {
    if (f.dest_qpn == 0) f.dest_qpn = attacked_[slot]->config().qpn;
    return roce_frame(addressing(), f, std::vector<uint8_t>(payload, 7));
  }
  RoceAddressing addressing(bool v6 = false) const {
    RoceAddressing a;
    a.src_mac = node_mac(kFlooder);
    a.dst_mac = node_mac(kFlooded);
    a.src = node_ip(kFlooder, v6);
    a.dst = node_ip(kFlooded, v6);
    return a;
  }
  /// The emulated node writes to the flooder by these queue pairs.
  void write_to_flooder() {
    for (Qp* qp : attacked_) to_flooder_.push_back(qp);
  }
  Qpn victim() const { return victims_.front().near->config().qpn; }
  Rkey rkey() const { return shard_.regions().rkey(kFlooded); }
  uint64_t drops(Drop reason) const {
    return shard_.counters(1).drops[static_cast<size_t>(reason)];
  }
  uint64_t rc(RcEvent event) const { return shard_.counters(1).rc[static_cast<size_t>(event)]; }
  const ShardCounters& counters() const { return shard_.counters(1); }
  uint64_t flooded() const { return flooded_; }
  uint64_t lost() const { return far_.endpoint.failures + failures_; }
  double flood_ns() const { return flooded_ == 0 ? 0 : spent_ns_ / static_cast<double>(flooded_); }
  /// Whether the flooder's queue pair `slot`, which expects `psn`, still answers.
  bool answers(uint32_t slot, Psn psn) {
    RoceFields f;
    f.opcode = Opcode::kSendOnly;
    f.psn = psn;
    f.ack_request = true;
    const uint64_t before = acks();
    receive(1, request(slot, f, 16));
    run(Duration::us(400), {});
    return acks() > before;
  }

 private:
  struct Victim {
    Qp *near, *far;
    NodeId node;
    bool inward;
  };

  static ShardConfig near_config(Rate rate) {
    ShardConfig config = rig_config(rate, Duration::us(2), 4);
    config.rates[kFlooder] = Rate::bits_per_second(10'000'000'000);
    config.rates[kGood] = Rate::bits_per_second(1'000'000'000);
    NodeTable nodes;
    for (NodeNic nic : config.nodes.nics()) {
      nic.real = nic.id == kGood || nic.id == kFlooder;
      nodes.add(nic);
    }
    config.nodes = nodes;
    config.wires.resize(2);
    config.packets = 2048;
    return config;
  }
  static ShardConfig far_config() {
    ShardConfig config = rig_config(Rate(), Duration(), 4, kFlooded);
    config.packets = 4096;
    return config;
  }

  void command(Command c) {
    c.sequence = ++sequence_;
    shard_.commands().push(c);
    poll();
    Reply reply;
    ASSERT_TRUE(shard_.replies().pop(reply));
    ASSERT_EQ(reply.status, ReplyStatus::kDone);
  }
  uint32_t next_slot() { return slots_++; }
  QpConfig qp_config(uint32_t slot, NodeId node, NodeId peer) const {
    QpConfig c;
    c.node = node;
    c.qpn = shard_.qpn_of(slot);
    c.remote_qpn = far_.shard.qpn_of(slot);
    c.timeout = 12;
    c.retry_count = 250;
    c.addressing.src_mac = node_mac(node);
    c.addressing.dst_mac = node_mac(peer);
    c.addressing.src = node_ip(node);
    c.addressing.dst = node_ip(peer);
    return c;
  }
  Qp& add_qp(uint32_t slot, NodeId node, NodeId peer) {
    const QpConfig config = qp_config(slot, node, peer);
    qps_.push_back(std::make_unique<Qp>(config, shard_.regions(),
                                        shard_.rc_counters(config.addressing.dst), endpoint_));
    qps_.back()->responder().set_endless_receives();
    Command c;
    c.kind = CommandKind::kAddQp;
    c.qp = qps_.back().get();
    c.endpoint = &endpoint_;
    c.needs_payload = true;
    command(c);
    return *qps_.back();
  }
  void add_victims(NodeId node, bool inward) {
    for (uint32_t i = 0; i < kVictims; ++i) {
      const uint32_t slot = next_slot();
      Qp& near = add_qp(slot, node, kGood);
      QpConfig c = far_.qp_config(slot, kGood, node);
      c.timeout = 12;
      c.retry_count = 250;
      c.remote_qpn = near.config().qpn;
      victims_.push_back({&near, &far_.add_qp(c), node, inward});
      groups_[inward ? near.config().qpn : c.qpn] = {node, inward};
      bytes_[{node, inward}] = 0;
    }
  }

  void keep_busy() {
    WorkRequest r;
    r.length = kMessage;
    for (const Victim& v : victims_) {
      r.rkey = v.inward ? shard_.regions().rkey(v.node) : rkey_of_good_;
      Qp& sender = v.inward ? *v.far : *v.near;
      EndpointHost& host = v.inward ? static_cast<EndpointHost&>(far_.shard) : shard_;
      while (sender.outstanding() < 4 && host.post(now_, sender, r)) {
      }
    }
    r.rkey = 1;
    for (Qp* qp : to_flooder_) {
      while (qp->outstanding() < 4 && shard_.post(now_, *qp, r)) {
      }
    }
  }
  void receive(uint32_t port, std::span<const uint8_t> frame) {
    const std::span<const uint8_t> one[] = {frame};
    shard_.rx({now_, Duration(), one, port});
  }
  void receive_flood(const Frames& flood) {
    if (flood.empty()) return;
    std::array<std::span<const uint8_t>, kPerStep> burst;
    for (auto& frame : burst) frame = flood[flooded_++ % flood.size()];
    const double begin = cpu_ns();
    shard_.rx({now_, Duration(), burst, 1});
    spent_ns_ += cpu_ns() - begin;
  }
  static double cpu_ns() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  }
  void poll() {
    for (RigSink& sink : sinks_) sink.now = now_;
    TxSink* const to[] = {&sinks_[0], &sinks_[1]};
    shard_.poll(now_, to);
  }
  /// What is due goes over the cable of the node that is good; nobody hears the other one's.
  void cross() {
    poll();
    far_.poll(now_);
    for (const SentFrame& frame : sinks_[0].sent) {
      if (is_for_good(frame.bytes)) far_.receive(frame.bytes);
    }
    for (const SentFrame& frame : far_.sink.sent) receive(0, frame.bytes);
    sinks_[0].sent.clear();
    sinks_[1].sent.clear();
    far_.sink.sent.clear();
  }
  /// Its NIC hears no other MAC than its own and those of groups.
  static bool is_for_good(const std::vector<uint8_t>& frame) {
    const MacAddress own = node_mac(kGood);
    return (frame[0] & 1) != 0 || std::equal(own.bytes.begin(), own.bytes.end(), frame.begin());
  }
  void count() {
    for (RigEndpoint* endpoint : {&endpoint_, &far_.endpoint}) {
      for (const auto& seen : endpoint->received) {
        if (const auto at = groups_.find(seen.qpn); at != groups_.end())
          bytes_[at->second] += seen.id;
      }
      endpoint->received.clear();
      endpoint->completed.clear();
      endpoint->transmitted.clear();
    }
    // What became of the flooder's own connections is the flooder's doing.
    failures_ = 0;
    for (const Victim& v : victims_) failures_ += v.near->state() == QpState::kRts ? 0 : 1;
  }
  uint64_t acks() const { return shard_.counters(1).rc[static_cast<size_t>(RcEvent::kAckSent)]; }

  Shard shard_;
  Rig far_;
  std::array<RigSink, 2> sinks_;
  RigEndpoint endpoint_;
  std::vector<std::unique_ptr<Qp>> qps_;
  std::vector<Victim> victims_;
  std::vector<Qp*> attacked_, to_flooder_;
  std::map<Qpn, std::pair<NodeId, bool>> groups_;  ///< by the receiver's number
  Rates bytes_;
  Rkey rkey_of_good_ = 0;
  Time now_;
  uint32_t slots_ = 0;
  uint64_t sequence_ = 0, flooded_ = 0, failures_ = 0;
  double spent_ns_ = 0;
};

/// A kind of flood: its frames, which are sent again and again, and how many of them have been what they were to be.
struct Kind {
  const char* name;
  std::function<Frames(Ports&)> frames;
  std::function<uint64_t(const Ports&)> seen;
};

std::function<uint64_t(const Ports&)> dropped_for(Drop reason) {
  return [reason](const Ports& p) { return p.drops(reason); };
}
std::function<uint64_t(const Ports&)> counted_as(RcEvent event) {
  return [event](const Ports& p) { return p.rc(event); };
}
uint64_t answered(const Ports& p) { return p.counters().neighbour_answers; }

Frames many(const std::vector<uint8_t>& frame) { return Frames(1, frame); }

RoceFields write_request() {
  RoceFields f;
  f.opcode = Opcode::kWriteOnly;
  f.dma_length = 256;
  f.ack_request = true;
  return f;
}

Frames noise() {
  std::mt19937_64 random(1);
  Frames frames;
  for (size_t bytes = 1; bytes <= 1500; bytes += 31) {
    frames.push_back(random_bytes(bytes, random));
    // The flooded node's own address before noise, of IPv4, IPv6 and others.
    for (const uint16_t type : std::initializer_list<uint16_t>{0x0800, 0x86dd, 0x8808, 0x88b5}) {
      frames.push_back(l2(node_mac(kFlooded), node_mac(kFlooder), std::nullopt, type));
      const auto rest = random_bytes(bytes, random);
      frames.back().insert(frames.back().end(), rest.begin(), rest.end());
    }
  }
  return frames;
}

/// To all queue pairs of the flooder's.
Frames to_own(const Ports& ports, const RoceFields& f, uint32_t payload = 0) {
  Frames frames;
  for (uint32_t slot = 0; slot < kAttackers; ++slot)
    frames.push_back(ports.request(slot, f, payload));
  return frames;
}

Frames answers_to_own(Ports& ports, Opcode opcode, uint8_t syndrome) {
  ports.write_to_flooder();
  RoceFields f;
  f.opcode = opcode;
  f.syndrome = syndrome;
  return to_own(ports, f);
}

std::vector<uint8_t> arp(NodeId as, const MacAddress& mac) {
  auto frame = arp_request(node_ip(as), node_ip(kFlooded));
  std::copy(mac.bytes.begin(), mac.bytes.end(), frame.begin() + 6);
  std::copy(mac.bytes.begin(), mac.bytes.end(), frame.begin() + 22);
  return frame;
}

std::vector<uint8_t> tcp_syn(const RoceAddressing& a) {
  std::vector<uint8_t> out(a.l2_bytes() + a.l3_bytes() + 20);
  write_l2_l3(out.data(), a, kIpProtoTcp, 20);
  out[out.size() - 7] = 2;  // SYN
  return out;
}

std::vector<uint8_t> pause_of_all_classes() {
  PfcFrame pfc;
  pfc.source = node_mac(kFlooder);
  pfc.priorities = 0xff;
  pfc.quanta.fill(kMostPfcQuanta);
  std::vector<uint8_t> out(kPfcFrameBytes);
  write_pfc(pfc, out.data());
  return out;
}

const std::vector<Kind> kKinds = {
    {"noise: no protocol, cut short, random", [](Ports&) { return noise(); },
     [](const Ports& p) {
       return p.drops(Drop::kTruncated) + p.drops(Drop::kBadIp) + p.drops(Drop::kOtherEthertype);
     }},
    {"RoCE with a wrong ICRC",
     [](Ports& p) {
       auto frame = p.request(0, write_request(), 256);
       frame.back() ^= 1;
       return many(frame);
     },
     dropped_for(Drop::kBadIcrc)},
    {"to queue pairs that do not exist",
     [](Ports& p) {
       RoceFields f = write_request();
       Frames frames;
       for (Qpn qpn = 0x100; qpn < 0x100 + 64; ++qpn) {
         f.dest_qpn = qpn << 8;
         frames.push_back(p.request(0, f, 256));
       }
       return frames;
     },
     dropped_for(Drop::kUnknownQpn)},
    {"to the other peer's queue pairs, from the own address",
     [](Ports& p) {
       RoceFields f = write_request();
       f.dest_qpn = p.victim();
       return many(p.request(0, f, 256));
     },
     dropped_for(Drop::kWrongAddress)},
    {"to the other peer's queue pairs, in its name",
     [](Ports& p) {
       RoceFields f = write_request();
       f.dest_qpn = p.victim();
       f.psn = Psn(0x700000);
       RoceAddressing a = p.addressing();
       a.src = node_ip(kGood);
       return many(roce_frame(a, f, std::vector<uint8_t>(256)));
     },
     dropped_for(Drop::kWrongAddress)},
    {"requests with wrong memory keys",
     [](Ports& p) {
       RoceFields f = write_request();
       f.rkey = 0xbad;
       return to_own(p, f, 256);
     },
     [](const Ports& p) { return p.rc(RcEvent::kRemoteAccess) + p.rc(RcEvent::kWrongState); }},
    {"the same right request again and again",
     [](Ports& p) {
       RoceFields f = write_request();
       f.rkey = p.rkey();
       return to_own(p, f, 256);
     },
     counted_as(RcEvent::kDuplicateRequest)},
    {"requests far ahead of the expected one",
     [](Ports& p) {
       RoceFields f = write_request();
       f.rkey = p.rkey();
       f.psn = Psn(0x1000);
       return to_own(p, f, 256);
     },
     counted_as(RcEvent::kPsnGap)},
    {"acknowledgements of what was not sent",
     [](Ports& p) { return answers_to_own(p, Opcode::kAcknowledge, kSyndromeAck); },
     counted_as(RcEvent::kGhostAck)},
    {"NAKs: out of sequence",
     [](Ports& p) { return answers_to_own(p, Opcode::kAcknowledge, kSyndromeNak); },
     counted_as(RcEvent::kNakReceived)},
    {"NAKs: receiver not ready",
     [](Ports& p) { return answers_to_own(p, Opcode::kAcknowledge, kSyndromeRnrNak | 1); },
     counted_as(RcEvent::kRnrReceived)},
    {"CNPs to its own queue pairs", [](Ports& p) { return answers_to_own(p, Opcode::kCnp, 0); },
     [](const Ports& p) { return p.counters().cnp_received; }},
    {"RDMA-CM in the other peer's name",
     [](Ports& p) {
       RoceFields f;
       f.opcode = Opcode::kUdSendOnly;
       f.dest_qpn = f.src_qpn = kGsiQpn;
       f.qkey = kGsiQkey;
       RoceAddressing a = p.addressing();
       a.src = node_ip(kGood);
       return many(roce_frame(a, f, std::vector<uint8_t>(256)));
     },
     dropped_for(Drop::kWrongAddress)},
    {"CNPs to the other peer's queue pairs",
     [](Ports& p) {
       RoceFields f;
       f.opcode = Opcode::kCnp;
       f.dest_qpn = p.victim();
       return many(p.request(0, f));
     },
     dropped_for(Drop::kWrongAddress)},
    {"ARP requests", [](Ports&) { return many(arp(kFlooder, node_mac(kFlooder))); }, answered},
    {"ARP requests in the other peer's name",
     [](Ports&) {
       return many(arp(kGood, MacAddress{{2, 0, 0, 0, 0, 0x66}}));
     },
     answered},
    {"neighbour solicitations",
     [](Ports& p) { return many(solicitation(p.addressing(true), node_ip(kFlooded, true))); },
     answered},
    {"echo requests", [](Ports& p) { return many(echo_request(p.addressing(), 1000)); }, answered},
    {"TCP connects, which the host does not take",
     [](Ports& p) { return many(tcp_syn(p.addressing())); },
     [](const Ports& p) { return p.counters().to_host + p.drops(Drop::kHostRingFull); }},
    {"PFC pauses of all classes", [](Ports&) { return many(pause_of_all_classes()); },
     [](const Ports& p) { return p.counters().rx_frames; }},
};

class Flood : public testing::TestWithParam<size_t> {
 protected:
  const Kind& kind() const { return kKinds[GetParam()]; }
};

/// Thousandths of what they have alone, of the group that has least.
uint64_t least_share(const Rates& now, const Rates& alone) {
  uint64_t least = 1000;
  for (const auto& [group, bytes] : alone) least = std::min(least, now.at(group) * 1000 / bytes);
  return least;
}

/// While nobody floods: in two measurements, with a pause between them.
struct Alone {
  Rates first, then;
};
const Alone& alone() {
  static const Alone rates = [] {
    Ports ports;
    ports.run(kWarmUp, {});
    Alone out;
    out.first = ports.measure({});
    ports.run(kWarmUp, {});
    out.then = ports.measure({});
    return out;
  }();
  return rates;
}

TEST_P(Flood, LeavesOthersTheirRate) {
  for (const auto& [group, bytes] : alone().first)
    EXPECT_GT(bytes, 150'000u) << group.first << group.second;
  Ports ports;
  const Frames frames = kind().frames(ports);
  ports.run(kWarmUp, frames);  // buffers of the test's own grow
  const long long before = live_bytes;
  const uint64_t during = least_share(ports.measure(frames), alone().first);
  const long long grown = live_bytes - before;
  ports.run(kWarmUp, {});
  const uint64_t after = least_share(ports.measure({}), alone().then);
  EXPECT_GE(during, 900u);
  EXPECT_GE(after, 950u);
  EXPECT_LT(std::abs(grown), 1 << 16);
  EXPECT_GE(kind().seen(ports) * 10, ports.flooded() * 9);
  EXPECT_EQ(ports.lost(), 0u) << "a connection of the other peer's has ended";
  if (table()) {
    std::printf("| %s | %.1f | %.1f | %lld | %.0f |\n", kind().name,
                static_cast<double>(during) / 10, static_cast<double>(after) / 10, grown,
                ports.flood_ns());
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, Flood, testing::Range(size_t{0}, kKinds.size()));

// Right packets in such numbers are traffic like any other: on a link that they fill there is little left for others, as on a wire. Other
// links do not notice.
TEST(FloodThatFillsALink, OtherNodesKeepTheirRate) {
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  Ports quiet(rate), ports(rate);
  RoceFields f = write_request();
  f.rkey = ports.rkey();
  const Frames frames = to_own(ports, f, 256);  // 2.1 Gbit/s
  quiet.run(kWarmUp, {});
  ports.run(kWarmUp, frames);
  const Rates alone = quiet.measure({}), flooded = ports.measure(frames);
  const auto share = [&](NodeId node) {
    uint64_t least = 1000;
    for (const bool inward : {false, true}) {
      least = std::min(least, flooded.at({node, inward}) * 1000 / alone.at({node, inward}));
    }
    return least;
  };
  EXPECT_GE(share(kOther), 900u);
  EXPECT_LT(share(kFlooded), 500u) << "it was to fill that node's link";
  EXPECT_EQ(ports.lost(), 0u);
  if (table()) {
    std::printf(
        "a flood of 2.1 Gbit/s of right requests to a node with 1 Gbit/s: others keep %.1f %% with "
        "that node, %.1f %% with the other\n",
        static_cast<double>(share(kFlooded)) / 10, static_cast<double>(share(kOther)) / 10);
  }
}

}  // namespace
}  // namespace understudy
