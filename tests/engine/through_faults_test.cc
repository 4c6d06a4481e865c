// Faults met by what passes between two real nodes: in front of the fabric and behind it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>

#include "dataplane/wire/build.h"
#include "tests/engine/rig.h"

namespace understudy {
namespace {

const Duration kLatency = Duration::us(3);  // of each of the two links
constexpr uint32_t kPackets = 10, kBytes = 64;
constexpr Qpn kTheirs = 0x77;

Fault fault(FaultAction action, FaultDirection direction) {
  Fault f;
  f.action = action;
  f.direction = direction;
  return f;
}

/// What frames look like.
struct Form {
  bool v6 = false;
  std::optional<uint16_t> tci;
};

const std::vector<Form> kForms = {
    {false, std::nullopt}, {false, 0x6005}, {true, std::nullopt}, {true, 0x6005}};

/// Nodes 0 to 2 are real, 3 is emulated. Ten WRITEs of 64 bytes go from 0 to 1, 1 us apart; to
/// several receivers in turn, whose queue pairs have the same number.
class ThroughFaults : public testing::TestWithParam<FaultDirection> {
 protected:
  void run(const std::vector<Fault>& faults, Form form = {}, uint32_t receivers = 1) {
    ShardConfig config = rig_config(Rate(), kLatency, 4);
    NodeTable nodes;
    for (NodeNic nic : config.nodes.nics()) {
      nic.real = nic.id < 3;
      nodes.add(nic);
    }
    config.nodes = nodes;
    if (form.tci) tag_nodes(config, *form.tci);
    config.wires.resize(3);
    config.faults = faults;
    shard = std::make_unique<Shard>(config);
    sinks = {};
    frames.clear();
    RoceAddressing a;
    a.src_mac = node_mac(0);
    a.src = node_ip(0, form.v6);
    a.vlan_tci = form.tci;
    a.traffic_class = 2;  // ECN-capable
    for (uint32_t i = 0; i < kPackets; ++i) {
      const NodeId to = 1 + i % receivers;
      a.dst_mac = node_mac(to);
      a.dst = node_ip(to, form.v6);
      RoceFields f;
      f.opcode = Opcode::kWriteMiddle;
      f.psn = Psn(i);
      f.dest_qpn = kTheirs;
      const std::vector<uint8_t> payload(kBytes, static_cast<uint8_t>(i));
      frames.push_back(roce_frame(a, f, payload));
    }
    for (uint32_t i = 0; i < kPackets; ++i) {
      advance(sent(i));
      const std::span<const uint8_t> one[] = {frames[i]};
      shard->rx({sent(i), Duration(), one, 0});
    }
    advance(Time::zero() + Duration::ms(100));
    EXPECT_TRUE(sinks[0].sent.empty());
    EXPECT_TRUE(shard->next_wake().is_never());
  }
  static Time sent(uint32_t i) { return Time::zero() + Duration::us(i); }
  static Time come(uint32_t i) { return sent(i) + kLatency * 2; }
  void advance(Time until) {
    while (shard->next_wake() <= until) poll(std::max(now, shard->next_wake()));
    poll(until);
  }
  void poll(Time at) {
    now = at;
    TxSink* const to[] = {&sinks[0], &sinks[1], &sinks[2]};
    for (RigSink& sink : sinks) sink.now = at;
    shard->poll(at, to);
  }
  /// PSNs of what came to a node, in order.
  std::vector<uint32_t> psns(uint32_t node = 1) const {
    std::vector<uint32_t> out;
    for (const SentFrame& frame : sinks[node].sent)
      out.push_back(Parsed(frame.bytes).roce.psn.value());
    return out;
  }
  static bool good(const SentFrame& frame) {
    const Parsed p(frame.bytes);
    return icrc_ok(p.view, p.roce);
  }
  const FaultCounters& counted() {
    shard->fit(snapshot);
    shard->snapshot(snapshot, now);
    return snapshot.faults[0];
  }

