// Every kind of topology: vertices, cables, capacities and longest path, counted by hand.
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "tests/ctrl/topology/sample.h"

namespace understudy {
namespace {

const std::string kUp = "uplink = { rate = \"100Gbit/s\", latency = \"2us\" }\n";
const std::string kLink = "link = { rate = \"100Gbit/s\", latency = \"2us\" }\n";

TEST(TopologyFamilies, WithoutATopologyThereIsOneSwitch) {
  for (const char* text : {"", "[topology]\nkind = \"single_switch\"\n"}) {
    const BuiltTopology t(nodes_text(5, 2) + text);
    EXPECT_EQ(t.vertices("NIC"), 10u);
    EXPECT_EQ(t.vertices("switch"), 1u);
    EXPECT_EQ(t.cables("NIC - switch"), 10u);
    EXPECT_EQ(t.summary.bisection_bps, 500 * kGigabit);
    EXPECT_EQ(t.summary.longest.links, 2u);
    EXPECT_EQ(t.summary.longest.latency, Duration::us(2));
    EXPECT_EQ(t.graph().vertices()[t.topology.nics[3][1]].name, "w3:1");
  }
}

TEST(TopologyFamilies, LeafSpine) {
  const BuiltTopology t(nodes_text(30) +
                        "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 8\nspines = 4\n"
                        "links_per_spine = 2\n" +
                        kUp);
  EXPECT_EQ(t.vertices("leaf"), 4u);  // the last has 6 nodes
  EXPECT_EQ(t.vertices("spine"), 4u);
  EXPECT_EQ(t.cables("NIC - leaf"), 30u);
  EXPECT_EQ(t.cables("leaf - spine"), 32u);
  EXPECT_DOUBLE_EQ(t.ratio("leaf"), 1.0);
  EXPECT_EQ(t.summary.longest.links, 4u);
  EXPECT_EQ(t.summary.longest.latency, Duration::us(6));
  EXPECT_EQ(t.summary.longest.alternatives, 16u);  // 4 spines, 2 cables up, 2 down
  EXPECT_EQ(t.graph().link(t.graph().out(t.at("w8"))[0]).to, t.at("leaf1"));
}

TEST(TopologyFamilies, OversubscriptionGivesTheSpines) {
  const std::string head = nodes_text(64) + "[topology]\nkind = \"leaf_spine\"\nleaves = 4\n" + kUp;
  const BuiltTopology spines(head + "oversubscription = \"2:1\"\n");
  EXPECT_EQ(spines.vertices("spine"), 8u);
  EXPECT_DOUBLE_EQ(spines.ratio("leaf"), 2.0);
  EXPECT_EQ(spines.summary.bisection_bps, 32 * 100 * kGigabit / 2);
  const BuiltTopology parallel(head + "oversubscription = \"4:1\"\nspines = 2\n");
  EXPECT_EQ(parallel.vertices("spine"), 2u);
  EXPECT_EQ(parallel.cables("leaf - spine"), 4u * 2 * 2);
  EXPECT_EQ(parallel.summary.bisection_bps, 32 * 100 * kGigabit / 4);
  const BuiltTopology under(head + "oversubscription = \"1:2\"\nlinks_per_spine = 4\n");
  EXPECT_EQ(under.vertices("spine"), 8u);
  EXPECT_EQ(under.summary.bisection_bps, 32 * 100 * kGigabit);
}

TEST(TopologyFamilies, Rail) {
  const BuiltTopology t(nodes_text(8, 4) +
                        "[topology]\nkind = \"rail\"\nhosts_per_leaf = 4\nspines = 2\n" + kUp);
  EXPECT_EQ(t.vertices("leaf"), 8u);  // 2 groups of 4 rails
  EXPECT_EQ(t.cables("NIC - leaf"), 32u);
  EXPECT_EQ(t.cables("leaf - spine"), 16u);
  EXPECT_DOUBLE_EQ(t.ratio("leaf"), 2.0);
  EXPECT_EQ(t.graph().link(t.graph().out(t.at("w5:3"))[0]).to, t.at("leaf7"));
  // Between groups: 8 leaves' uplinks in each half of the nodes.
  EXPECT_EQ(t.summary.bisection_bps, 8 * 100 * kGigabit);
}

TEST(TopologyFamilies, RailsAloneNeedNoSpines) {
  const BuiltTopology t(nodes_text(4, 2) +
                        "[topology]\nkind = \"rail\"\nhosts_per_leaf = 4\nspines = 0\n");
  EXPECT_EQ(t.vertices("leaf"), 2u);
  EXPECT_EQ(t.vertices("spine"), 0u);
  EXPECT_EQ(t.summary.longest.links, 2u);
}

TEST(TopologyFamilies, FatTree) {
  const BuiltTopology t(nodes_text(16) + "[topology]\nkind = \"fat_tree\"\nk = 4\n" + kUp);
  EXPECT_EQ(t.vertices("edge"), 8u);
  EXPECT_EQ(t.vertices("agg"), 8u);
  EXPECT_EQ(t.vertices("core"), 4u);
  EXPECT_EQ(t.cables("NIC - edge"), 16u);
  EXPECT_EQ(t.cables("edge - agg"), 16u);
  EXPECT_EQ(t.cables("agg - core"), 16u);
  for (const VertexGroup& group : t.summary.groups) {
    if (group.up_bps == 0) continue;
    EXPECT_DOUBLE_EQ(group.oversubscription(), 1.0) << group.name;
  }
  EXPECT_EQ(t.summary.bisection_bps, 16 / 2 * 100 * kGigabit);
  EXPECT_EQ(t.summary.longest.links, 6u);
  EXPECT_EQ(t.summary.longest.latency, Duration::us(10));
  EXPECT_EQ(t.summary.longest.alternatives, 4u);  // one per core
  for (VertexId v = 0; v < t.graph().vertices().size(); ++v) {
    if (t.graph().vertices()[v].kind != VertexKind::kSwitch) continue;
    EXPECT_EQ(t.graph().out(v).size(), 4u);
  }
}

TEST(TopologyFamilies, Torus) {
  const BuiltTopology t(nodes_text(16) + "[topology]\nkind = \"torus\"\ndims = [4, 4]\n" + kLink);
  EXPECT_EQ(t.vertices("router"), 16u);
  EXPECT_EQ(t.cables("router - router"), 32u);
  // Halves are the rows 0, 1 and 2, 3: each column's ring crosses twice.
  EXPECT_EQ(t.summary.bisection_bps, 2 * 4 * 100 * kGigabit);
  EXPECT_EQ(t.summary.longest.links, 2u + 2 + 2);
  EXPECT_EQ(t.summary.longest.latency, Duration::us(2 + 4 * 2));
  const BuiltTopology three(nodes_text(27) + "[topology]\nkind = \"torus\"\ndims = [3, 3, 3]\n" +
                            kLink);
  EXPECT_EQ(three.cables("router - router"), 81u);
  EXPECT_EQ(three.summary.longest.links, 2u + 3);
}

TEST(TopologyFamilies, Mesh) {
  const BuiltTopology t(nodes_text(12) + "[topology]\nkind = \"mesh\"\ndims = [3, 4]\n" + kLink);
  EXPECT_EQ(t.cables("router - router"), 2u * 4 + 3 * 3);
  EXPECT_EQ(t.summary.bisection_bps, 3 * 100 * kGigabit);
  EXPECT_EQ(t.longest(), "w11 w11/router w10/router w9/router w6/router w3/router w0/router w0");
}

TEST(TopologyFamilies, ARingOfTwoIsOneCable) {
  const BuiltTopology t(nodes_text(2) + "[topology]\nkind = \"torus\"\ndims = [2]\n" + kLink);
  EXPECT_EQ(t.cables("router - router"), 1u);
}

TEST(TopologyFamilies, DimensionOrderGoesAlongTheFirstDimensionFirst) {
  const BuiltTopology t(nodes_text(25) +
                        "[topology]\nkind = \"torus\"\ndims = [5, 5]\n"
                        "routing = \"dimension_order\"\n" +
                        kLink);
  Routes routes = t.topology.routes(1);
  for (uint32_t from = 0; from < 25; ++from) {
    for (uint32_t to = 0; to < 25; ++to) {
      bool second = false;
      for (LinkId link : routes.path(t.topology.nics[from][0], t.topology.nics[to][0], 99)) {
        const Vertex& a = t.graph().vertices()[t.graph().link(link).from];
        const Vertex& b = t.graph().vertices()[t.graph().link(link).to];
        if (a.kind != VertexKind::kSwitch || b.kind != VertexKind::kSwitch) continue;
        const auto node = [](const Vertex& v) { return std::stoul(v.name.substr(1)); };
        const bool row = node(a) / 5 == node(b) / 5;
        EXPECT_FALSE(row && second) << from << " -> " << to;
        second = second || !row;
      }
    }
  }
}

TEST(TopologyFamilies, StackOfDimensions) {
  const std::string link = "link = { rate = \"200Gbit/s\", latency = \"500ns\" } }";
  const BuiltTopology t(nodes_text(4 * 3 * 5) +
                        "[topology]\nkind = \"dimensions\"\ndimensions = ["
                        "{ kind = \"ring\", size = 4, " +
                        link + ", { kind = \"fully_connected\", size = 3, " + link +
                        ", { kind = \"switch\", size = 5, " + link + "]\n");
  EXPECT_EQ(t.vertices("router"), 60u);
  EXPECT_EQ(t.vertices("dim2"), 12u);
  EXPECT_EQ(t.cables("router - router"), 15u * 4 + 20 * 3);
  EXPECT_EQ(t.cables("router - dim2") + t.cables("dim2 - router"), 60u);
  EXPECT_EQ(t.summary.longest.links, 2u + 2 + 1 + 2);
  EXPECT_EQ(t.summary.longest.latency, Duration::us(2) + Duration::ns(500) * 5);
  // w0, w12, w24 ... are along the third dimension, on one switch.
  for (const char* name : {"w0/router", "w12/router", "w48/router"}) {
    const auto& out = t.graph().out(t.at(name));
    EXPECT_EQ(t.graph().link(out.back()).to, t.at("dim2.0"));
  }
}

TEST(TopologyFamilies, ExplicitGraph) {
  const BuiltTopology t(nodes_text(4, 2) +
                        "[topology]\nkind = \"graph\"\n"
                        "[[topology.switch]]\nname = \"a\"\n[[topology.switch]]\nname = \"b\"\n"
                        "[[topology.switch]]\nname = \"top\"\ntier = 2\n"
                        "[[topology.link]]\na = \"w*\"\nb = \"a\"\n"
                        "[[topology.link]]\na = \"w3\"\nb = \"b\"\nrate = \"25Gbit/s\"\n"
                        "[[topology.link]]\na = \"a\"\nb = \"top\"\nrate = \"50Gbit/s\"\n"
                        "latency = \"3us\"\ncount = 4\n"
                        "[[topology.link]]\na = \"top\"\nb = \"b\"\nrate = \"50Gbit/s\"\n"
                        "latency = \"3us\"\n");
  EXPECT_EQ(t.cables("NIC - a"), 8u);  // "w*" stands for second NICs too
  EXPECT_EQ(t.cables("NIC - b"), 1u);
  EXPECT_EQ(t.cables("a - top"), 4u);
  EXPECT_DOUBLE_EQ(t.ratio("a"), 4.0);
  const GraphLink& slow = t.graph().link(t.graph().out(t.at("w3"))[1]);
  EXPECT_EQ(slow.rate, Rate::bits_per_second(25 * kGigabit));
  EXPECT_EQ(slow.latency, Duration::us(1));
}

TEST(TopologyFamilies, InsideTheNodes) {
  std::string nodes = nodes_text(2, 2);
  nodes.insert(nodes.find("nics"), "gpus = 8\n");
  const std::string pcie = "pcie = { rate = \"200Gbit/s\", latency = \"700ns\" }\n";
  const std::string topology = "[topology]\nkind = \"single_switch\"\n[intra_node]\n";
  const BuiltTopology both(nodes + topology +
                           "gpu_link = { rate = \"2400Gbit/s\", latency = \"500ns\" }\n" + pcie);
  EXPECT_EQ(both.vertices("GPU"), 16u);
  EXPECT_EQ(both.vertices("nvswitch"), 2u);
  EXPECT_EQ(both.cables("GPU - nvswitch"), 16u);
  EXPECT_EQ(both.cables("NIC - nvswitch"), 4u);
  EXPECT_EQ(both.summary.bisection_bps, 200 * kGigabit);
  Routes routes = both.topology.routes(1);
  EXPECT_EQ(routes.path(both.at("w1/gpu3"), both.at("w1/gpu7"), 1).size(), 2u);
  EXPECT_EQ(routes.path(both.at("w1/gpu3"), both.at("w1:1"), 1).size(), 2u);
  EXPECT_TRUE(routes.path(both.at("w1/gpu3"), both.at("w0"), 1).empty());  // a NIC is an end
  EXPECT_EQ(routes.path(both.at("w1"), both.at("w0"), 1).size(), 2u);
  const BuiltTopology direct(nodes + topology + pcie);
  EXPECT_EQ(direct.vertices("nvswitch"), 0u);
  EXPECT_EQ(direct.graph().link(direct.graph().out(direct.at("w0/gpu3"))[0]).to, direct.at("w0"));
  EXPECT_EQ(direct.graph().link(direct.graph().out(direct.at("w0/gpu4"))[0]).to, direct.at("w0:1"));
}

TEST(TopologyFamilies, OverridesChangeTheLinksTheyName) {
  const BuiltTopology t(
      nodes_text(8) + "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n" + kUp +
      "[[topology.override]]\nlink = \"leaf* - spine*\"\nrate = \"50Gbit/s\"\n"
      "[[topology.override]]\nlink = \"leaf0 -> spine1\"\nloss = 0.25\nlatency = \"9us\"\n"
      "down = [{ from = \"1ms\", to = \"2ms\" }, { from = \"3ms\" }]\n");
  int changed = 0;
  for (LinkId id = 0; id < t.graph().links().size(); ++id) {
    const GraphLink& link = t.graph().link(id);
    const std::string name = t.graph().link_name(id);
    const bool between =
        name.find("leaf") != std::string::npos && name.find("spine") != std::string::npos;
    EXPECT_EQ(link.rate.bps(), (between ? 50 : 100) * kGigabit) << name;
    if (name != "leaf0 -> spine1") {
      EXPECT_EQ(link.loss, 0) << name;
      EXPECT_TRUE(link.down.empty()) << name;
      continue;
    }
    ++changed;
    EXPECT_DOUBLE_EQ(link.loss, 0.25);
    EXPECT_EQ(link.latency, Duration::us(9));
    ASSERT_EQ(link.down.size(), 2u);
    EXPECT_EQ(link.down[0].to, Time::zero() + Duration::ms(2));
    EXPECT_TRUE(link.down[1].to.is_never());
  }
  EXPECT_EQ(changed, 1);
}

TEST(TopologyFamilies, StaticRoutes) {
  const BuiltTopology t(
      nodes_text(8) + "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 4\n" + kUp +
      "routing = \"static\"\n"
      "[[topology.route]]\nfrom = \"w1\"\nto = \"w5\"\nvia = [\"leaf0\", \"spine2\", \"leaf1\"]\n");
  Routes routes = t.topology.routes(1);
  for (uint64_t flow = 0; flow < 50; ++flow) {
    const auto listed = routes.path(t.at("w1"), t.at("w5"), flow);
    ASSERT_EQ(listed.size(), 4u);
    EXPECT_EQ(t.graph().link_name(listed[1]), "leaf0 -> spine2");
    // A pair that is not listed takes the first of its shortest paths, always.
    EXPECT_EQ(t.graph().link_name(routes.path(t.at("w1"), t.at("w6"), flow)[1]), "leaf0 -> spine0");
  }
}

TEST(TopologyFamilies, AThousandNodesInThreeTiersAreRoutedWellUnderASecond) {
  const BuiltTopology t(nodes_text(1024) + "[topology]\nkind = \"fat_tree\"\nk = 16\n" + kUp);
  EXPECT_EQ(t.summary.bisection_bps, 512 * 100 * kGigabit);
  EXPECT_EQ(t.summary.longest.alternatives, 64u);
  Routes routes = t.topology.routes(1);
  const auto start = std::chrono::steady_clock::now();
  std::set<VertexId> cores;
  for (uint32_t shift = 1; shift < 1024; shift += 31) {
    for (uint32_t i = 0; i < 1024; ++i) {
      const auto path = routes.path(t.topology.nics[i][0], t.topology.nics[(i + shift) % 1024][0],
                                    flow_hash(i, shift, 0));
      ASSERT_FALSE(path.empty());
      if (path.size() == 6) cores.insert(t.graph().link(path[2]).to);
    }
  }
  EXPECT_EQ(cores.size(), 64u);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(took.count()));
  std::printf("34 permutations of 1024 flows: %.3f s\n", took.count());
}

}  // namespace
}  // namespace understudy
