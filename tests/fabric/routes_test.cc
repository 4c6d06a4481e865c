// Routes: laws over random networks, and what the hash, sprayed paths and static routes do.
#include "dataplane/fabric/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

namespace understudy {
namespace {

constexpr Rate kRate = Rate::bits_per_second(100'000'000'000);

VertexId add(Graph& graph, VertexKind kind) {
  return graph.add_vertex({kind, "v" + std::to_string(graph.vertices().size()), 0, 0, 0});
}

/// Switches in a random connected network with some parallel cables; every NIC hangs on one or two
/// of them, and some NICs on one another.
Graph random_graph(std::mt19937& random) {
  Graph graph;
  const auto below = [&](uint32_t n) { return static_cast<VertexId>(random() % n); };
  const uint32_t switches = 1 + below(20), nics = 2 + below(20);
  for (uint32_t i = 0; i < switches; ++i) add(graph, VertexKind::kSwitch);
  for (uint32_t i = 1; i < switches; ++i) graph.connect(i, below(i), kRate, Duration::us(1));
  for (uint32_t i = below(3 * switches); switches > 1 && i > 0; --i) {
    const VertexId a = below(switches);
    graph.connect(a, (a + 1 + below(switches - 1)) % switches, kRate, Duration::us(1));
  }
  for (uint32_t i = 0; i < nics; ++i) {
    const VertexId nic = add(graph, VertexKind::kNic);
    graph.connect(nic, below(switches), kRate, Duration::us(1));
    if (below(3) == 0) graph.connect(nic, below(switches), kRate, Duration::us(1));
    if (i > 0 && below(5) == 0) graph.connect(nic, nic - 1, kRate, Duration::us(1));
  }
  return graph;
}

std::vector<VertexId> nics_of(const Graph& graph) {
  std::vector<VertexId> nics;
  for (VertexId v = 0; v < graph.vertices().size(); ++v) {
    if (graph.vertices()[v].kind == VertexKind::kNic) nics.push_back(v);
  }
  return nics;
}

/// Hops by Bellman-Ford, which shares nothing with what is tested.
size_t distance(const Graph& graph, VertexId from, VertexId to) {
  std::vector<size_t> least(graph.vertices().size(), 1'000'000);
  least[from] = 0;
  for (size_t round = 0; round < graph.vertices().size(); ++round) {
    for (const GraphLink& link : graph.links()) {
      const bool forwards =
          link.from == from || graph.vertices()[link.from].kind == VertexKind::kSwitch;
      if (forwards) least[link.to] = std::min(least[link.to], least[link.from] + 1);
    }
  }
  return least[to];
}

void expect_path(const Graph& graph, const std::vector<LinkId>& path, VertexId from, VertexId to) {
  ASSERT_FALSE(path.empty());
  VertexId at = from;
  for (LinkId link : path) {
    ASSERT_EQ(graph.link(link).from, at);
    if (at != from) {
      ASSERT_EQ(graph.vertices()[at].kind, VertexKind::kSwitch);
    }
    at = graph.link(link).to;
  }
  EXPECT_EQ(at, to);
}

TEST(Routes, PathsAreConnectedShortestAndPassSwitchesOnly) {
  std::mt19937 random(4711);
  for (int round = 0; round < 60; ++round) {
    const Graph graph = random_graph(random);
    Routes routes(graph, RouteChoice::kEcmp, random());
    const std::vector<VertexId> nics = nics_of(graph);
    for (VertexId from : nics) {
      for (VertexId to : nics) {
        if (from == to) continue;
        const uint64_t hash = random();
        const std::vector<LinkId> path = routes.path(from, to, hash);
        expect_path(graph, path, from, to);
        std::vector<LinkId> same(path.size());
        EXPECT_EQ(routes.path(from, to, hash, same.data()), path.size());
        EXPECT_EQ(same, path);
        EXPECT_EQ(path.size(), distance(graph, from, to));
        EXPECT_EQ(path.size(), hops_to(graph, to)[from]);
      }
    }
  }
}

TEST(Routes, AllShortestPathsAreFoundOnce) {
  std::mt19937 random(815);
  for (int round = 0; round < 60; ++round) {
    const Graph graph = random_graph(random);
    Routes routes(graph, RouteChoice::kEcmp, 1);
    const std::vector<VertexId> nics = nics_of(graph);
    const VertexId from = nics.front(), to = nics.back();
    const size_t shortest = distance(graph, from, to);
    // Every walk of that length over switches that ends at `to`.
    std::set<std::vector<LinkId>> expected;
    std::vector<std::vector<LinkId>> walks{{}};
    while (!walks.empty()) {
      const std::vector<LinkId> walk = walks.back();
      walks.pop_back();
      const VertexId at = walk.empty() ? from : graph.link(walk.back()).to;
      if (at == to) expected.insert(walk);
      if (walk.size() == shortest) continue;
      if (!walk.empty() && graph.vertices()[at].kind != VertexKind::kSwitch) continue;
      for (LinkId out : graph.out(at)) {
        if (distance(graph, graph.link(out).to, to) != shortest - walk.size() - 1) continue;
        walks.push_back(walk);
        walks.back().push_back(out);
      }
    }
    const auto all = routes.paths(from, to, 1'000'000);
    EXPECT_EQ(std::set(all.begin(), all.end()), expected);
    EXPECT_EQ(all.size(), expected.size());
    EXPECT_EQ(routes.path_count(from, to), expected.size());
    const size_t some = 1 + all.size() / 2;
    const auto few = routes.paths(from, to, some);
    EXPECT_EQ(std::set(few.begin(), few.end()).size(), some);
    for (const auto& path : few) EXPECT_TRUE(expected.contains(path));
  }
}

/// Two leaves with one NIC each, joined by `spines` spines.
Graph leaf_spine(uint32_t spines) {
  Graph graph;
  for (int i = 0; i < 2; ++i) add(graph, VertexKind::kNic);
  for (uint32_t i = 0; i < 2 + spines; ++i) add(graph, VertexKind::kSwitch);
  for (VertexId i = 0; i < 2; ++i) graph.connect(i, 2 + i, kRate, Duration::us(1));
  for (VertexId i = 0; i < 2; ++i) {
    for (VertexId s = 0; s < spines; ++s) graph.connect(2 + i, 4 + s, kRate, Duration::us(1));
  }
  return graph;
}

TEST(Routes, EcmpSpreadsEvenly) {
  constexpr uint32_t kSpines = 7, kFlows = 70'000;
  const Graph graph = leaf_spine(kSpines);
  Routes routes(graph, RouteChoice::kEcmp, 3);
  std::map<VertexId, uint32_t> used;
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    ++used[graph.link(routes.path(0, 1, flow_hash(0, 1, flow))[1]).to];
  }
  ASSERT_EQ(used.size(), kSpines);
  for (const auto& [spine, flows] : used) EXPECT_NEAR(flows, kFlows / kSpines, 500) << spine;
}

TEST(Routes, SwitchesChooseIndependently) {
  // Two stages of two: of the flows that one first switch sends left, the second sends half left.
  Graph graph;
  const VertexId from = add(graph, VertexKind::kNic), to = add(graph, VertexKind::kNic);
  VertexId v[7];
  for (VertexId& one : v) one = add(graph, VertexKind::kSwitch);
  graph.connect(from, v[0], kRate, Duration());
  for (int i : {1, 2}) graph.connect(v[0], v[i], kRate, Duration());
  for (int i : {1, 2}) graph.connect(v[i], v[3], kRate, Duration());
  for (int i : {4, 5}) graph.connect(v[3], v[i], kRate, Duration());
  for (int i : {4, 5}) graph.connect(v[i], v[6], kRate, Duration());
  graph.connect(v[6], to, kRate, Duration());
  Routes routes(graph, RouteChoice::kEcmp, 1);
  std::map<std::pair<LinkId, LinkId>, int> used;
  for (uint32_t flow = 0; flow < 8'000; ++flow) {
    const auto path = routes.path(from, to, flow_hash(from, to, flow));
    ++used[{path[1], path[3]}];
  }
  ASSERT_EQ(used.size(), 4u);
  for (const auto& [links, flows] : used) EXPECT_NEAR(flows, 2'000, 200);
}

TEST(Routes, ChoiceFollowsFromSeedAndHashAlone) {
  const Graph graph = leaf_spine(16);
  Routes one(graph, RouteChoice::kEcmp, 5), same(graph, RouteChoice::kEcmp, 5);
  Routes other(graph, RouteChoice::kEcmp, 6);
  int differ = 0;
  for (uint64_t flow = 0; flow < 200; ++flow) {
    const auto path = one.path(0, 1, flow);
    EXPECT_EQ(path, same.path(0, 1, flow));
    differ += path != other.path(0, 1, flow);
  }
  EXPECT_GT(differ, 150);  // 15 of 16 on average
}

TEST(Routes, FirstTakesTheFirstCables) {
  const Graph graph = leaf_spine(4);
  Routes routes(graph, RouteChoice::kFirst, 5);
  for (uint64_t flow = 0; flow < 20; ++flow) {
    EXPECT_EQ(graph.link_name(routes.path(0, 1, flow)[1]), "v2 -> v4");
  }
}

TEST(Routes, SomePathsAreSpreadOverAll) {
  const Graph graph = leaf_spine(16);
  Routes routes(graph, RouteChoice::kSpray, 5);
  std::vector<VertexId> spines;
  for (const auto& path : routes.paths(0, 1, 4)) spines.push_back(graph.link(path[1]).to);
  EXPECT_EQ(spines, (std::vector<VertexId>{4, 8, 12, 16}));
}

TEST(Routes, MorePathsThanCanBeCounted) {
  // 70 pairs of parallel cables in a row: 2^70 paths.
  Graph graph;
  const VertexId from = add(graph, VertexKind::kNic), to = add(graph, VertexKind::kNic);
  VertexId last = add(graph, VertexKind::kSwitch);
  graph.connect(from, last, kRate, Duration());
  for (int i = 0; i < 70; ++i) {
    const VertexId next = add(graph, VertexKind::kSwitch);
    for (int cable = 0; cable < 2; ++cable) graph.connect(last, next, kRate, Duration());
    last = next;
  }
  graph.connect(last, to, kRate, Duration());
  Routes routes(graph, RouteChoice::kSpray, 5);
  EXPECT_EQ(routes.path_count(from, to), kMostPathsCounted);
  const auto some = routes.paths(from, to, 1000);
  EXPECT_EQ(std::set(some.begin(), some.end()).size(), 1000u);
  for (const auto& path : some) expect_path(graph, path, from, to);
}

TEST(Routes, StaticRoutesComeFirstAndTheLastOfThemCounts) {
  const Graph graph = leaf_spine(4);
  const auto route = [&](VertexId spine) {
    StaticRoute one{std::vector<bool>(8), std::vector<bool>(8), {2, spine, 3}};
    one.from[0] = one.to[1] = true;
    return one;
  };
  Routes routes(graph, RouteChoice::kEcmp, 5, {route(6), route(5)});
  std::set<VertexId> back;
  for (uint64_t flow = 0; flow < 100; ++flow) {
    EXPECT_EQ(graph.link(routes.path(0, 1, flow)[1]).to, 5u);
    back.insert(graph.link(routes.path(1, 0, flow)[1]).to);
  }
  EXPECT_EQ(back.size(), 4u);
  EXPECT_EQ(routes.paths(0, 1, 10).size(), 1u);
  EXPECT_EQ(routes.path_count(1, 0), 4u);
}

TEST(Routes, NobodyIsReachedThroughANic) {
  // v0 - v1 - v2, all NICs: v1 does not forward.
  Graph graph;
  for (int i = 0; i < 3; ++i) add(graph, VertexKind::kNic);
  graph.connect(0, 1, kRate, Duration());
  graph.connect(1, 2, kRate, Duration());
  Routes routes(graph, RouteChoice::kEcmp, 5);
  EXPECT_EQ(routes.path(0, 1, 1).size(), 1u);
  EXPECT_TRUE(routes.path(0, 2, 1).empty());
  EXPECT_TRUE(routes.paths(0, 2, 9).empty());
  EXPECT_TRUE(routes.path(0, 0, 1).empty());
  EXPECT_EQ(hops_to(graph, 2)[0], kUnreachable);
}

}  // namespace
}  // namespace understudy