  std::unique_ptr<Shard> shard;
  std::array<RigSink, 3> sinks;
  std::vector<std::vector<uint8_t>> frames;
  ShardSnapshot snapshot;
  Time now;
};

using Psns = std::vector<uint32_t>;

TEST_P(ThroughFaults, OnePacketIsLost) {
  Fault f = fault(FaultAction::kDrop, GetParam());
  f.packets = FaultPackets::kWrite;
  f.nth = 4;
  run({f});
  EXPECT_EQ(psns(), (Psns{0, 1, 2, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(sinks[1].sent[0].bytes, frames[0]);
  EXPECT_EQ(sinks[1].sent[0].scheduled, come(0));
  EXPECT_EQ(counted().matched, kPackets);
  EXPECT_EQ(counted().acted, 1u);
  const uint32_t port = GetParam() == FaultDirection::kFromReal ? 0 : 1;
  EXPECT_EQ(shard->counters(port).drops[static_cast<size_t>(Drop::kFault)], 1u);
}

TEST_P(ThroughFaults, CopiesComeLater) {
  Fault f = fault(FaultAction::kDuplicate, GetParam());
  f.nth = 10;
  f.count = 2;
  f.delay = Duration::us(5);
  run({f});
  EXPECT_EQ(psns(), (Psns{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9}));
  EXPECT_EQ(sinks[1].sent[11].bytes, frames[9]);
  EXPECT_EQ(sinks[1].sent[9].scheduled, come(9));
  EXPECT_EQ(sinks[1].sent[11].scheduled, come(9) + f.delay);
}

TEST_P(ThroughFaults, OthersGoPast) {
  Fault f = fault(FaultAction::kReorder, GetParam());
  f.nth = 4;
  f.count = 2;
  f.delay = Duration::ms(1);
  run({f});
  EXPECT_EQ(psns(), (Psns{0, 1, 2, 4, 5, 3, 6, 7, 8, 9}));
  EXPECT_EQ(sinks[1].sent[5].scheduled, come(5));
  f.nth = 10;  // nothing follows
  run({f});
  EXPECT_EQ(psns().back(), 9u);
  EXPECT_EQ(sinks[1].sent.back().scheduled, come(9) + f.delay);
}

TEST_P(ThroughFaults, ADelayedPacketComesSoMuchLater) {
  Fault f = fault(FaultAction::kDelay, GetParam());
  f.nth = 10;
  f.delay = Duration::ms(1);
  run({f});
  EXPECT_EQ(sinks[1].sent.back().scheduled, come(9) + f.delay);
}

TEST_P(ThroughFaults, OneBitOfThePayloadIsChanged) {
  Fault f = fault(FaultAction::kCorrupt, GetParam());
  f.nth = 4;
  for (const Form& form : kForms) {
    for (const bool hidden : {false, true}) {
      f.good_icrc = hidden;
      run({f}, form);
      ASSERT_EQ(sinks[1].sent.size(), kPackets);
      for (uint32_t i = 0; i < kPackets; ++i) {
        EXPECT_EQ(good(sinks[1].sent[i]), hidden || i != 3) << i;
      }
      const std::vector<uint8_t>& damaged = sinks[1].sent[3].bytes;
      ASSERT_EQ(damaged.size(), frames[3].size());
      const size_t end = damaged.size() - kIcrcBytes, begin = end - kBytes;
      EXPECT_TRUE(std::equal(damaged.begin(), damaged.begin() + static_cast<std::ptrdiff_t>(begin),
                             frames[3].begin()));
      int bits = 0;
      for (size_t i = begin; i < end; ++i) {
        bits += std::popcount<unsigned>(frames[3][i] ^ damaged[i]);
      }
      EXPECT_EQ(bits, 1);
    }
  }
}

TEST_P(ThroughFaults, CongestionIsMarked) {
  Fault f = fault(FaultAction::kMarkCe, GetParam());
  f.every = 2;
  for (const Form& form : kForms) {
    run({f}, form);
    ASSERT_EQ(sinks[1].sent.size(), kPackets);
    for (uint32_t i = 0; i < kPackets; ++i) {
      const SentFrame& sent = sinks[1].sent[i];
      const Parsed parsed(sent.bytes);
      EXPECT_EQ(parsed.view.tos, i % 2 == 1 ? 3 : 2) << i;
      EXPECT_TRUE(good(sent));
      if (!form.v6) {
        const uint8_t* header = sent.bytes.data() + parsed.view.l3;
        EXPECT_EQ(checksum_finish(checksum_add(0, header, sizeof(Ipv4Header))), 0) << i;
      }
      size_t changed = 0;
      for (size_t k = 0; k < sent.bytes.size(); ++k) changed += sent.bytes[k] != frames[i][k];
      // The traffic class, and an IPv4 header's checksum: one more or less changes a byte of it.
      EXPECT_EQ(changed, i % 2 == 0 ? 0u : form.v6 ? 1u : 2u) << i;
    }
  }
}

// Nothing is known of their queue pairs.
TEST_P(ThroughFaults, WhatAsksForMoreDoesNotConcernThem) {
  Fault node = fault(FaultAction::kDrop, GetParam()), queue_pair = node, psn = node, round = node;
  node.node = 3;
  queue_pair.queue_pair = 1;
  psn.psn = 0;
  round.round = 1;
  run({node, queue_pair, psn, round});
  EXPECT_EQ(sinks[1].sent.size(), kPackets);
  EXPECT_EQ(counted().matched, 0u);
}

// While one is held back in front of the fabric others leave it, and the other way round.
TEST_P(ThroughFaults, TheOtherPlaceIsAnotherOne) {
  Fault f = fault(FaultAction::kReorder, GetParam());
  f.count = 3;
  f.delay = Duration::ms(1);
  if (GetParam() == FaultDirection::kFromReal) {
    f.nth = 10;  // when it comes in, the fourth goes out, and six more
    run({f});
    EXPECT_EQ(psns(), (Psns{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(sinks[1].sent.back().scheduled, come(9) + f.delay);
  } else {
    f.nth = 1;  // when it goes out, the seventh comes in, and three more
    run({f});
    EXPECT_EQ(psns(), (Psns{1, 2, 3, 0, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(sinks[1].sent[3].scheduled, come(3));
  }
}

// Kernels number their queue pairs alike.
TEST_P(ThroughFaults, ThoseToAnotherReceiverDoNotGoPast) {
  Fault f = fault(FaultAction::kReorder, GetParam());
  f.nth = 1;
  f.count = 2;
  f.delay = Duration::ms(1);
  run({f}, {}, 2);
  EXPECT_EQ(psns(), (Psns{2, 4, 0, 6, 8}));
  EXPECT_EQ(psns(2), (Psns{1, 3, 5, 7, 9}));
}

INSTANTIATE_TEST_SUITE_P(Both, ThroughFaults,
                         testing::Values(FaultDirection::kFromReal, FaultDirection::kToReal),
                         [](const auto& info) {
                           return info.param == FaultDirection::kFromReal ? "in_front" : "behind";
                         });

}  // namespace
}  // namespace understudy
