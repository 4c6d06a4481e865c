// A peer that floods a node with bad packets or READs: connections of others keep at least 90 % of
// their rate in virtual time, and no memory is taken beyond what the shard was built with.
#include <gtest/gtest.h>

#include <map>

#include "tests/engine/rig.h"
#include "tests/rigs/neighbour_frames.h"

namespace understudy {
namespace {

const Rate kRate = Rate::bits_per_second(1'000'000'000);
const Duration kWarmUp = Duration::ms(5), kMeasured = Duration::ms(20), kStep = Duration::us(20);
constexpr uint32_t kVictims = 12;
constexpr uint32_t kMessage = 16 << 10;

/// Posts the next WRITE as soon as one is done, for ever.
void keep_busy(Rig& rig, size_t first, size_t count, const WorkRequest& r) {
  for (size_t i = first; i < first + count; ++i) {
    while (rig.qps[i]->outstanding() < 4) {
      if (!rig.shard.post(rig.now, *rig.qps[i], r)) return;
    }
  }
}

class Hostile : public testing::Test {
 protected:
  /// `victims` connections of emulated node `node`, which write to the real node or, `inward`, are
  /// written to by it.
  void connect(bool inward, NodeId node, uint32_t packets = 2048) {
    ShardConfig config = rig_config(kRate, Duration::us(2), 4);
    config.packets = packets;
    config.icmp_through_fabric = true;
    ShardConfig far = rig_config(Rate(), Duration(), 4, 1);
    far.packets = 4096;
    pair = std::make_unique<RigPair>(config, far);
    inward_ = inward;
    rkeys[0] = pair->real.add_region(0, 1 << 30);
    rkeys[1] = pair->emulated.add_region(node, 1 << 30);
    for (uint32_t i = 0; i < kVictims; ++i) add_pair(i, node);
  }
  void add_pair(uint32_t slot, NodeId node) {
    QpConfig near = pair->emulated.qp_config(slot, node, 0),
             far = pair->real.qp_config(slot, 0, node);
    near.timeout = far.timeout = 12;
    near.retry_count = far.retry_count = 250;
    pair->emulated.add_qp(near);
    pair->real.add_qp(far);
  }

  /// Bytes that the victims' receivers got within the measured time, while `attack` acts every
  /// step.
  uint64_t measure(const std::function<void()>& attack) {
    WorkRequest r;
    r.length = kMessage;
    r.rkey = rkeys[inward_ ? 1 : 0];
    Rig& sender = inward_ ? pair->real : pair->emulated;
    Rig& receiver = inward_ ? pair->emulated : pair->real;
    uint64_t before = 0;
    const auto received = [&] {
      uint64_t n = 0;
      for (const auto& seen : receiver.endpoint.received) {
        if (seen.qpn - receiver.shard.qpn_of(0) < kVictims) n += seen.id;
      }
      return n;
    };
    Time t = pair->emulated.now;
    const Time start = t + kWarmUp, end = start + kMeasured;
    for (bool begun = false; t < end; t += kStep) {
      if (!begun && t >= start) {
        begun = true;
        before = received();
      }
      keep_busy(sender, 0, kVictims, r);
      attack();
      pair->run(t + kStep);
      pair->to_real.clear();
      pair->to_emulated.clear();
    }
    return received() - before;
  }

  /// As measure(), while the real node reads from `readers` queue pairs of these nodes: each has so
  /// many READs of 1 MiB posted at any time.
  uint64_t measure_with_reads(const std::vector<NodeId>& nodes, uint32_t readers, size_t posted) {
    std::map<NodeId, Rkey> rkey;
    for (const NodeId node : nodes) {
      Command c;
      c.kind = CommandKind::kAddRegion;
      c.region_index = 2 + node;
      c.region = {node, 0, 1 << 30, kAccessRemoteRead, nullptr, false};
      EXPECT_EQ(pair->emulated.command(c), ReplyStatus::kDone);
      rkey[node] = pair->emulated.shard.regions().rkey(c.region_index);
    }
    std::vector<std::pair<Qp*, WorkRequest>> reading;
    for (uint32_t i = 0; i < readers; ++i) {
      const NodeId node = nodes[i % nodes.size()];
      add_pair(kVictims + i, node);
      WorkRequest read;
      read.op = WorkOp::kRead;
      read.length = 1 << 20;
      read.rkey = rkey[node];
      reading.emplace_back(pair->real.qps.back().get(), read);
    }
    return measure([&] {
      for (auto& [qp, read] : reading) {
        while (qp->outstanding() < posted && pair->real.shard.post(pair->real.now, *qp, read)) {
        }
      }
    });
  }

  /// A frame as the real node could send it to the first victim's queue pair.
  std::vector<uint8_t> frame(const RoceFields& fields, uint32_t payload = 0) {
    RoceFields f = fields;
    if (f.dest_qpn == 0) f.dest_qpn = pair->emulated.qps[0]->config().qpn;
    const RoceAddressing& a = pair->real.qps[0]->config().addressing;
    return roce_frame(a, f, std::vector<uint8_t>(payload));
  }
  void flood(const std::vector<std::vector<uint8_t>>& frames) {
    for (const auto& f : frames) pair->emulated.receive(f);
  }

  std::unique_ptr<RigPair> pair;
  Rkey rkeys[2] = {};

 private:
  bool inward_ = false;
};

TEST_F(Hostile, BadPacketsCostOthersNothing) {
  for (const bool inward : {false, true}) {
    connect(inward, 1);
    const uint64_t alone = measure([] {});
    connect(inward, 1);
    RoceFields f;
    f.opcode = Opcode::kWriteOnly;
    f.dma_length = 1024;
    std::vector<std::vector<uint8_t>> bad(7, frame(f, 1024));
    bad[0].back() ^= 1;                // ICRC
    bad[1].resize(bad[1].size() / 2);  // cut short
    f.dest_qpn = 0xabcdef;             // nobody's
    bad[2] = frame(f, 1024);
    f.dest_qpn = 0;
    f.pkey = 0x1234;
    bad[3] = frame(f, 1024);
    f.pkey = 0xffff;
    f.opcode = Opcode::kUdSendOnly;  // of another service
    bad[4] = frame(f);               // crosses the links, so it is short
    bad[5][14 + 20 + 8 + 1] |= 7;    // TVer
    bad[6][14 + 12 + 3] ^= 9;        // another source address
    const uint64_t attacked = measure([&] { flood(bad); });
    EXPECT_GE(attacked * 10, alone * 9) << attacked << " of " << alone << (inward ? " in" : " out");
    EXPECT_GT(alone, uint64_t{1'000'000});
    EXPECT_GT(pair->emulated.shard.counters().drops[static_cast<size_t>(Drop::kBadIcrc)], 1000u);
  }
}

// Good packets of the right addresses whose PSN is outside the window: each is looked at by the
// attacker's own queue pair only, which answers the first gap and no other.
TEST_F(Hostile, PacketsOutsideTheWindowAreNotAnsweredOneByOne) {
  connect(false, 1);
  const uint64_t alone = measure([] {});
  connect(false, 1);
  add_pair(kVictims, 1);
  RoceFields f;
  f.opcode = Opcode::kSendOnly;
  f.dest_qpn = pair->emulated.qps[kVictims]->config().qpn;
  f.ack_request = true;
  f.psn = Psn(77);
  const auto ahead = frame(f);
  const uint64_t attacked = measure([&] { flood({ahead, ahead, ahead, ahead}); });
  EXPECT_GE(attacked * 10, alone * 9) << attacked << " of " << alone;
  EXPECT_EQ(pair->emulated.rc(RcEvent::kNakSent), 1u);
}

// The attacker asks for as much as a queue pair may. All queue pairs of a node take turns, so one
// among twelve others takes a thirteenth.
TEST_F(Hostile, ReadsOfOneTakeNoMoreThanItsTurn) {
  connect(false, 1);
  const uint64_t alone = measure([] {});
  connect(false, 1);
  add_pair(kVictims, 1);
  WorkRequest read;
  read.op = WorkOp::kRead;
  read.length = 1 << 20;
  read.rkey = rkeys[1];
  const uint64_t attacked = measure([&] { keep_busy(pair->real, kVictims, 1, read); });
  EXPECT_GE(attacked * 10, alone * 9) << attacked << " of " << alone;
  EXPECT_LT(attacked, alone);
}

constexpr size_t kBusy = 2;     ///< READs that keep a node's link busy
constexpr size_t kFlood = 200;  ///< far more than the responder has resources for

// From another node they meet the victims' packets in front of the real node's link, which the real
// node loads itself. A flood gets of it what READs get that merely keep their node's link busy, by
// however many queue pairs it comes.
TEST_F(Hostile, ReadsOfAFloodGetNoMoreThanThoseOfBusyReaders) {
  connect(false, 2);
  const uint64_t alone = measure([] {});
  for (const uint32_t readers : {1u, 3u}) {
    for (const uint32_t packets : {2048u, 8192u}) {
      connect(false, 2, packets);
      const uint64_t busy = measure_with_reads({1}, readers, kBusy);
      connect(false, 2, packets);
      const uint64_t attacked = measure_with_reads({1}, readers, kFlood);
      EXPECT_GE(attacked * 10, busy * 9) << attacked << " of " << busy;
      EXPECT_GE(busy * 100, alone * 45) << busy << " of " << alone;  // two nodes, so by halves
      // What it asks for beyond the responder's resources waits at its own end.
      EXPECT_EQ(pair->emulated.rc(RcEvent::kNakSent), 0u);
      EXPECT_EQ(pair->real.endpoint.failures, 0u);
    }
  }
}

// What is read from two nodes at once fills the queue in front of the real node's link, with all
// packets that may be used for what goes out. What the real node sends meanwhile still comes in.
TEST_F(Hostile, ReadsLoseNobodysIncomingPackets) {
  for (const uint32_t packets : {1024u, 2048u}) {
    connect(true, 2, packets);
    const uint64_t busy = measure_with_reads({1, 2}, 2, kBusy);
    connect(true, 2, packets);
    const uint64_t attacked = measure_with_reads({1, 2}, 6, kFlood);
    EXPECT_GE(attacked * 10, busy * 9) << attacked << " of " << busy;
    EXPECT_GT(attacked, 1'500'000u);
    EXPECT_EQ(pair->emulated.drops(Drop::kNoBuffer), 0u) << packets;
  }
}

// Echoes that cross the fabric take turns with the queue pairs of their node.
TEST_F(Hostile, EchoesLeaveQueuePairsTheirTurns) {
  connect(false, 1);
  const uint64_t alone = measure([] {});
  connect(false, 1);
  RoceAddressing a = pair->real.qps[0]->config().addressing;
  const std::vector<std::vector<uint8_t>> pings(8, echo_request(a, 200));
  const uint64_t attacked = measure([&] { flood(pings); });
  EXPECT_GE(attacked * 10, alone * 9) << attacked << " of " << alone;
  EXPECT_GT(pair->emulated.drops(Drop::kQueueFull), 1000u);
}

// Nodes behind slow links are flooded faster than they can take; another one is written to.
TEST_F(Hostile, AFullQueueLosesItsOwnPacketsOnly) {
  const auto slow = [&](const std::vector<NodeId>& nodes) {
    connect(true, 2);
    Command c;
    c.kind = CommandKind::kSetLink;
    c.change.rate = Rate::bits_per_second(10'000'000);
    for (const NodeId node : nodes) {
      c.node = node;
      EXPECT_EQ(pair->emulated.command(c), ReplyStatus::kDone);
      add_pair(kVictims + node, node);
    }
    c.node = 0;
    c.change.rate = Rate::bits_per_second(10'000'000'000);  // room for victims and flood
    EXPECT_EQ(pair->emulated.command(c), ReplyStatus::kDone);
  };
  for (const std::vector<NodeId>& nodes : {std::vector<NodeId>{1}, {1, 3}}) {
    slow(nodes);
    const uint64_t alone = measure([] {});
    slow(nodes);
    std::vector<std::vector<uint8_t>> flooding;
    for (size_t i = kVictims; i < pair->emulated.qps.size(); ++i) {
      RoceFields f;
      f.opcode = Opcode::kSendOnly;
      f.dest_qpn = pair->emulated.qps[i]->config().qpn;
      const auto packet =
          roce_frame(pair->real.qps[i]->config().addressing, f, std::vector<uint8_t>(512));
      flooding.insert(flooding.end(), 8, packet);
    }
    const uint64_t attacked = measure([&] { flood(flooding); });
    EXPECT_GT(pair->emulated.drops(Drop::kQueueFull), 1000u);
    if (nodes.size() == 1) {
      EXPECT_GE(attacked * 10, alone * 9) << attacked << " of " << alone;
      EXPECT_EQ(pair->emulated.drops(Drop::kNoBuffer), 0u);
    } else {  // the victims' windows are more than is left, but they are not locked out
      EXPECT_GE(attacked * 2, alone) << attacked << " of " << alone;
    }
  }
}

TEST_F(Hostile, MoreReadsThanAllowedEndTheAttackersConnection) {
  connect(false, 1);
  const uint64_t alone = measure([] {});
  connect(false, 1);
  add_pair(kVictims, 1);
  RoceFields f;
  f.opcode = Opcode::kReadRequest;
  f.dest_qpn = pair->emulated.qps[kVictims]->config().qpn;
  f.rkey = rkeys[1];
  f.dma_length = 1 << 30;
  f.ack_request = true;
  const auto attack = [&] {
    std::vector<std::vector<uint8_t>> frames;
    for (int i = 0; i < 32; ++i) {
      frames.push_back(frame(f));
      f.psn = f.psn.advance(f.dma_length / 1024);
    }
    flood(frames);
  };
  const uint64_t attacked = measure(attack);
  EXPECT_GE(attacked * 10, alone * 9) << attacked << " of " << alone;
  EXPECT_EQ(pair->emulated.qps[kVictims]->state(), QpState::kError);
}

}  // namespace
}  // namespace understudy
