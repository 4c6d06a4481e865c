// PFC frames between a real node and a network with switches, under a virtual clock: when they
// leave and what they say, and what the real node's do to the switch that sends to it.
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/wire/pfc.h"
#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint64_t kGbit = 1'000'000'000;
const Rate kFast = Rate::bits_per_second(100 * kGbit);
const Rate kSlow = Rate::bits_per_second(10 * kGbit);
constexpr Duration kLatency = Duration::ns(400);
constexpr uint8_t kPaused = 3;     ///< the priority with PFC
constexpr uint8_t kTos = 24 << 2;  ///< DSCP 24: priority 3

/// The real node and two others at one switch; the link to the first of them is slow. Priority 3
/// has PFC: above 30 KB, below 20 KB.
ShardConfig config_of(bool pfc, Rate slow = kSlow) {
  ShardConfig c = rig_config(kFast, kLatency, 3);
  auto network = std::make_shared<SwitchedNetwork>();
  Graph& g = network->graph;
  const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  for (uint32_t i = 0; i < 3; ++i) {
    const VertexId nic = g.add_vertex({VertexKind::kNic, "n" + std::to_string(i), i, 0, 0});
    const LinkId up = g.connect(nic, s, kFast, kLatency);
    if (i == 1) g.link(reverse(up)).rate = slow;
    network->nics.push_back(nic);
  }
  ClassSettings lossless, other;
  lossless.priorities = 1u << kPaused;
  lossless.pfc = PfcSettings{};
  lossless.pfc->xoff = 30'000;
  lossless.pfc->xon = 20'000;
  lossless.pfc->headroom = 100'000;
  other.priorities = static_cast<uint8_t>(~lossless.priorities);
  network->settings.classes = {other, lossless};
  c.network = network;
  c.wires[0].pfc = {pfc, kFast};
  c.wires[0].physical = kFast;
  c.packets = 1024;
  return c;
}

/// A rig whose node 1 has a queue pair for the real node, and the real node's packets for it.
class PfcRig : public Rig {
 public:
  explicit PfcRig(const ShardConfig& config) : Rig(config) {
    QpConfig qp = qp_config(0);
    qp.addressing.traffic_class = kTos;
    qp.mtu = 4096;
    add_qp(qp);
    rkey_ = add_region(1, 1 << 30);
  }

  /// The real node sends the next packet of an endless WRITE, whose last byte comes in now.
  void send(uint8_t tos = kTos) {
    RoceFields fields;
    fields.opcode = psn_ == 0 ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
    fields.psn = Psn(psn_++);
    fields.dest_qpn = shard.qpn_of(0);
    fields.rkey = rkey_;
    fields.dma_length = 1 << 29;
    RoceAddressing a = qp_config(0).addressing;
    std::swap(a.src, a.dst);
    std::swap(a.src_mac, a.dst_mac);
    a.traffic_class = tos;
    const std::vector<uint8_t> payload(4096);
    receive(roce_frame(a, fields, payload));
  }
  /// Sends for as long as nobody tells it to pause, and then `more` packets; at line rate.
  void send_until_paused(unsigned more = 0) {
    for (unsigned i = 0; i < 200 && (pfc_frames().empty() || more > 0); ++i) {
      if (!pfc_frames().empty()) --more;
      advance(kFast.time_for(4096 + 58 + 24));
      send();
    }
  }
  void hear(uint8_t priorities, uint16_t quanta) {
    PfcFrame frame;
    frame.priorities = priorities;
    frame.quanta.fill(quanta);
    std::vector<uint8_t> bytes(kPfcFrameBytes);
    write_pfc(frame, bytes.data());
    receive(bytes);
  }

  struct Sent {
    Time scheduled, actual;
    PfcFrame frame;
  };
  std::vector<Sent> pfc_frames() const {
    std::vector<Sent> out;
    for (const SentFrame& f : sink.sent) {
      PfcFrame frame;
      if (!parse_pfc(f.bytes, frame)) continue;
      EXPECT_EQ(f.bytes.size(), kPfcFrameBytes);
      out.push_back({f.scheduled, f.actual, frame});
    }
    return out;
  }
  NetworkLinkCounters link(LinkId id) const { return shard_snapshot().network[id]; }
  PortPfcCounters pfc() const { return shard_snapshot().pfc; }

  static constexpr LinkId kUp = 0, kDown = 1;  ///< of the real node

 private:
  ShardSnapshot shard_snapshot() const {
    ShardSnapshot snapshot;
    shard.fit(snapshot);
    shard.snapshot(snapshot, now);
    return snapshot;
  }
  Rkey rkey_ = 0;
  uint32_t psn_ = 0;
};

