// Whether it matters which paths hashes draw, and which links flows share.
#include "ctrl/validity/drawn_paths.h"

#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kNodes[] =
    "format = 1\n[[node]]\nname = \"w\"\ncount = 16\n"
    "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";

Topology topology_of(const std::string& keys) {
  const ConfigResult config = load_config_text(kNodes + keys, "t.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  return config ? build_topology(*config).value() : Topology();
}

/// Four nodes behind each leaf.
std::string leaf_spine(const std::string& uplink, const std::string& more = "") {
  return "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 4\n" + more +
         "uplink = { rate = \"" + uplink + "\", latency = \"1us\" }\n";
}

/// From the NICs of nodes to those of others.
std::vector<NicPair> pairs_of(const Topology& topology,
                              const std::vector<std::pair<unsigned, unsigned>>& nodes) {
  std::vector<NicPair> pairs;
  for (const auto& [from, to] : nodes) {
    pairs.push_back({topology.nics[from][0], topology.nics[to][0]});
  }
  return pairs;
}

bool matters(const Topology& topology, const std::vector<std::pair<unsigned, unsigned>>& nodes,
             bool change = false) {
  return paths_matter(topology, pairs_of(topology, nodes), change);
}

TEST(PathsMatter, WhereFlowsMayMeetOnALinkThatIsTooSlow) {
  const Topology topology = topology_of(leaf_spine("100Gbit/s"));
  EXPECT_TRUE(matters(topology, {{0, 4}, {1, 5}}));
  EXPECT_TRUE(matters(topology, {{0, 4}, {5, 9}, {1, 8}}));  // from leaf 0 on, not from leaf 1
  EXPECT_FALSE(matters(topology, {{0, 4}, {4, 8}, {8, 12}, {12, 0}}));
  EXPECT_FALSE(matters(topology, {{0, 1}, {1, 2}, {2, 3}}));  // below one leaf
  EXPECT_FALSE(matters(topology, {{0, 4}}));
  EXPECT_FALSE(matters(topology, {}));
  // Both flows have one sender, or one receiver, whose link is no faster than an uplink.
  EXPECT_FALSE(matters(topology, {{0, 4}, {0, 5}}));
  EXPECT_FALSE(matters(topology, {{0, 4}, {1, 4}}));
}

TEST(PathsMatter, NotIfAllFitOrNothingIsDrawn) {
  EXPECT_FALSE(matters(topology_of(leaf_spine("200Gbit/s")), {{0, 4}, {1, 5}}));
  EXPECT_TRUE(matters(topology_of(leaf_spine("200Gbit/s")), {{0, 4}, {1, 5}, {2, 6}}));
  EXPECT_TRUE(matters(topology_of(leaf_spine("50Gbit/s")), {{0, 4}, {0, 5}}));
  EXPECT_FALSE(matters(topology_of(leaf_spine("50Gbit/s")), {{0, 4}}));
  for (const char* routing : {"static", "spray"}) {
    const std::string key = "routing = \"" + std::string(routing) + "\"\n";
    EXPECT_FALSE(matters(topology_of(leaf_spine("100Gbit/s", key)), {{0, 4}, {1, 5}})) << routing;
  }
  EXPECT_FALSE(matters(topology_of(""), {{0, 4}, {1, 5}, {2, 4}}));
  EXPECT_FALSE(hash_chooses(topology_of("")));
  EXPECT_TRUE(hash_chooses(topology_of(leaf_spine("100Gbit/s"))));
}

TEST(PathsMatter, LinksThatAreNotAlikeOrChange) {
  const std::string slow =
      "[[topology.override]]\nlink = \"leaf0 - spine1\"\nrate = \"40Gbit/s\"\n";
  EXPECT_TRUE(matters(topology_of(leaf_spine("100Gbit/s") + slow), {{0, 4}}));
  EXPECT_FALSE(matters(topology_of(leaf_spine("100Gbit/s") + slow), {{4, 8}}));
  const Topology topology = topology_of(leaf_spine("100Gbit/s"));
  EXPECT_TRUE(matters(topology, {{0, 4}}, true));
  EXPECT_FALSE(matters(topology, {{0, 1}}, true));
}

TEST(SharedLink, IsOneThatIsSlowerThanItsSenders) {
  const Topology topology = topology_of(leaf_spine("100Gbit/s"));
  const auto shared = [&](const std::vector<std::pair<unsigned, unsigned>>& nodes) {
    return shared_link(topology, 1, pairs_of(topology, nodes));
  };
  EXPECT_EQ(shared({{0, 1}, {2, 1}}), "leaf0 -> w1");
  EXPECT_EQ(shared({{0, 1}, {1, 2}, {2, 3}, {3, 0}}), "");
  EXPECT_EQ(shared({{0, 1}, {0, 2}}), "");  // their sender's own link is what they share
  EXPECT_EQ(shared({{0, 4}, {1, 4}}).find(" -> ") != std::string::npos, true);
}

}  // namespace
}  // namespace understudy
