// A flood of RDMA-CM requests through the whole stack, under virtual time: frames come in at the
// port, control answers, and other connections of the same port keep at least 90 % of their rate.
// What peers can make it use ends with the configuration's limits.
#include <gtest/gtest.h>

#include <map>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/services/cm_control.h"
#include "dataplane/cm/rdma_cm.h"
#include "tests/engine/rig.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

// The real node's link has room for all that it sends; those of the emulated nodes have not.
constexpr char kConfig[] = R"(format = 1
[limits]
packets = 2048
queue_pairs = 96
regions = 48
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "10Gbit/s", latency = "2us" }
[[node]]
name = "w"
count = 2
link = { rate = "1Gbit/s", latency = "2us" }
[[port]]
real = "gpu"
device = "virtual"
[[service]]
node = "w0"
port = 7174
kind = "rping"
)";
constexpr uint32_t kQueuePairs = 96;
constexpr NodeId kFlooded = 1, kOther = 2;
constexpr uint32_t kVictims = 6;  ///< of each node and direction
constexpr uint32_t kMessage = 16 << 10;
constexpr Duration kWarmUp = Duration::ms(5), kMeasured = Duration::ms(20),
                   kStep = Duration::us(20);

ShardConfig far_config() {
  ShardConfig c = rig_config(Rate(), Duration(), 3, 1);
  c.packets = 4096;
  return c;
}

class Flood {
 public:
  /// Control looks in every `control_period` steps.
  explicit Flood(int control_period = 1)
      : config_(*load_config_text(kConfig, "test")),
        pair_(emulator_shard(config_, {0}, MacAddress{}), far_config()),
        control_(pair_.emulated.shard),
        endpoints_(config_, {&control_}),
        cm_(config_, 0, control_, endpoints_,
            {[this](const ServiceReport&) { ++ended_; }, [](const std::string&) {}, {}}),
        period_(control_period) {
    cm_.listen();
    rkey_real_ = pair_.real.add_region(0, 1 << 30);
    addressing_.src_mac = node_mac(0);
    addressing_.dst_mac = pair_.emulated.shard.nodes()[kFlooded].mac;
    addressing_.src = node_ip(0);
    addressing_.dst = node_ip(kFlooded);
  }

  /// Connections of `node`, which write to the real node or, `inward`, are written to by it.
  void add_victims(NodeId node, bool inward) {
    const auto region =
        control_.add_region(node, 1 << 30, kAccessRemoteWrite, RegionKind::kDiscard);
    ASSERT_TRUE(region);
    for (uint32_t i = 0; i < kVictims; ++i) {
      QpConfig near = pair_.emulated.qp_config(0, node, 0),
               far = pair_.real.qp_config(static_cast<uint32_t>(pair_.real.qps.size()), 0, node);
      near.qpn = far.remote_qpn = control_.take_qpn();
      near.remote_qpn = far.qpn;
      near.timeout = far.timeout = 12;
      Qp& qp = control_.add_qp(near, pair_.emulated.endpoint, true,
                               [](Qp& q) { q.responder().set_endless_receives(); });
      Qp& peer = pair_.real.add_qp(far);
      WorkRequest r;
      r.length = kMessage;
      r.rkey = inward ? region->rkey : rkey_real_;
      r.remote_va = inward ? region->va : 0;
      busy_.push_back({inward ? &pair_.real : &pair_.emulated, inward ? &peer : &qp, r});
      group_[(inward ? near : far).qpn] = {node, inward};
    }
    advance(kStep);
  }

  /// A connection by RDMA-CM, as a client makes it.
  CmRep connect(uint32_t id) {
    send(request(id));
    advance(kStep * 2);
    for (const CmMad& mad : heard()) {
      const auto* rep = std::get_if<CmRep>(&mad.message);
      if (rep == nullptr || rep->remote_comm_id != id) continue;
      CmRtu rtu;
      rtu.local_comm_id = id;
      rtu.remote_comm_id = rep->local_comm_id;
      send(rtu);
      advance(kStep);
      return *rep;
    }
    return {};
  }
  /// Whether the connection still takes a message.
  bool answers(const CmRep& rep, uint32_t message) {
    RoceFields f;
    f.opcode = Opcode::kSendOnly;
    f.dest_qpn = rep.qpn;
    f.psn = Psn(rep.starting_psn).advance(message);
    f.ack_request = true;
    const uint64_t before = pair_.emulated.rc(RcEvent::kAckSent);
    pair_.emulated.receive(roce_frame(addressing_, f, std::vector<uint8_t>(16)));
    advance(kStep * 10);  // behind what others have sent
    return pair_.emulated.rc(RcEvent::kAckSent) > before;
  }

