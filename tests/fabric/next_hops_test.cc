// What switches choose one by one is the path that Routes gives as a whole: over random networks, by
// hash and by number.
#include "dataplane/fabric/next_hops.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace understudy {
namespace {

constexpr Rate kRate = Rate::bits_per_second(100'000'000'000);

/// Connected switches with parallel cables; NICs with one or two cables, some of them parallel.
Graph random_graph(std::mt19937& random, std::vector<VertexId>& nics) {
  Graph graph;
  const auto below = [&](uint32_t n) { return static_cast<VertexId>(random() % n); };
  const auto add = [&](VertexKind kind) {
    return graph.add_vertex({kind, "v" + std::to_string(graph.vertices().size()), 0, 0, 0});
  };
  const uint32_t switches = 2 + below(15);
  for (uint32_t i = 0; i < switches; ++i) add(VertexKind::kSwitch);
  for (uint32_t i = 1; i < switches; ++i) graph.connect(i, below(i), kRate, Duration::us(1));
  for (uint32_t i = below(4 * switches); i > 0; --i) {
    const VertexId a = below(switches);
    graph.connect(a, (a + 1 + below(switches - 1)) % switches, kRate, Duration::us(1));
  }
  for (uint32_t i = 2 + below(8); i > 0; --i) {
    nics.push_back(add(VertexKind::kNic));
    const VertexId first = below(switches);
    graph.connect(nics.back(), first, kRate, Duration::us(1));
    if (below(3) == 0) graph.connect(nics.back(), first, kRate, Duration::us(1));
    if (below(3) == 0) graph.connect(nics.back(), below(switches), kRate, Duration::us(1));
  }
  return graph;
}

/// Link by link, each of which is expected before it is chosen.
std::vector<LinkId> walk(const Graph& graph, NextHops& hops, VertexId from, Way way) {
  std::vector<LinkId> links;
  for (VertexId at = from; at != way.destination(); at = graph.link(links.back()).to) {
    const LinkId expected = hops.expected(at, way);
    links.push_back(hops.next(at, way));
    EXPECT_EQ(links.back(), expected);
    EXPECT_EQ(graph.link(links.back()).from, at);
    if (links.size() > 100) break;
  }
  return links;
}

TEST(NextHops, AreThoseOfThePathOfAHash) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<VertexId> nics;
    const Graph graph = random_graph(random, nics);
    const auto choice = round % 3 == 0 ? RouteChoice::kFirst : RouteChoice::kEcmp;
    const uint64_t seed = random();
    Routes routes(graph, choice, seed);
    NextHops hops(graph, choice, seed);
    for (const VertexId nic : nics) hops.learn(nic);
    for (const VertexId from : nics) {
      for (const VertexId to : nics) {
        if (from == to) continue;
        for (uint64_t flow = 0; flow < 8; ++flow) {
          const uint64_t hash = flow_hash(from, to, flow);
          EXPECT_EQ(walk(graph, hops, from, Way::by_hash(to, hash)), routes.path(from, to, hash));
        }
      }
    }
  }
}

TEST(NextHops, AreThoseOfThePathsByNumber) {
  std::mt19937 random(12);
  uint64_t most = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<VertexId> nics;
    const Graph graph = random_graph(random, nics);
    Routes routes(graph, RouteChoice::kSpray, 1);
    NextHops hops(graph, RouteChoice::kSpray, 1);
    for (const VertexId nic : nics) hops.learn(nic);
    for (const VertexId from : nics) {
      for (const VertexId to : nics) {
        if (from == to) continue;
        const uint64_t count = hops.paths(from, to);
        ASSERT_EQ(count, routes.path_count(from, to));
        most = std::max(most, count);
        const auto all = routes.paths(from, to, 200);
        for (size_t i = 0; i < all.size(); ++i) {
          const uint64_t number = count * i / all.size();
          EXPECT_EQ(walk(graph, hops, from, Way::by_number(to, number)), all[i]);
        }
      }
    }
  }
  EXPECT_GT(most, 20u);
}

// Seven layers of 40 switches with 20 cables between any two have more paths than can be counted; the numbers still lead somewhere.
TEST(NextHops, WithMorePathsThanCanBeCountedEveryNumberIsAPath) {
  Graph graph;
  std::vector<VertexId> before = {graph.add_vertex({VertexKind::kNic, "from", 0, 0, 0})};
  for (int layer = 0; layer < 9; ++layer) {
    std::vector<VertexId> next;
    const int width = layer == 0 || layer == 8 ? 1 : 40;
    for (int i = 0; i < width; ++i) {
      next.push_back(graph.add_vertex({VertexKind::kSwitch, "", 0, 0, 1}));
      for (const VertexId v : before) {
        for (int cable = 0; cable < (layer == 0 ? 1 : 20); ++cable) {
          graph.connect(v, next.back(), kRate, Duration::us(1));
        }
      }
    }
    before = next;
  }
  const VertexId to = graph.add_vertex({VertexKind::kNic, "to", 1, 0, 0});
  graph.connect(before[0], to, kRate, Duration::us(1));
  Routes routes(graph, RouteChoice::kSpray, 1);
  NextHops hops(graph, RouteChoice::kSpray, 1);
  hops.learn(to);
  EXPECT_EQ(hops.paths(0, to), kMostPathsCounted);
  const auto all = routes.paths(0, to, 64);
  for (uint64_t i = 0; i < 64; ++i) {
    const Way way = Way::by_number(to, kMostPathsCounted / 64 * i);
    EXPECT_EQ(walk(graph, hops, 0, way), all[i]) << i;
  }
}

