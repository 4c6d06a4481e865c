// The same calls for two links and for a network with switches.
#include "dataplane/engine/network/network_side.h"

#include <cstdlib>
#include <random>

#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1, kBytes = 976;

class NetworkSideTest : public testing::TestWithParam<bool> {
 protected:
  Parts parts{two_nodes(GetParam())};
};

TEST_P(NetworkSideTest, AFrameOfTheRealNodeArrivesAtTheEmulatedOne) {
  const uint32_t id = parts.frame_from_real(kNode, Time(), kBytes);
  parts.network.accept(id, Time());
  parts.run(at_ns(5000));
  ASSERT_EQ(parts.arrived.size(), 1u);
  EXPECT_EQ(parts.arrived[0].packet, id);
  EXPECT_GE(parts.arrived[0].at, at_ns(1000 + 20));
  EXPECT_LE(parts.arrived[0].at, at_ns(1000 + 2 * 20));
}

TEST_P(NetworkSideTest, WhatAQueuePairHasLeavesInTurn) {
  for (const uint32_t slot : {0u, 1u}) {
    Qp& qp = parts.connect(slot, kNode);
    ASSERT_TRUE(qp.post(write_of(3 * qp.config().mtu)));
    parts.network.offer(slot, Time());
  }
  parts.run(at_ns(50'000));
  std::vector<uint32_t> order;
  PacketFifo& out = parts.state.ports[0].departures[0];
  for (; !out.empty(); out.pop()) {
    order.push_back(parts.state.qps.slot_of(parts.state.pool[out.front()].qpn));
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 0, 1, 0, 1}));
}

TEST_P(NetworkSideTest, ThoseThatFoundNoPacketSendWhenThereIsOne) {
  std::vector<uint32_t> all;
  for (uint32_t id; (id = parts.state.pool.take(PacketSide::kOutbound)) != kNoPacket;) {
    all.push_back(id);
  }
  Qp& qp = parts.connect(0, kNode);
  ASSERT_TRUE(qp.post(write_of(1)));
  parts.network.offer(0, Time());
  parts.run(at_ns(5000));
  EXPECT_TRUE(parts.state.ports[0].departures[0].empty());
  ASSERT_TRUE(parts.scheduler.is_starved());
  for (const uint32_t id : all) parts.state.pool.release(id);
  parts.network.feed_starved(at_ns(5000));
  parts.run(at_ns(10'000));
  EXPECT_FALSE(parts.state.ports[0].departures[0].empty());
}

TEST_P(NetworkSideTest, CountersAreTheLanesOwn) {
  parts.network.accept(parts.frame_from_real(kNode, Time(), kBytes), Time());
  parts.run(at_ns(5000));
  ShardSnapshot counted;
  parts.network.fit(counted);
  parts.network.snapshot(counted, at_ns(5000));
  EXPECT_EQ(counted.up.empty(), GetParam());
  EXPECT_EQ(counted.network.empty(), !GetParam());
  uint64_t packets = 0;
  for (const LinkCounters& c : counted.up) packets += c.packets;
  for (const LinkCounters& c : counted.down) packets += c.packets;
  for (const NetworkLinkCounters& c : counted.network) packets += c.packets;
  EXPECT_EQ(packets, 2u);
}

TEST_P(NetworkSideTest, OnlyNodesThatAreThereHaveLinks) {
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  EXPECT_TRUE(parts.network.set_link(kNode, {.rate = rate}, Time()));
  EXPECT_FALSE(parts.network.set_link(9, {.rate = rate}, Time()));
}

/// When frames of random lengths have come through, those to the emulated node first, while the
/// links of both nodes become other ones, stop and go on.
std::vector<Time> times_through(const ShardConfig& config, unsigned seed) {
  Parts parts(config);
  parts.network.expect_stops();
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Time now;
  for (int i = 0; i < 300; ++i) {
    now += Duration::ps(below(100'000));
    parts.run(now);
    RateChange change;
    switch (below(16)) {
      case 0:
        change.rate = Rate::bits_per_second(100'000'000'000 + below(500) * 1'000'000'007ull);
        break;
      case 1:
        change.latency = Duration::ps(below(900'000));
        break;
      case 2:
        change.down = below(2) == 0;
        break;
      case 3:
        change.paused = below(2) == 0;
        break;
      default:
        break;
    }
    EXPECT_TRUE(parts.network.set_link(below(2) == 0 ? kNode : kRealNode, change, now));
    if (below(2) == 0) {
      parts.network.accept(parts.frame_from_real(kNode, now, 60 + below(4000)), now);
    } else {
      parts.network.send_finished(parts.finished_frame(kNode, 60 + below(4000)), now);
    }
  }
  for (const NodeId node : {kNode, kRealNode}) {
    EXPECT_TRUE(parts.network.set_link(node, {.down = false, .paused = false}, now));
  }
  parts.run(now + Duration::ms(1));
  std::vector<Time> times;
  for (const Parts::Arrived& arrived : parts.arrived) times.push_back(arrived.at);
  PacketFifo& out = parts.state.ports[0].departures[0];
  for (; !out.empty(); out.pop()) times.push_back(parts.state.pool[out.front()].tail);
  return times;
}

// In front of a faster link a head of two links always leaves a picosecond for what a serializer
// carries over, one in a switch only where there is something to carry.
TEST(NetworkSide, BothLanesHaveTheSameTimesButForAPicosecond) {
  ShardConfig two_links = two_nodes(false), switched = two_nodes(true);
  two_links.packets = switched.packets = 16384;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::vector<Time> one = times_through(two_links, seed);
    const std::vector<Time> other = times_through(switched, seed);
    EXPECT_GT(one.size(), 150u);
    ASSERT_EQ(one.size(), other.size()) << seed;
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_LE(std::abs((one[i] - other[i]).ps()), 1) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, NetworkSideTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Switches" : "TwoLinks"; });

}  // namespace
}  // namespace understudy
