// Wrong topologies: every error names the line, the key and what is wrong, before anything runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/ctrl/topology/sample.h"

namespace understudy {
namespace {

/// 16 nodes "w0" ... in lines 1 to 5, then this; the error stands in the line that holds "#!".
struct BadCase {
  const char* text;
  const char* key;
  std::vector<const char*> words;
};

const char kUplink[] = "uplink = { rate = \"100Gbit/s\", latency = \"1us\" }\n";

std::vector<ConfigError> errors_of(const std::string& text) {
  const ConfigResult read = load_config_text(text, "t.toml");
  if (!read) return read.error();
  const auto built = build_topology(*read);
  return built ? std::vector<ConfigError>{} : built.error();
}

void expect_error(const std::string& text, const std::string& key,
                  const std::vector<const char*>& words) {
  SCOPED_TRACE(text);
  const auto errors = errors_of(text);
  ASSERT_EQ(errors.size(), 1u) << describe(errors);
  const size_t mark = text.find("#!");
  ASSERT_NE(mark, std::string::npos);
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark), '\n');
  EXPECT_EQ(errors[0].line, static_cast<unsigned>(line + 1)) << describe(errors);
  EXPECT_EQ(errors[0].file, "t.toml");
  EXPECT_EQ(errors[0].key, key);
  for (const char* word : words) {
    EXPECT_NE(errors[0].text().find(word), std::string::npos) << word << ": " << errors[0].text();
  }
}

const BadCase kLeafSpineCases[] = {
    // kind = "leaf_spine" and an uplink stand before them
    {"hosts_per_leaf = 4\nspines = 2\nsppines = 2#!\n",
     "topology.sppines",
     {"unknown key", "did you mean \"spines\""}},
    {"hosts_per_leaf = 0#!\nleaves = 4\nspines = 2\n", "topology.hosts_per_leaf", {"found 0"}},
    {"leaves = 5#!\nspines = 2\n", "topology.leaves", {"found 5", "16 nodes", "hosts_per_leaf"}},
    {"hosts_per_leaf = 4\nleaves = 3#!\nspines = 2\n", "topology.leaves", {"found 3", "need 4"}},
    {"hosts_per_leaf = 4\noversubscription = \"3:1\"#!\n",
     "topology.oversubscription",
     {"3:1", "400000 Mbit/s", "not come out even"}},
    {"hosts_per_leaf = 4\nspines = 3\noversubscription = \"2:1\"#!\n",
     "topology.oversubscription",
     {"2 uplinks", "spines = 3"}},
    {"hosts_per_leaf = 4\noversubscription = \"2\"#!\n", "topology.oversubscription", {"\"2:1\""}},
    {"hosts_per_leaf = 4\noversubscription = \"0:1\"#!\n",
     "topology.oversubscription",
     {"\"2:1\""}},
    {"hosts_per_leaf = 4\nspines = 2\nlinks_per_spine = 1\noversubscription = \"2:1\"#!\n",
     "topology.oversubscription",
     {"leave one of the three out"}},
    {"hosts_per_leaf = 1\nspines = 65536\nlinks_per_spine = 2\n", "topology.kind", {"2097152"}},
    {"hosts_per_leaf = 4\nspines = 2\nrouting = \"ecpm\"#!\n",
     "topology.routing",
     {"did you mean \"ecmp\""}},
    {"hosts_per_leaf = 4\nspines = 2\nrouting = \"dimension_order\"#!\n",
     "topology.routing",
     {"torus"}},
    // Overrides.
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"leaf0 - spine2\"#!\nloss = "
     "0.1\n",
     "topology.override.link",
     {"leaf0 - spine2", "nothing is called \"spine2\"", "did you mean"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"w0 -> leaf1\"#!\nloss = "
     "0.1\n",
     "topology.override.link",
     {"w0 -> leaf1", "no cable matches"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"w0,leaf0\"#!\nloss = 0.1\n",
     "topology.override.link",
     {"expected \"leaf0 -> spine1\""}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]#!\nlink = \"w0 - leaf0\"\n",
     "topology.override.link",
     {"rate, latency, loss or down"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"w0 - leaf0\"\nloss = 1.5#!\n",
     "topology.override.loss",
     {"1.5", "from 0 to 1"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"w0 - leaf0\"\n"
     "rate = \"0Gbit/s\"#!\n",
     "topology.override.rate",
     {"above zero"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"w0 - leaf0\"\n"
     "down = [{ from = \"2ms\", to = \"1ms\" }]#!\n",
     "topology.override.down.to",
     {"1ms", "later than from"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.override]]\nlink = \"w0 - leaf0\"\n"
     "down = [{ from = \"1ms\" }, { from = \"2ms\" }]#!\n",
     "topology.override.down.from",
     {"in order of time, apart"}},
    // Static routes.
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.route]]#!\nfrom = \"w0\"\nto = \"w4\"\n"
     "via = [\"leaf0\", \"spine0\", \"leaf0\", \"spine1\", \"leaf1\"]\n",
     "topology.route.via",
     {"a cycle: leaf0 -> spine0 -> leaf0"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.route]]#!\nfrom = \"w0\"\nto = \"w4\"\n"
     "via = [\"leaf0\", \"leaf1\"]\n",
     "topology.route.via",
     {"leaf0 -> leaf1", "no cable"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.route]]#!\nfrom = \"w0\"\nto = \"w*\"\n"
     "via = [\"leaf0\", \"spine0\", \"leaf1\"]\n",
     "topology.route.via",
     {"leaf1 -> w0", "no cable"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.route]]#!\nfrom = \"w0\"\nto = \"w4\"\n"
     "via = [\"leaf0\", \"spin0\", \"leaf1\"]\n",
     "topology.route.via",
     {"\"spin0\"", "did you mean \"spine0\""}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.route]]#!\nfrom = \"w0\"\nto = \"w4\"\n"
     "via = [\"leaf0\", \"w1\", \"leaf1\"]\n",
     "topology.route.via",
     {"\"w1\"", "only switches forward"}},
    {"hosts_per_leaf = 4\nspines = 2\n[[topology.route]]#!\nfrom = \"x0\"\nto = \"w4\"\n"
     "via = [\"leaf0\"]\n",
     "topology.route.from",
     {"\"x0\"", "no NIC"}},
};

