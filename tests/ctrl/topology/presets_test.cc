// Every file of configs/topology is good, and amounts to what its source says; the reference's
// other kinds are good too.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/ctrl/config/mutator.h"
#include "tests/ctrl/topology/sample.h"

namespace understudy {
namespace {

const std::filesystem::path kFolder = UNDERSTUDY_TEST_DATA "/../../configs/topology";

std::string text_of(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(kFolder / name).rdbuf();
  return text.str();
}

TEST(TopologyPresets, AllAreGood) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    SCOPED_TRACE(entry.path());
    const BuiltTopology t(text_of(entry.path().filename()));
    EXPECT_GT(t.summary.bisection_bps, 0u);
    ++files;
  }
  EXPECT_GE(files, 8u);
}

struct Expected {
  size_t nics;
  std::map<std::string, uint32_t> vertices;
  std::map<std::string, uint64_t> cables;
  uint64_t bisection_gbps;
  uint32_t longest;
};

TEST(TopologyPresets, AmountToWhatTheirSourcesSay) {
  const std::map<std::string, Expected> presets = {
      {"fat_tree_1024.toml",
       {1024, {{"edge", 128}, {"agg", 128}, {"core", 64}}, {{"agg - core", 1024}}, 51'200, 6}},
      {"dgx_superpod_4su.toml",
       {1024,
        {{"leaf", 32}, {"spine", 16}},
        {{"NIC - leaf", 1024}, {"leaf - spine", 1024}},
        204'800,
        4}},
      {"meta_roce_pod.toml", {3072, {{"leaf", 192}}, {{"NIC - leaf", 3072}}, 614'400, 4}},
      // 16 links of each plane between two halves, twice for the rings.
      {"tpu_v4_cube.toml", {64, {{"router", 64}}, {{"router - router", 192}}, 12'800, 8}},
      // 8 groups of 2 have 8 neighbours; a link to the switch each: 32 of 400 Gbit/s in a half.
      {"astra_sim_ring_fc_switch.toml",
       {64, {{"router", 64}, {"dim2", 16}}, {{"router - router", 32 + 8 * 28}}, 12'800, 6}},
      {"themis_4d.toml", {1024, {{"router", 1024}, {"dim3", 128}}, {}, 439'804, 9}},
      {"hpcc_simulation.toml",
       {320,
        {{"p*-tor", 20}, {"p*-agg", 20}, {"c*-core", 16}},
        {{"NIC - p*-tor", 320}, {"p*-tor - p*-agg", 80}, {"p*-agg - c*-core", 80}},
        16'000,
        6}},
  };
  for (const auto& [file, expected] : presets) {
    SCOPED_TRACE(file);
    const BuiltTopology t(text_of(file));
    EXPECT_EQ(t.summary.nics, expected.nics);
    for (const auto& [name, count] : expected.vertices) EXPECT_EQ(t.vertices(name), count) << name;
    for (const auto& [name, count] : expected.cables) EXPECT_EQ(t.cables(name), count) << name;
    EXPECT_EQ(t.summary.bisection_bps / kGigabit, expected.bisection_gbps);
    EXPECT_EQ(t.summary.longest.links, expected.longest);
  }
}

/// The reference, and it with each of its other kinds.
std::vector<std::string> reference_texts() {
  const std::string text = text_of("reference.toml");
  const size_t nodes_end = text.find("[topology]\nkind");
  const std::string nodes = text.substr(0, nodes_end);
  std::istringstream lines(text.substr(nodes_end));
  std::vector<std::string> blocks(1);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#| ")) {
      blocks.back() += line.substr(3) + "\n";
    } else if (!blocks.back().empty()) {
      blocks.emplace_back();
    }
  }
  if (blocks.back().empty()) blocks.pop_back();
  std::vector<std::string> texts{text};
  for (const std::string& block : blocks) texts.push_back(nodes + block);
  return texts;
}

TEST(TopologyPresets, TheReferenceShowsEveryKind) {
  std::set<TopologyKind> kinds;
  for (const std::string& text : reference_texts()) {
    SCOPED_TRACE(text);
    const BuiltTopology t(text);
    EXPECT_EQ(t.summary.nics, 32u);
    if (t.config.topology) kinds.insert(t.config.topology->kind);
  }
  EXPECT_EQ(kinds.size(), 7u);  // a mesh is a torus but for the name
}

TEST(TopologyPresets, EveryMutatedTextGivesATopologyOrErrors) {
  Mutator mutator(20'250'101);
  int good = 0, unread = 0, unbuilt = 0;
  for (const std::string& text : reference_texts()) {
    for (int round = 0; round < 600; ++round) {
      const ConfigResult read = load_config_text(mutator.mutate(text), "m");
      if (!read) {
        ++unread;
        continue;
      }
      const auto built = build_topology(*read);
      if (built) {
        ++good;
        EXPECT_FALSE(summary_text(*read, summarize(*read, *built)).empty());
        continue;
      }
      ++unbuilt;
      for (const ConfigError& error : built.error()) {
        EXPECT_GT(error.line, 0u);
        EXPECT_FALSE(error.key.empty());
      }
    }
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(unread, 100);
  EXPECT_GT(unbuilt, 10);
}

}  // namespace
}  // namespace understudy
