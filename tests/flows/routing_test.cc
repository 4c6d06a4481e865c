// Switches choose a packet's next link when it arrives.
#include "dataplane/fabric/routing.h"

#include <set>

#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

const Rate k100G = Rate::bits_per_second(100'000'000'000);
const Duration kUs = Duration::us(1);

/// `hosts` NICs at each of two leaves, and `spines` between these.
Graph two_leaves(unsigned hosts, unsigned spines) {
  Graph g;
  for (unsigned i = 0; i < 2; ++i) {
    g.add_vertex({VertexKind::kSwitch, numbered("leaf", i), 0, 0, 1});
  }
  for (unsigned i = 0; i < spines; ++i) {
    const VertexId s = g.add_vertex({VertexKind::kSwitch, numbered("spine", i), 0, 0, 2});
    for (const VertexId leaf : {0u, 1u}) g.connect(leaf, s, k100G, kUs);
  }
  for (unsigned i = 0; i < 2 * hosts; ++i) {
    const VertexId h = g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0});
    g.connect(h, i / hosts, k100G, kUs);
  }
  return g;
}

LinkId link_of(const Graph& g, const std::string& from, const std::string& to) {
  return path_of(g, {from, to}).front();
}

/// Shortest paths, but for leaf0, which sends all to `up` while it may.
struct Switchable final : Routing {
  explicit Switchable(const Graph& graph) : g(graph), hops(graph, RouteChoice::kEcmp, 1) {}
  void learn(VertexId to) override { hops.learn(to); }
  LinkId next(VertexId at, Way& way) override {
    const LinkId link = hops.next(at, way);
    if (g.vertices()[at].name != "leaf0" || g.link(link).to == way.destination()) return link;
    ++asked;
    return up;
  }
  LinkId expected(VertexId at, Way way) override { return next(at, way); }
  uint64_t paths(VertexId from, VertexId to) override { return hops.paths(from, to); }

  const Graph& g;
  NextHops hops;
  LinkId up = kNoLink;
  uint64_t asked = 0;
};

