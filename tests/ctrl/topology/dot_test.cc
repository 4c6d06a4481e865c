// Drawings of topologies: what Graphviz is told. Graphviz itself: the test of the command line.
#include "ctrl/topology/topology_dot.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ctrl/topology/sample.h"

namespace understudy {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string leaf_spine(unsigned nodes, const std::string& rest = "") {
  return nodes_text(nodes) +
         "[topology]\nkind = \"leaf_spine\"\nleaves = 4\nspines = 2\nlinks_per_spine = 3\n"
         "uplink = { rate = \"100Gbit/s\", latency = \"2us\" }\n" +
         rest;
}

TEST(TopologyDot, SmallNetworksAreDrawnWhole) {
  const BuiltTopology t(leaf_spine(
      16, "[[topology.override]]\nlink = \"leaf2 -> spine1\"\ndown = [{ from = \"1ms\" }]\n"));
  const std::string text = dot_program(t.graph(), "sixteen");
  EXPECT_EQ(count(text, "[label="), 16u + 4 + 2);
  EXPECT_EQ(count(text, "[tooltip="), 16u + 8);  // parallel cables are one line
  EXPECT_EQ(count(text, "label=\"3x\""), 8u);
  EXPECT_EQ(count(text, "color=red"), 1u);
  EXPECT_NE(text.find("\"leaf2\" -- \"spine1\" [tooltip=\"3x 100 Gbit/s\""), std::string::npos);
  EXPECT_NE(text.find("label=\"sixteen\""), std::string::npos);
}

TEST(TopologyDot, InLargeOnesTheNicsOfALeafAreOneBox) {
  const BuiltTopology t(leaf_spine(256));
  const std::string text = dot_program(t.graph(), "many");
  EXPECT_EQ(count(text, "[label="), 4u + 4 + 2);
  EXPECT_EQ(count(text, "\n64 NICs"), 4u);
  EXPECT_NE(text.find("w64 .. w127"), std::string::npos);
  EXPECT_NE(text.find("\"w64\" -- \"leaf1\" [tooltip=\"64x 100 Gbit/s\""), std::string::npos);
}

std::string fat_tree(unsigned k, const std::string& rest = "") {
  return nodes_text(k * k * k / 4) + "[topology]\nkind = \"fat_tree\"\nk = " + std::to_string(k) +
         "\nuplink = { rate = \"100Gbit/s\", latency = \"2us\" }\n" + rest;
}

TEST(TopologyDot, PodsOfALargeFatTreeAreBoxes) {
  const BuiltTopology t(fat_tree(16));
  const std::string text = dot_program(t.graph(), "1,024 hosts");
  EXPECT_EQ(count(text, "[label="), 16u + 1);  // pods, and all cores
  EXPECT_EQ(count(text, "\n64 NICs, 16 switches\""), 16u);
  EXPECT_EQ(count(text, "\n64 switches\""), 1u);
  EXPECT_NE(text.find("w64 .. w127"), std::string::npos);
  EXPECT_EQ(count(text, "label=\"64x\""), 16u);  // of each pod to the cores
  EXPECT_NE(text.find("--all draws each"), std::string::npos);
  EXPECT_EQ(count(text, "color=red"), 0u);

  const std::string all = dot_program(t.graph(), "1,024 hosts", true);
  EXPECT_EQ(count(all, "[label="), t.graph().vertices().size());
  EXPECT_EQ(count(all, "[tooltip="), t.graph().links().size() / 2);
  EXPECT_EQ(all.find("--all"), std::string::npos);
}

TEST(TopologyDot, UpTo64HostsAreDrawnEach) {
  const BuiltTopology t(leaf_spine(64)), more(leaf_spine(68));
  EXPECT_EQ(count(dot_program(t.graph(), "t"), "[label="), 64u + 4 + 2);
  EXPECT_EQ(count(dot_program(more.graph(), "t"), "[label="), 4u + 4 + 2);
  EXPECT_EQ(count(dot_program(more.graph(), "t", true), "[label="), 68u + 4 + 2);
}

TEST(TopologyDot, TroubleInsideABoxIsRed) {
  const BuiltTopology t(
      fat_tree(8, "[[topology.override]]\nlink = \"edge5 -> agg4\"\nloss = 0.01\n"));
  const std::string text = dot_program(t.graph(), "t");
  EXPECT_EQ(count(text, "[label="), 8u + 1);
  EXPECT_EQ(count(text, "color=red"), 1u);
  EXPECT_NE(text.find("\"w16\" [label=\"w16 .. w31\n16 NICs, 8 switches\", color=red"),
            std::string::npos);
}

TEST(TopologyDot, ManyRacksThatAreAlikeAreOneBox) {
  const BuiltTopology t(nodes_text(400) +
                        "[topology]\nkind = \"leaf_spine\"\nleaves = 100\nspines = 2\n"
                        "uplink = { rate = \"100Gbit/s\", latency = \"2us\" }\n");
  const std::string text = dot_program(t.graph(), "t");
  EXPECT_EQ(count(text, "[label="), 2u);
  EXPECT_NE(text.find("w0 .. w399\n100 pods, 400 NICs, 100 switches"), std::string::npos);
  EXPECT_NE(text.find("spine0 .. spine1\n2 switches"), std::string::npos);
  EXPECT_EQ(count(text, "label=\"200x\""), 1u);
}

TEST(TopologyDot, AVertexAloneInItsTierIsSeen) {
  const BuiltTopology t(nodes_text(3) + "[topology]\nkind = \"single_switch\"\n");
  const std::string text = dot_program(t.graph(), "t");
  EXPECT_EQ(count(text, "style=invis"), 1u) << text;  // the chain of the NICs
  EXPECT_NE(text.find("\"w0\" -- \"w1\" -- \"w2\" [style=invis]"), std::string::npos) << text;
}

TEST(TopologyDot, ALargeSwitchHasOneBox) {
  const BuiltTopology t(nodes_text(1000) + "[topology]\nkind = \"single_switch\"\n");
  const std::string text = dot_program(t.graph(), "t");
  EXPECT_EQ(count(text, "[label="), 2u);
  EXPECT_NE(text.find("w0 .. w999\n1000 NICs"), std::string::npos);
  EXPECT_EQ(count(text, "label=\"1000x\""), 1u);
}

TEST(TopologyDot, InnerDimensionsOfManyRoutersAreBoxes) {
  const std::string link = "link = { rate = \"100Gbit/s\", latency = \"2us\" }\n";
  const BuiltTopology t(nodes_text(1000) + "[topology]\nkind = \"torus\"\ndims = [10, 10, 10]\n" +
                        link);
  EXPECT_EQ(blocks_of(t.config), (std::vector<uint32_t>{10, 100}));
  const std::string text = dot_program(t.graph(), "t", false, blocks_of(t.config));
  EXPECT_EQ(count(text, "[label="), 10u);
  EXPECT_EQ(count(text, "\n100 NICs\""), 10u);
  EXPECT_NE(text.find("\"w100\" -- \"w200\" [tooltip=\"100x 100 Gbit/s\""), std::string::npos);
  EXPECT_EQ(count(text, "[tooltip="), 10u);  // a ring of boxes
  EXPECT_EQ(count(dot_program(t.graph(), "t", true, blocks_of(t.config)), "[label="), 1000u);

  // Where even the largest blocks are many, those are drawn: not every host.
  const BuiltTopology longer(nodes_text(800) +
                             "[topology]\nkind = \"torus\"\ndims = [2, 4, 100]\n" + link);
  const std::string many = dot_program(longer.graph(), "t", false, blocks_of(longer.config));
  EXPECT_EQ(count(many, "[label="), 100u);
  EXPECT_EQ(count(many, "\n8 NICs\""), 100u);

  // Switches between the same boxes are one, those inside a box are counted.
  const std::string dimension = ", link = { rate = \"100Gbit/s\", latency = \"2us\" } },\n";
  const BuiltTopology stack(nodes_text(128) +
                            "[topology]\nkind = \"dimensions\"\ndimensions = [\n"
                            "{ kind = \"switch\", size = 4" +
                            dimension + "{ kind = \"ring\", size = 4" + dimension +
                            "{ kind = \"switch\", size = 8" + dimension + "]\n");
  const std::string boxes = dot_program(stack.graph(), "s", false, blocks_of(stack.config));
  EXPECT_EQ(count(boxes, "\n4 NICs, 1 switch\""), 32u) << boxes;
  EXPECT_EQ(count(boxes, "\n4 switches\""), 4u);
  EXPECT_EQ(count(boxes, "[label="), 32u + 4);
}

TEST(TopologyDot, ARouterIsItsNode) {
  const BuiltTopology t(nodes_text(16) +
                        "[topology]\nkind = \"torus\"\ndims = [4, 4]\n"
                        "link = { rate = \"100Gbit/s\", latency = \"2us\" }\n");
  const std::string text = dot_program(t.graph(), "torus");
  EXPECT_EQ(count(text, "[label="), 16u);
  EXPECT_EQ(count(text, "[tooltip="), 32u);
  EXPECT_NE(text.find("layout=neato"), std::string::npos);
}

}  // namespace
}  // namespace understudy