TEST(TopologyErrors, LeafSpineAndWhatLiesOverIt) {
  for (const BadCase& bad : kLeafSpineCases) {
    const std::string rest = bad.text;
    const bool marked = rest.find("#!") != std::string::npos;
    expect_error(nodes_text(16) + (marked ? "[topology]\n" : "[topology]#!\n") +
                     "kind = \"leaf_spine\"\n" + kUplink + rest,
                 bad.key, bad.words);
  }
}

const BadCase kOtherCases[] = {
    {"[topology]#!\n", "topology.kind", {"missing"}},
    {"[topology]\nkind = \"fattree\"#!\n", "topology.kind", {"did you mean \"fat_tree\""}},
    {"[topology]#!\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n",
     "topology.uplink",
     {"missing", "leaf to a spine"}},
    {"[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
     "uplink = { rate = \"unlimited\", latency = \"1us\" }#!\n",
     "topology.uplink.rate",
     {"every link of a topology has a rate"}},
    {"[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
     "uplink = { rate = \"0bit/s\", latency = \"1us\" }#!\n",
     "topology.uplink.rate",
     {"above zero"}},
    {"[topology]#!\nkind = \"leaf_spine\"\nhosts_per_leaf = 8\nspines = 0\n",
     "topology.kind",
     {"no path between w0 and w8"}},
    {"[topology]\nkind = \"fat_tree\"\nk = 3#!\nuplink = { rate = \"1Gbit/s\", latency = \"1us\" "
     "}\n",
     "topology.k",
     {"found 3", "even"}},
    {"[topology]\nkind = \"fat_tree\"\nk = 2#!\nuplink = { rate = \"1Gbit/s\", latency = \"1us\" "
     "}\n",
     "topology.k",
     {"k^3/4 = 2", "16"}},
    {"[topology]\nkind = \"torus\"\ndims = [4, 5]#!\nlink = { rate = \"1Gbit/s\", latency = "
     "\"1us\" }\n",
     "topology.dims",
     {"room for 20 nodes", "16 nodes"}},
    {"[topology]\nkind = \"mesh\"\ndims = [16, 0]#!\nlink = { rate = \"1Gbit/s\", latency = "
     "\"1us\" }\n",
     "topology.dims",
     {"[4, 4, 4]"}},
    {"[topology]\nkind = \"dimensions\"\n"
     "dimensions = [{ kind = \"rnig\", size = 16, link = { rate = \"1Gbit/s\", latency = \"1us\" } "
     "}]#!\n",
     "topology.dimensions.kind",
     {"did you mean \"ring\""}},
    {"[topology]\nkind = \"dimensions\"\n"
     "dimensions = [{ kind = \"ring\", size = 8, link = { rate = \"1Gbit/s\", latency = \"1us\" } "
     "}]#!\n",
     "topology.dimensions",
     {"room for 8 nodes"}},
    // An explicit graph.
    {"[topology]\nkind = \"graph\"\n[[topology.switch]]\nname = \"s\"\n[[topology.switch]]#!\n"
     "name = \"s\"\n[[topology.link]]\na = \"w*\"\nb = \"s\"\n",
     "topology.switch.name",
     {"\"s\"", "belongs to a switch"}},
    {"[topology]\nkind = \"graph\"\n[[topology.switch]]#!\nname = \"w3\"\n"
     "[[topology.link]]\na = \"w1*\"\nb = \"w2\"\n",
     "topology.switch.name",
     {"\"w3\"", "belongs to a NIC"}},
    {"[topology]\nkind = \"graph\"\n[[topology.switch]]\nname = \"tor\"\n"
     "[[topology.link]]#!\na = \"w*\"\nb = \"top\"\n",
     "topology.link.b",
     {"\"top\"", "did you mean \"tor\""}},
    {"[topology]\nkind = \"graph\"\n[[topology.switch]]\nname = \"a\"\n[[topology.switch]]\nname = "
     "\"b\"\n"
     "[[topology.link]]#!\na = \"a\"\nb = \"b\"\n",
     "topology.link.rate",
     {"needs rate and latency"}},
    {"[topology]\nkind = \"graph\"\n[[topology.switch]]\nname = \"a\"\n"
     "[[topology.link]]#!\na = \"w*\"\nb = \"w3\"\n",
     "topology.link.b",
     {"to itself"}},
    {"[topology]#!\nkind = \"graph\"\n[[topology.switch]]\nname = \"a\"\n"
     "[[topology.link]]\na = \"w1*\"\nb = \"a\"\n",
     "topology.kind",
     {"no path between w0 and w1"}},
    {"[intra_node]#!\npcie = { rate = \"1Gbit/s\", latency = \"1us\" }\n",
     "intra_node.gpu_link",
     {"no [topology]"}},
    {"[topology]\nkind = \"single_switch\"\n[intra_node]#!\n",
     "intra_node.gpu_link",
     {"gpu_link, pcie"}},
};

