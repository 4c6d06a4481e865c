// Packets on the two links of their path, without queue pairs or a shard. Times in closed form.
#include "dataplane/engine/network/two_links.h"

#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1;
constexpr uint32_t kBytes = 976;  ///< 1000 on the wire: 20 ns at 400 Gbit/s

ShardConfig config_of(uint64_t gbits = 400) {
  return rig_config(Rate::bits_per_second(gbits * 1'000'000'000), Duration::ns(500));
}

TEST(TwoLinks, AFrameTakesBothLinksOneBehindTheOther) {
  Parts parts(config_of());
  parts.network.accept(parts.frame_from_real(kNode, Time(), kBytes), Time());
  parts.run(at_ns(5000));
  ASSERT_EQ(parts.arrived.size(), 1u);
  // Its head passes the second link at once: 20 ns, and both latencies.
  EXPECT_EQ(parts.arrived[0].at, at_ns(20 + 2 * 500));
}

TEST(TwoLinks, FramesThatComeTogetherLeaveOneBehindTheOther) {
  Parts parts(config_of());
  for (int i = 0; i < 5; ++i) {
    parts.network.accept(parts.frame_from_real(kNode, Time(), kBytes), Time());
  }
  parts.run(at_ns(5000));
  ASSERT_EQ(parts.arrived.size(), 5u);
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(parts.arrived[i].at, at_ns(1000 + 20 * (i + 1))) << i;
}

TEST(TwoLinks, AnotherRateAndLatencyHoldFromTheNextFrameOn) {
  Parts parts(config_of());
  const RateChange change{.rate = Rate::bits_per_second(40'000'000'000),
                          .latency = Duration::ns(800)};
  ASSERT_TRUE(parts.network.set_link(kNode, change, Time()));
  EXPECT_FALSE(parts.network.set_link(77, change, Time()));
  parts.network.accept(parts.frame_from_real(kNode, Time(), kBytes), Time());
  parts.run(at_ns(5000));
  ASSERT_EQ(parts.arrived.size(), 1u);
  EXPECT_EQ(parts.arrived[0].at, at_ns(500 + 200 + 800));
}

TEST(TwoLinks, AFinishedFrameComesToTheRealNodesWire) {
  Parts parts(config_of());
  const uint32_t frame = parts.finished_frame(kNode, kBytes);
  parts.network.send_finished(frame, Time());
  parts.run(at_ns(5000));
  ASSERT_FALSE(parts.state.ports[0].departures[0].empty());
  EXPECT_EQ(parts.state.ports[0].departures[0].front(), frame);
  EXPECT_EQ(parts.state.pool[frame].tail, at_ns(20 + 2 * 500));
}

TEST(TwoLinks, AFloodLeavesRoomForOthers) {
  ShardConfig config = config_of();
  config.rates[kNode] = Rate::bits_per_second(1'000'000);
  Parts parts(config);
  for (uint32_t i = 0; i < config.packets * 2; ++i) {
    const Time now = at_ns(20 * i);
    const uint32_t id = parts.frame_from_real(kNode, now, kBytes);
    if (id != kNoPacket) parts.network.accept(id, now);
    parts.run(now);
  }
  parts.run(at_ns(20 * 2 * config.packets + 2000));
  EXPECT_GT(parts.drops(Drop::kQueueFull), 0u);
  EXPECT_GE(parts.state.pool.available(PacketSide::kInbound), 8u);
  ShardSnapshot counted;
  parts.network.fit(counted);
  parts.network.snapshot(counted, Time());
  EXPECT_EQ(counted.down[kNode].dropped, parts.drops(Drop::kQueueFull));
  EXPECT_TRUE(counted.network.empty());
}

TEST(TwoLinks, TrainsGoOnlyWhereLinksAreFast) {
  Parts fast(config_of()), slow(config_of(10));
  EXPECT_TRUE(fast.network.carries_trains(kNode, 0, 4096));
  EXPECT_FALSE(slow.network.carries_trains(kNode, 0, 4096));
}

TEST(TwoLinks, NoEventIsTheNetworksOwn) {
  Parts parts(config_of());
  parts.network.accept(parts.frame_from_real(kNode, Time(), kBytes), Time());
  EXPECT_EQ(parts.network.next(), Time::never());
  EXPECT_EQ(parts.network.network(), nullptr);
}

}  // namespace
}  // namespace understudy