// rules: A8.2
TEST(ShardPfc, TheRealNodeIsToldWhenTheModelledNicWouldPause) {
  PfcRig rig(config_of(true));
  rig.send_until_paused();
  ASSERT_EQ(rig.pfc_frames().size(), 1u);
  const auto pause = rig.pfc_frames()[0];
  EXPECT_EQ(pause.frame.priorities, 1u << kPaused);
  EXPECT_EQ(pause.frame.quanta[kPaused], 0xffff);
  EXPECT_EQ(pause.actual, pause.scheduled);
  // On the wire its last byte comes when the modelled one's comes to the modelled NIC.
  const Time end = pause.scheduled + kFast.time_for(84);
  rig.advance(end);
  EXPECT_EQ(rig.link(PfcRig::kUp).first_pause, end);
  // It obeys. The queue drains at 10 Gbit/s, down to 20 KB, and it is told to go on.
  rig.advance(Duration::us(100));
  ASSERT_EQ(rig.pfc_frames().size(), 2u);
  const auto resume = rig.pfc_frames()[1];
  EXPECT_EQ(resume.frame.priorities, 1u << kPaused);
  EXPECT_EQ(resume.frame.quanta[kPaused], 0);
  EXPECT_EQ(rig.link(PfcRig::kUp).paused, resume.scheduled - pause.scheduled);
  EXPECT_EQ(rig.pfc().told, resume.scheduled - pause.scheduled);
  EXPECT_EQ(rig.pfc().sent, 2u);
  EXPECT_EQ(rig.link(PfcRig::kUp).queue_peak, 0u) << "no packet had to wait for the end";
}

// rules: A8.2
TEST(ShardPfc, APauseIsRepeatedAsLongAsItLasts) {
  // 30 KB take 2.4 ms on a link of 100 Mbit/s: several times what one frame can say.
  PfcRig rig(config_of(true, Rate::bits_per_second(kGbit / 10)));
  rig.send_until_paused();
  rig.advance(Duration::ms(5));
  const auto frames = rig.pfc_frames();
  ASSERT_GT(frames.size(), 4u);
  const Duration longest = pfc_time(0xffff, kFast);
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    EXPECT_EQ(frames[i].frame.quanta[kPaused], 0xffff);
    EXPECT_LE(frames[i + 1].scheduled - frames[i].scheduled, longest / 2);
  }
  EXPECT_EQ(frames.back().frame.quanta[kPaused], 0);
  EXPECT_EQ(rig.pfc().told, frames.back().scheduled - frames.front().scheduled);
  EXPECT_EQ(rig.pfc().sent, frames.size());
  rig.advance(Duration::ms(5));
  EXPECT_EQ(rig.pfc_frames().size(), frames.size());
}

TEST(ShardPfc, WhatComesAfterAllWaitsInFrontOfTheModelledNic) {
  for (const bool pfc : {true, false}) {
    PfcRig rig(config_of(true));
    ShardConfig other = config_of(false);
    PfcRig deaf(other);
    PfcRig& used = pfc ? rig : deaf;
    used.send_until_paused(10);
    EXPECT_EQ(used.pfc_frames().empty(), !pfc);
    used.advance(Duration::us(400));
    EXPECT_EQ(used.drops(Drop::kQueueFull), 0u);
    // Nobody tells the deaf one's sender: it sends all 200.
    EXPECT_GE(used.link(PfcRig::kUp).queue_peak, (pfc ? 8u : 100u) * 4154);
    EXPECT_LE(used.link(PfcRig::kUp).queue_peak, (pfc ? 10u : 200u) * 4158);
  }
}

TEST(ShardPfc, APacketInTheMiddleOfTheWireIsNotStopped) {
  PfcRig rig(config_of(true));
  rig.send_until_paused();
  const Time pause = rig.pfc_frames()[0].scheduled + kFast.time_for(84);
  // Its first byte came in before the pause, its last one after.
  rig.advance(pause + Duration::ns(1));
  const uint64_t before = rig.link(PfcRig::kUp).packets;
  rig.send();
  rig.advance(Duration::ns(1));
  EXPECT_EQ(rig.link(PfcRig::kUp).packets, before + 1);
  // The first byte of this one would have been stopped.
  rig.advance(kFast.time_for(4096 + 58 + 24));
  rig.send();
  rig.advance(Duration::ns(1));
  EXPECT_EQ(rig.link(PfcRig::kUp).packets, before + 1);
}

TEST(ShardPfc, WithoutTheKeyNothingIsSent) {
  PfcRig rig(config_of(false));
  rig.send_until_paused();
  rig.advance(Duration::ms(1));
  EXPECT_GT(rig.link(PfcRig::kUp).pauses, 0u);
  EXPECT_TRUE(rig.pfc_frames().empty());
  EXPECT_EQ(rig.pfc().sent, 0u);
  EXPECT_EQ(rig.pfc().told, Duration());
}

TEST(ShardPfc, ADeviceThatTakesNothingGetsTheFrameLater) {
  PfcRig rig(config_of(true));
  rig.sink.room = 0;
  for (int i = 0; i < 12; ++i) {
    rig.poll(rig.now + kFast.time_for(4178));
    rig.send();
  }
  for (int i = 0; i < 100; ++i) rig.poll(rig.now + Duration::ns(50));
  EXPECT_TRUE(rig.pfc_frames().empty());
  rig.sink.room = SIZE_MAX;
  rig.poll(rig.now + Duration::ns(50));
  ASSERT_EQ(rig.pfc_frames().size(), 1u);
  const auto late = rig.pfc_frames()[0];
  EXPECT_GT(late.actual, late.scheduled);
  EXPECT_EQ(rig.pfc().late, late.actual - late.scheduled);
}