TEST(TopologyErrors, OtherKinds) {
  for (const BadCase& bad : kOtherCases) {
    expect_error(nodes_text(16) + bad.text, bad.key, bad.words);
  }
}

TEST(TopologyErrors, EveryLinkHasARate) {
  expect_error(
      "format = 1\n[[node]]#!\nname = \"w\"\ncount = 4\n"
      "link = { rate = \"unlimited\", latency = \"1us\" }\n[topology]\nkind = \"single_switch\"\n",
      "node.link.rate", {"unlimited", "w0"});
}

TEST(TopologyErrors, ARateThatCannotBeReadIsOneError) {
  expect_error(
      "format = 1\n[[node]]\nname = \"w\"\ncount = 4\n"
      "link = { rate = \"100Gbps\", latency = \"1us\" }#!\n[topology]\nkind = \"single_switch\"\n",
      "node.link.rate", {"100Gbps"});
}

TEST(TopologyErrors, NodesReachOneAnotherOnEveryRail) {
  // NIC 0 has a switch for all, NIC 1 one for each node.
  const std::string text =
      nodes_text(2, 2) +
      "[topology]#!\nkind = \"graph\"\n[[topology.switch]]\nname = \"s\"\n"
      "[[topology.switch]]\nname = \"t\"\n[[topology.link]]\na = \"w0\"\nb = \"s\"\n"
      "[[topology.link]]\na = \"w1\"\nb = \"s\"\n[[topology.link]]\na = \"w0:1\"\nb = \"s\"\n"
      "[[topology.link]]\na = \"w1:1\"\nb = \"t\"\n";
  expect_error(text, "topology.kind", {"no path between w0:1 and w1:1"});
}

TEST(TopologyErrors, ANicDoesNotJoinOthers) {
  expect_error(nodes_text(3) +
                   "[topology]#!\nkind = \"graph\"\n[[topology.link]]\na = \"w0\"\nb = \"w1\"\n"
                   "[[topology.link]]\na = \"w1\"\nb = \"w2\"\n",
               "topology.kind", {"no path between w0 and w2"});
}

TEST(TopologyErrors, SeveralAreReportedInOrderOfLines) {
  const auto errors = errors_of(nodes_text(16) + "[topology]\nkind = \"leaf_spine\"\n" + kUplink +
                                "hosts_per_leaf = 4\nspines = 2\n"
                                "[[topology.override]]\nlink = \"a - b\"\nloss = 0.1\n"
                                "[[topology.route]]\nfrom = \"x\"\nto = \"w4\"\nvia = [\"leaf0\"]\n"
                                "[[topology.override]]\nlink = \"c - d\"\nloss = 0.1\n");
  ASSERT_EQ(errors.size(), 3u) << describe(errors);
  EXPECT_LT(errors[0].line, errors[1].line);
  EXPECT_LT(errors[1].line, errors[2].line);
}

}  // namespace
}  // namespace understudy
