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
