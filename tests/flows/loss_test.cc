// Flows whose packets are lost: what is repeated, when, and that everything arrives.
#include "dataplane/flows/flow_traffic.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

const Rate k100G = Rate::bits_per_second(100'000'000'000);
const Duration kUs = Duration::us(1);

// Losses on the link: every flow of a connection still arrives whole.
TEST(FlowLoss, ALossyLinkCostsTimeOnly) {
  Graph g = star(2, k100G, kUs);
  g.link(path_of(g, {"s", "h1"})[0]).loss = 0.02;
  g.link(path_of(g, {"s", "h0"})[0]).loss = 0.02;
  std::vector<FlowSpec> flows(20, flow_of(g, {"h0", "s", "h1"}, 200'000));
  for (size_t i = 0; i < flows.size(); ++i) flows[i].connection = static_cast<uint32_t>(i % 3);
  FlowSettings f = bare();
  f.timeout = Duration::us(50);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    NetworkSettings s = store_and_forward();
    s.seed = seed;
    FlowRun r(g, flows, s, f);
    r.run();
    ASSERT_TRUE(r.traffic.all_finished());
    EXPECT_GT(r.lost(), 0u);
    for (const FlowResult& result : r.traffic.results()) {
      EXPECT_EQ(result.delivered, 200'000u);
      EXPECT_EQ(result.packets, 50 + result.repeated);
    }
  }
}

// As a queue pair's: packets that follow put it off, up to four times its value.
TEST(FlowLoss, ATimeoutCountsFromTheLastPacketButNotForEver) {
  Graph g = star(2, k100G, kUs);
  g.link(path_of(g, {"s", "h1"})[0]).loss = 1;
  FlowSettings f = bare();
  f.timeout = Duration::us(20);
  const auto repeated = [&](uint64_t packets, Duration at) {
    FlowRun r(g, {flow_of(g, {"h0", "s", "h1"}, packets * 4000)}, store_and_forward(), f);
    r.run(Time::zero() + at);
    return r.traffic.results()[0].repeated;
  };
  // The last of 100 packets leaves at 99 * 320 ns, that of 1,000 beyond 80 us.
  EXPECT_EQ(repeated(100, Duration::ns(99 * 320 + 19'999)), 0u);
  EXPECT_EQ(repeated(100, Duration::ns(99 * 320 + 20'000)), 1u);
  EXPECT_EQ(repeated(1000, Duration::ns(79'999)), 0u);
  EXPECT_GE(repeated(1000, Duration::ns(80'320)), 1u);
}

// A connection that was idle in between waits for its new message's answer, not since the old
// one's.
TEST(FlowLoss, ATimeoutDoesNotCountIdleTime) {
  const Graph g = star(2, k100G, Duration::us(10));
  std::vector<FlowSpec> flows = {flow_of(g, {"h0", "s", "h1"}, 40'000),
                                 flow_of(g, {"h0", "s", "h1"}, 400'000, Duration::us(48))};
  for (FlowSpec& f : flows) f.connection = 1;
  FlowSettings f = bare();
  f.timeout = Duration::us(50);
  f.ack_every = 100;
  FlowRun r(g, flows, store_and_forward(), f);
  r.run();
  ASSERT_TRUE(r.traffic.all_finished());
  EXPECT_LT(r.traffic.results()[0].acknowledged, r.traffic.results()[1].start);
  EXPECT_EQ(r.traffic.results()[1].repeated, 0u);
}

// Means over seeds need draws that have nothing to do with one another.
TEST(FlowLoss, NeighbouringSeedsDrawIndependently) {
  Graph g = star(2, k100G, kUs);
  g.link(path_of(g, {"s", "h1"})[0]).loss = 0.5;
  std::vector<FlowSpec> flows;
  for (int i = 0; i < 400; ++i) {
    flows.push_back(flow_of(g, {"h0", "s", "h1"}, 4000, Duration::us(i)));
  }
  FlowSettings once = bare();
  once.timeout = Duration();
  const auto lost = [&](uint64_t seed) {
    NetworkSettings s = store_and_forward();
    s.seed = seed;
    FlowRun r(g, flows, s, once);
    r.drain();
    std::vector<bool> out;
    for (const FlowResult& f : r.traffic.results()) out.push_back(f.lost != 0);
    return out;
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto one = lost(seed), next = lost(seed + 1);
    for (size_t shift = 0; shift < 4; ++shift) {
      size_t same = 0;
      for (size_t i = 0; i + shift < one.size(); ++i) same += one[i + shift] == next[i] ? 1 : 0;
      EXPECT_GT(same, 150u) << seed << " " << shift;
      EXPECT_LT(same, 250u) << seed << " " << shift;
    }
  }
}

TEST(FlowLoss, AnOutageDelaysOrLosesAndAllArrives) {
  Graph g = star(2, k100G, kUs);
  const LinkId last = path_of(g, {"s", "h1"})[0];
  g.link(last).down = {{Time::zero() + Duration::us(10), Time::zero() + Duration::us(60)}};
  FlowSettings f = bare();
  f.timeout = Duration::us(100);
  FlowRun r(g, {flow_of(g, {"h0", "s", "h1"}, 400'000)}, store_and_forward(), f);
  r.run();
  ASSERT_TRUE(r.traffic.all_finished());
  EXPECT_EQ(r.traffic.results()[0].delivered, 400'000u);
  EXPECT_GT(r.traffic.results()[0].received, Time::zero() + Duration::us(60));
  EXPECT_GT(r.net.counters(last).lost[static_cast<size_t>(PacketLoss::kOutage)], 0u);
}

}  // namespace
}  // namespace understudy