// A routing that changes its mind moves all packets that have not come to the switch, also those
// that left their NIC before.
TEST(Routing, AChangeMovesPacketsThatAreOnTheirWayToTheSwitch) {
  const Graph g = two_leaves(1, 2);
  Switchable routing(g);
  const LinkId first = link_of(g, "leaf0", "spine0"), second = link_of(g, "leaf0", "spine1");
  routing.up = first;
  FlowRun r(g, {routed_flow(g, "h0", "h1", 400'000, 1)}, store_and_forward(), bare(), line_rate,
            &routing);
  // 100 packets of 320 ns, the first one whole at the leaf after 1,320 ns. At 5 us it has seen the
  // 12 that came until 4,840 ns; three more are on the cable.
  r.net.run(Time::zero() + Duration::ns(5000));
  EXPECT_EQ(r.net.counters(link_of(g, "h0", "leaf0")).packets, 16u);
  routing.up = second;
  r.run();
  EXPECT_EQ(r.net.counters(first).packets, 12u);
  EXPECT_EQ(r.net.counters(second).packets, 88u);
  EXPECT_EQ(r.traffic.results()[0].delivered, 400'000u);
  EXPECT_EQ(r.traffic.results()[0].repeated, 0u);
  EXPECT_EQ(routing.asked, 1u + 100u);  // for the idle path's time, and for each packet
}

// The same where packets are cut through, in front of faster links too.
TEST(Routing, AChangeMovesPacketsThatAreCutThrough) {
  Graph g = two_leaves(1, 2);
  const LinkId first = link_of(g, "leaf0", "spine0"), second = link_of(g, "leaf0", "spine1");
  for (const LinkId link : {first, second}) {
    g.link(link).rate = Rate::bits_per_second(4 * k100G.bps());
  }
  Switchable routing(g);
  routing.up = first;
  NetworkSettings s = store_and_forward();
  s.cut_through = true;
  FlowRun r(g, {routed_flow(g, "h0", "h1", 400'000, 1)}, s, bare(), line_rate, &routing);
  r.net.run(Time::zero() + Duration::ns(5000));
  routing.up = second;
  r.run();
  EXPECT_EQ(r.net.counters(first).packets, 12u);
  EXPECT_EQ(r.net.counters(second).packets, 88u);
  EXPECT_EQ(r.traffic.results()[0].delivered, 400'000u);
}

/// Packets on each way up from leaf 0.
std::vector<uint64_t> ways_up(const FlowRun& r, unsigned spines) {
  std::vector<uint64_t> packets;
  for (unsigned i = 0; i < spines; ++i) {
    packets.push_back(r.net.counters(link_of(r.g, "leaf0", numbered("spine", i))).packets);
  }
  return packets;
}

// Which path a sprayed packet takes depends on what its own flow has sent, and on nobody else's.
TEST(Routing, SprayingOfOneNicDoesNotDisturbAnothers) {
  const Graph g = two_leaves(2, 4);
  // h0 sends 41 packets up from leaf 0; what comes the other way shares none of these links.
  const FlowSpec own = routed_flow(g, "h0", "h2", 164'000, 1, 64);
  FlowRun alone(g, {own}, store_and_forward(), bare());
  alone.drain();
  EXPECT_EQ(alone.traffic.results()[0].delivered, 164'000u);
  EXPECT_EQ(ways_up(alone, 4), (std::vector<uint64_t>{11, 10, 10, 10}));

  FlowRun beside(g, {own, routed_flow(g, "h1", "h3", 164'000, 2, 64)}, store_and_forward(), bare());
  beside.drain();
  EXPECT_EQ(ways_up(beside, 4), (std::vector<uint64_t>{22, 20, 20, 20}));
  EXPECT_EQ(beside.traffic.results()[0].repeated, 0u);
}

// Whether a flow names its links or leaves them to the switches, equal paths are equal runs.
TEST(Routing, GivenLinksAndChosenOnesGiveEqualRuns) {
  const Graph g = two_leaves(3, 4);
  Routes routes(g, RouteChoice::kEcmp, 1);
  std::vector<FlowSpec> chosen, given;
  for (unsigned i = 0; i < 12; ++i) {
    chosen.push_back(routed_flow(g, numbered("h", i % 3), numbered("h", 3 + (i + i / 3) % 3),
                                 100'000 + 1000 * i, i));
    FlowSpec f = chosen.back();
    f.path = routes.path(f.from, f.to, flow_hash(f.from, f.to, i));
    f.back = routes.path(f.to, f.from, flow_hash(f.to, f.from, i));
    f.number = kNoFlowNumber;
    given.push_back(f);
  }
  for (const bool cut_through : {false, true}) {
    NetworkSettings s = store_and_forward();
    s.cut_through = cut_through;
    FlowRun a(g, chosen, s), b(g, given, s);
    a.drain();
    b.drain();
    for (size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(a.traffic.results()[i].received, b.traffic.results()[i].received);
      EXPECT_EQ(a.traffic.results()[i].acknowledged, b.traffic.results()[i].acknowledged);
    }
    EXPECT_EQ(a.net.events(), b.net.events());
  }
}

/// What so many flows between `spines` spines take.
size_t memory_of(unsigned spines, unsigned count) {
  const Graph g = two_leaves(16, spines);
  std::vector<FlowSpec> flows;
  for (unsigned i = 0; i < count; ++i) {
    flows.push_back(
        routed_flow(g, numbered("h", i % 16), numbered("h", 16 + i / 16 % 16), 4000, i, 64));
  }
  FlowRun r(g, flows, store_and_forward(64 << 20), bare());
  r.drain();
  EXPECT_TRUE(r.traffic.all_finished());
  return r.traffic.memory_bytes();
}

// A flow keeps no path: 2,048 more cost the same in a network with two paths for a pair and in one
// with 32, and no more than when there were few.
TEST(Routing, AFlowCostsTheSameInEveryNetwork) {
  const size_t more = memory_of(2, 4096) - memory_of(2, 2048);
  EXPECT_EQ(memory_of(32, 4096) - memory_of(32, 2048), more);
  EXPECT_EQ(memory_of(2, 8192) - memory_of(2, 4096), 2 * more);
  EXPECT_LE(more / 2048, 640u);
}

}  // namespace
}  // namespace understudy