TEST(NextHops, LinksThatAPacketCarriesComeOneAfterAnother) {
  const LinkId links[] = {7, 3, 9};
  Way way = Way::along(links);
  EXPECT_TRUE(way.has_links());
  EXPECT_FALSE(Way::by_hash(5, 1).has_links());
  EXPECT_EQ(*way.links(), 3u);
  EXPECT_EQ(way.take_link(), 3u);
  EXPECT_EQ(way.take_link(), 9u);
  EXPECT_FALSE(Way::by_hash(5, 1).numbered());
  EXPECT_TRUE(Way::by_number(5, 1).numbered());
  EXPECT_EQ(Way::by_number(5, 1).destination(), 5u);
}

/// Links to `to` from every vertex, over switches and links that are up; the plain way.
std::vector<uint32_t> distances(const Graph& graph, const std::vector<bool>& down, VertexId to) {
  std::vector<uint32_t> hops(graph.vertices().size(), UINT32_MAX);
  hops[to] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (LinkId link = 0; link < graph.links().size(); ++link) {
      const GraphLink& l = graph.link(link);
      const bool passes = l.to == to || graph.vertices()[l.to].kind == VertexKind::kSwitch;
      if (down[link] || !passes || hops[l.to] == UINT32_MAX || hops[l.to] + 1 >= hops[l.from])
        continue;
      hops[l.from] = hops[l.to] + 1;
      changed = true;
    }
  }
  return hops;
}

// Down again and again, some of them up in between: ways are shortest ones of what is up, or end at
// a switch that knows none; and all is as it was when all is up.
TEST(NextHops, LeaveOutLinksThatAreDown) {
  std::mt19937 random(13);
  for (int round = 0; round < 200; ++round) {
    std::vector<VertexId> nics;
    const Graph graph = random_graph(random, nics);
    const auto choice = round % 2 == 0 ? RouteChoice::kSpray : RouteChoice::kEcmp;
    NextHops hops(graph, choice, 7), fresh(graph, choice, 7);
    for (const VertexId nic : nics) {
      hops.learn(nic);
      fresh.learn(nic);
    }
    std::vector<bool> down(graph.links().size());
    for (int change = 0; change < 4; ++change) {
      std::vector<LinkState> states;
      for (LinkId link = 0; link < down.size(); ++link) {
        const bool now = change < 3 && random() % 3 == 0;
        if (now == down[link]) continue;
        down[link] = now;
        states.push_back({link, !now});
      }
      hops.set_links(states);
      for (const VertexId to : nics) {
        const std::vector<uint32_t> far = distances(graph, down, to);
        for (const VertexId from : nics) {
          if (from == to) continue;
          const bool sprayed = choice == RouteChoice::kSpray;
          const uint64_t paths = sprayed ? hops.paths(from, to) : 1;
          EXPECT_EQ(paths == 0, sprayed && far[from] == UINT32_MAX);
          for (uint64_t flow = 0; flow < 6; ++flow) {
            Way way = sprayed ? Way::by_number(to, paths == 0 ? 0 : flow % paths)
                              : Way::by_hash(to, flow_hash(from, to, flow));
            VertexId at = from;
            LinkId link = kNoLink, first = kNoLink;
            for (unsigned left = 100; at != to && left > 0; --left) {
              link = hops.next(at, way);
              if (at == from) first = link;
              if (link == kNoLink) break;
              if (far[from] != UINT32_MAX) {
                EXPECT_FALSE(down[link]);
                EXPECT_EQ(far[graph.link(link).to] + 1, far[at]);
              }
              at = graph.link(link).to;
            }
            // A NIC sends all the same: its switch says no, or its only cable is down.
            if (far[from] != UINT32_MAX) EXPECT_EQ(at, to);
            if (far[from] == UINT32_MAX && at == to) EXPECT_TRUE(down[first]);
            if (change == 3) {
              Way again = sprayed ? Way::by_number(to, flow % paths)
                                  : Way::by_hash(to, flow_hash(from, to, flow));
              EXPECT_EQ(walk(graph, hops, from, again), walk(graph, fresh, from, again));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace understudy