  CmReq request(uint32_t id) const {
    CmReq req;
    req.local_comm_id = id;
    req.service_id = rdma_service_id(PortSpace::kTcp, 7174);
    req.ca_guid = 0xc;
    req.qpn = id & 0xffffff;
    req.responder_resources = req.initiator_depth = 1;
    req.local_cm_response_timeout = req.remote_cm_response_timeout = 10;  // 4 ms
    req.path_mtu = 3;
    req.max_cm_retries = 3;
    req.primary.local_gid = node_ip(0);
    req.primary.remote_gid = node_ip(kFlooded);
    req.primary.ack_timeout = 10;
    format_rdma_header({1234, node_ip(0), node_ip(kFlooded)}, req.private_data);
    return req;
  }
  void send(CmMessage message) {
    RoceFields f;
    f.opcode = Opcode::kUdSendOnly;
    f.dest_qpn = f.src_qpn = kGsiQpn;
    f.qkey = kGsiQkey;
    pair_.emulated.receive(roce_frame(addressing_, f, format_mad({5, 0, std::move(message)})));
  }

  void advance(Duration by) {
    const Time until = pair_.emulated.now + by;
    while (pair_.emulated.now < until) {
      for (const Busy& b : busy_) {
        while (b.qp->outstanding() < 4 && b.rig->shard.post(b.rig->now, *b.qp, b.request)) {
        }
      }
      pair_.run(std::min(until, pair_.emulated.now + kStep));
      if (++steps_ % period_ == 0) {
        cm_.poll(pair_.emulated.now);
        control_.poll();
      }
      pair_.to_real.clear();
      pair_.to_emulated.clear();
      for (Rig* rig : {&pair_.emulated, &pair_.real}) {
        for (const auto& seen : rig->endpoint.received) {
          if (const auto at = group_.find(seen.qpn); at != group_.end())
            bytes_[at->second] += seen.id;
        }
        rig->endpoint.received.clear();
        rig->endpoint.completed.clear();
        rig->endpoint.transmitted.clear();
      }
    }
  }
  /// Bytes of each group of victims within the measured time, with `per_step` requests each step.
  using Group = std::pair<NodeId, bool>;
  std::map<Group, uint64_t> measure(uint32_t per_step) {
    std::map<Group, uint64_t> before;
    const Time start = pair_.emulated.now + kWarmUp;
    while (pair_.emulated.now < start + kMeasured) {
      for (uint32_t i = 0; i < per_step; ++i) send(request(next_id_++));
      if (before.empty() && pair_.emulated.now >= start) before = bytes_;
      advance(kStep);
    }
    std::map<Group, uint64_t> out = bytes_;
    for (auto& [group, bytes] : out) bytes -= before[group];
    return out;
  }

  /// Control looks at no more than so many messages; whether there may be more.
  bool turn(size_t most) {
    cm_.poll(pair_.emulated.now, most);
    return cm_.is_behind();
  }

  /// What clients got from the communication manager since the last call.
  std::vector<CmMad> heard() {
    std::vector<CmMad> out;
    while (pair_.real.shard.notices().take([&](const Notice&, std::span<const uint8_t> b) {
      if (auto mad = parse_mad(b)) out.push_back(std::move(*mad));
    })) {
    }
    return out;
  }
  uint64_t counted(const std::string& name) const {
    for (const auto& [n, count] : cm_.counters()) {
      if (n == name) return count;
    }
    ADD_FAILURE() << name;
    return 0;
  }
  uint64_t drops(Drop reason) const { return pair_.emulated.drops(reason); }
  uint64_t failures() const {
    return pair_.emulated.endpoint.failures + pair_.real.endpoint.failures;
  }
  /// Queue pairs that could be made.
  uint32_t free_numbers() {
    uint32_t n = 0;
    while (control_.take_qpn() != 0) ++n;
    return n;
  }
  uint32_t requests() const { return next_id_ - kFirstId; }
  uint64_t ended() const { return ended_; }

 private:
  struct Busy {
    Rig* rig;
    Qp* qp;
    WorkRequest request;
  };
  static constexpr uint32_t kFirstId = 1000;

  Config config_;
  RigPair pair_;
  ShardControl control_;
  ServiceEndpoints endpoints_;
  CmControl cm_;
  int period_, steps_ = 0;
  RoceAddressing addressing_;
  Rkey rkey_real_ = 0;
  std::vector<Busy> busy_;
  std::map<Qpn, Group> group_;  ///< by the receiver's number
  std::map<Group, uint64_t> bytes_;
  uint32_t next_id_ = kFirstId;
  uint64_t ended_ = 0;
};

