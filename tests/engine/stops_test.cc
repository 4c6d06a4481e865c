// Links that go down, come up and lose packets, and nodes that stand still: the same for two links
// and for a network with switches.
#include "dataplane/engine/network/network_side.h"
#include "tests/engine/parts.h"

namespace understudy {
namespace {

constexpr uint32_t kNode = 1;
constexpr uint32_t kBytes = 976;  ///< 1000 on the wire: 20 ns at 400 Gbit/s

class Stops : public testing::TestWithParam<bool> {
 protected:
  Stops() { parts.network.expect_stops(); }

  void change(NodeId node, const RateChange& change, Time now) {
    parts.run(now);
    ASSERT_TRUE(parts.network.set_link(node, change, now));
  }
  void come(int frames, Time now = {}) {
    for (int i = 0; i < frames; ++i) {
      parts.network.accept(parts.frame_from_real(kNode, now, kBytes), now);
    }
  }
  std::vector<int64_t> arrivals() const {
    std::vector<int64_t> ns;
    for (const auto& a : parts.arrived) ns.push_back((a.at - Time()).ps() / 1000);
    return ns;
  }
  Parts parts{two_nodes(GetParam())};
};

TEST_P(Stops, AnOutageLosesThePacketOnTheWireAndTheNicHoldsTheRest) {
  come(5);
  change(kRealNode, {.down = true}, at_ns(30));  // in the second frame
  parts.run(at_ns(9'000));
  EXPECT_EQ(parts.arrived.size(), 1u);
  EXPECT_EQ(parts.drops(Drop::kLinkDown), 1u);
  change(kRealNode, {.down = false}, at_ns(10'000));
  parts.run(at_ns(20'000));
  const auto came = arrivals();
  ASSERT_EQ(came.size(), 4u);
  for (size_t i = 1; i < 4; ++i)
    EXPECT_EQ(came[i] - came[0], 10'000 + 20 * static_cast<int64_t>(i - 1));
  EXPECT_EQ(parts.drops(Drop::kLinkDown), 1u);
}

TEST_P(Stops, ASwitchHoldsWhatGoesToALinkThatIsDown) {
  change(kNode, {.down = true}, at_ns(10));
  come(3, at_ns(20));
  parts.run(at_ns(9'000));
  EXPECT_TRUE(parts.arrived.empty());
  change(kNode, {.down = false}, at_ns(10'000));
  parts.run(at_ns(20'000));
  EXPECT_EQ(parts.arrived.size(), 3u);
  EXPECT_EQ(parts.drops(Drop::kLinkDown), 0u);
}

TEST_P(Stops, AQueuePairWaitsForItsNicsLink) {
  change(kNode, {.down = true}, at_ns(10));
  Qp& qp = parts.connect(0, kNode);
  ASSERT_TRUE(qp.post(write_of(3 * qp.config().mtu)));
  parts.network.offer(0, at_ns(20));
  parts.run(at_ns(9'000));
  EXPECT_TRUE(parts.state.ports[0].departures[0].empty());
  change(kNode, {.down = false}, at_ns(10'000));
  parts.run(at_ns(50'000));
  PacketFifo& out = parts.state.ports[0].departures[0];
  ASSERT_FALSE(out.empty());
  EXPECT_GE(parts.state.pool[out.front()].head, at_ns(11'000));
}

TEST_P(Stops, ANodeThatStandsStillTakesNothingAndSendsNothing) {
  change(kNode, {.paused = true}, at_ns(10));
  come(2, at_ns(20));
  Qp& qp = parts.connect(0, kNode);
  ASSERT_TRUE(qp.post(write_of(qp.config().mtu)));
  parts.network.offer(0, at_ns(20));
  parts.run(at_ns(9'000));
  EXPECT_TRUE(parts.arrived.empty());
  EXPECT_TRUE(parts.state.ports[0].departures[0].empty());
  EXPECT_EQ(parts.drops(Drop::kLinkDown), 2u);
  change(kNode, {.paused = false}, at_ns(10'000));
  come(1, at_ns(10'000));
  parts.run(at_ns(20'000));
  EXPECT_EQ(parts.arrived.size(), 1u);
  EXPECT_FALSE(parts.state.ports[0].departures[0].empty());
}

TEST_P(Stops, ALinkLosesItsShare) {
  change(kNode, {.loss = 0.25}, at_ns(0));
  for (int i = 0; i < 1000; ++i) {
    const Time now = at_ns(100 * (i + 1));
    parts.run(now);
    come(1, now);
    for (const auto& a : parts.arrived) parts.state.pool.release(a.packet);
    parts.arrived.clear();
  }
  parts.run(at_ns(200'000));
  EXPECT_GT(parts.drops(Drop::kLinkLoss), 180u);
  EXPECT_LT(parts.drops(Drop::kLinkLoss), 320u);
  change(kNode, {.loss = 0}, at_ns(200'000));
  const uint64_t lost = parts.drops(Drop::kLinkLoss);
  parts.arrived.clear();
  come(10, at_ns(200'000));
  parts.run(at_ns(300'000));
  EXPECT_EQ(parts.arrived.size(), 10u);
  EXPECT_EQ(parts.drops(Drop::kLinkLoss), lost);
}

TEST_P(Stops, NoLinkOfThisNumberIsRefused) {
  const RateChange change{.link = 4, .down = true};
  EXPECT_FALSE(parts.network.set_link(kNoNode, change, Time()));
  EXPECT_FALSE(parts.network.set_running(0, false, Time()));
}

INSTANTIATE_TEST_SUITE_P(Lanes, Stops, testing::Bool(),
                         [](const auto& info) { return info.param ? "Switches" : "TwoLinks"; });

}  // namespace
}  // namespace understudy