/// The rig with an endless WRITE of node 1 to the real node, in the class with PFC.
class SendingRig : public PfcRig {
 public:
  explicit SendingRig(const ShardConfig& config) : PfcRig(config) {
    WorkRequest write;
    write.length = 1 << 24;
    EXPECT_TRUE(shard.post(now, *qps[0], write));
  }
  /// Times at which packets left since the last call.
  std::vector<Time> times() {
    std::vector<Time> out;
    for (const SentFrame& f : sink.sent) out.push_back(f.scheduled);
    sink.sent.clear();
    return out;
  }
};

// rules: A8.2
TEST(ShardPfc, TheRealNodesFramesPauseTheSwitchThatSendsToIt) {
  SendingRig rig(config_of(true));
  rig.advance(Duration::us(10));
  const Duration packet = kFast.time_for(4096 + 58 + 24 + 16);
  ASSERT_GT(rig.times().size(), 10u);
  // 100 quanta of 5.12 ns: from when the frame has crossed the link on.
  const Time told = rig.now;
  rig.hear(1u << kPaused, 100);
  rig.advance(Duration::us(5));
  const auto times = rig.times();
  size_t gaps = 0;
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    if (times[i + 1] - times[i] <= packet) continue;
    ++gaps;
    EXPECT_LE(times[i], told + kLatency + kLatency + packet);
    EXPECT_EQ(times[i + 1], told + kLatency + kLatency + Duration::ns(512));
  }
  EXPECT_EQ(gaps, 1u);
  EXPECT_EQ(rig.pfc().received, 1u);
  EXPECT_EQ(rig.pfc().heard, Duration::ns(512));
  EXPECT_EQ(rig.link(PfcRig::kDown).paused, Duration::ns(512));
  EXPECT_EQ(rig.link(PfcRig::kDown).pauses, 1u);
}

// rules: A8.2
TEST(ShardPfc, TheRealNodeEndsAPauseEarlyAndExtendsOne) {
  SendingRig rig(config_of(true));
  rig.advance(Duration::us(10));
  rig.hear(1u << kPaused, 0xffff);
  rig.advance(Duration::us(3));
  rig.hear(1u << kPaused, 0);
  rig.advance(Duration::us(10));
  EXPECT_EQ(rig.pfc().heard, Duration::us(3));
  EXPECT_EQ(rig.link(PfcRig::kDown).paused, Duration::us(3));
  rig.times();
  for (int i = 0; i < 20; ++i) {
    rig.hear(1u << kPaused, 200);  // 1.024 us
    rig.advance(Duration::us(1));
  }
  EXPECT_EQ(rig.pfc().heard, Duration::us(23));
  rig.advance(Duration::us(2));
  EXPECT_EQ(rig.pfc().heard, Duration::us(22) + Duration::ns(1024));
  EXPECT_EQ(rig.pfc().received, 22u);
  EXPECT_FALSE(rig.times().empty());
}

TEST(ShardPfc, OtherPrioritiesGoOn) {
  SendingRig rig(config_of(true));
  rig.advance(Duration::us(10));
  rig.times();
  rig.hear(static_cast<uint8_t>(~(1u << kPaused)), 0xffff);
  rig.advance(Duration::us(10));
  EXPECT_GT(rig.times().size(), 25u);
  EXPECT_EQ(rig.link(PfcRig::kDown).paused, Duration());
  EXPECT_EQ(rig.pfc().received, 1u);
}

TEST(ShardPfc, WithoutTheKeyFramesAreCountedOnly) {
  SendingRig rig(config_of(false));
  rig.advance(Duration::us(10));
  rig.times();
  rig.hear(0xff, 0xffff);
  rig.advance(Duration::us(10));
  EXPECT_GT(rig.times().size(), 25u);
  EXPECT_EQ(rig.pfc().received, 1u);
  EXPECT_EQ(rig.pfc().heard, Duration());
  // So they are where there is no network with switches.
  PfcRig links(rig_config(kFast, kLatency, 3));
  links.hear(0xff, 0xffff);
  links.advance(Duration::us(1));
  EXPECT_EQ(links.pfc().received, 1u);
}

TEST(ShardPfc, OtherMacControlFramesAreDroppedByReason) {
  PfcRig rig(config_of(true));
  std::vector<uint8_t> bytes(kPfcFrameBytes);
  write_pfc({}, bytes.data());
  rig.receive({bytes.data(), kPfcHeaderBytes - 1});
  EXPECT_EQ(rig.drops(Drop::kTruncated), 1u);
  bytes[14] = 0;  // plain PAUSE
  rig.receive(bytes);
  EXPECT_EQ(rig.drops(Drop::kOtherEthertype), 1u);
  EXPECT_EQ(rig.pfc().received, 0u);
}

}  // namespace
}  // namespace understudy