constexpr uint32_t kFloodPerStep = 4;  ///< 0.6 Gbit/s of requests

void add_all_victims(Flood& flood) {
  flood.add_victims(kFlooded, false);
  flood.add_victims(kOther, false);
  flood.add_victims(kOther, true);
}

// rules: A9.7
TEST(CmFlood, OthersKeepTheirRateAndWhatStandsStands) {
  for (const int control_period :
       {1, 250}) {  // with a control that keeps up, and one that does not
    Flood quiet(control_period);
    add_all_victims(quiet);
    const auto alone = quiet.measure(0);
    Flood flood(control_period);
    std::vector<CmRep> connections;
    for (uint32_t id = 1; control_period == 1 && id <= 8; ++id)
      connections.push_back(flood.connect(id));
    add_all_victims(flood);
    const auto attacked = flood.measure(kFloodPerStep);
    for (const auto& [group, bytes] : alone) {
      const auto& [node, inward] = group;
      EXPECT_GT(bytes, 1'000'000u);
      EXPECT_GE(attacked.at(group) * 10, bytes * 9)
          << "node " << node << (inward ? " in: " : " out: ") << attacked.at(group) << " of "
          << bytes;
    }
    EXPECT_EQ(flood.failures(), 0u);
    for (const CmRep& rep : connections) EXPECT_TRUE(flood.answers(rep, 0)) << rep.qpn;
    EXPECT_GT(flood.requests(), 4000u);
  }
}

/// Each request is answered, or the answer is dropped and counted: of those the clients get as many
/// as a queue pair more among the victims would send.
// rules: A9.7
TEST(CmFlood, WhatIsBeyondTheLimitsIsRefusedOrCounted) {
  Flood flood;
  add_all_victims(flood);
  flood.measure(kFloodPerStep);
  flood.advance(Duration::ms(60));  // whatever was accepted has been given up
  uint64_t accepted = 0, refused = 0, heard = 0;
  for (const CmMad& mad : flood.heard()) {
    ++heard;
    if (const auto* rej = std::get_if<CmRej>(&mad.message)) {
      const bool full = rej->reason == RejReason::kNoResources || rej->reason == RejReason::kNoQp;
      refused += full ? 1 : 0;
      EXPECT_TRUE(full || rej->reason == RejReason::kTimeout) << rej_reason_name(rej->reason);
    } else {
      accepted += std::holds_alternative<CmRep>(mad.message) ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_GT(refused, 200u);
  EXPECT_EQ(flood.counted("received"), flood.requests());
  EXPECT_EQ(flood.drops(Drop::kNoBuffer), 0u);
  EXPECT_EQ(heard + flood.drops(Drop::kQueueFull), flood.counted("sent"));
}

TEST(CmFlood, WhatControlHasNoTimeForIsCounted) {
  Flood flood(1000);
  flood.measure(kFloodPerStep);
  flood.advance(Duration::ms(40));
  EXPECT_GT(flood.drops(Drop::kControlBusy), 100u);
  EXPECT_EQ(flood.counted("received") + flood.drops(Drop::kControlBusy), flood.requests());
}

// What else control has to do has its time, too.
TEST(CmFlood, ATurnTakesNoMoreThanItIsTold) {
  Flood flood(1'000'000);
  flood.measure(kFloodPerStep);
  EXPECT_EQ(flood.counted("received"), 0u);
  EXPECT_TRUE(flood.turn(10));
  EXPECT_EQ(flood.counted("received"), 10u);
  EXPECT_FALSE(flood.turn(1'000'000));
  EXPECT_EQ(flood.counted("received") + flood.drops(Drop::kControlBusy), flood.requests());
}

TEST(CmFlood, MemoryStaysWhatItWas) {
  Flood flood;
  flood.measure(kFloodPerStep);
  flood.heard();
  const long long before = live_bytes;
  for (int i = 0; i < 3; ++i) {
    flood.measure(kFloodPerStep);
    flood.heard();
  }
  EXPECT_LT(std::abs(live_bytes - before), 1 << 20);
}

/// Connections that are not confirmed are given up, and their places return, whichever limit was
/// met.
// rules: A9.7
TEST(CmFlood, AfterItThereIsRoomAgain) {
  Flood flood;
  for (int i = 0; i < 8; ++i) {
    flood.measure(kFloodPerStep);
    flood.advance(Duration::ms(80));
    flood.heard();
    EXPECT_NE(flood.connect(static_cast<uint32_t>(i + 1)).qpn, 0u) << i;
  }
  EXPECT_EQ(flood.free_numbers(), kQueuePairs - 8);
}

}  // namespace
}  // namespace understudy
