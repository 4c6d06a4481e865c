// Traces with ASTRA-sim's results (tests/data/workloads/et_cases/README.md): finish and exposed
// communication of every rank, and begin and end of every node, to the ns.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "collective_model/traces/replay.h"
#include "ctrl/traces/astra_json.h"
#include "ctrl/traces/astra_network.h"
#include "ctrl/traces/et_file.h"
#include "ctrl/traces/trace_files.h"

namespace understudy {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kCases = UNDERSTUDY_TEST_DATA "/workloads/et_cases";

struct Case {
  fs::path folder;
  Json json;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    if (!entry.is_directory()) continue;
    const auto text = read_whole_file((entry.path() / "case.json").string());
    EXPECT_TRUE(text) << text.error().text;
    if (text) cases.push_back({entry.path(), Json::parse(*text)});
  }
  return cases;
}

/// As ASTRA-sim's network file has it.
std::string network_text(const Json& network) {
  std::string text;
  for (const auto& [key, list] : network.items()) text += key + ": " + list.dump() + "\n";
  return text;
}

template <typename T>
T value(Result<T> result) {
  EXPECT_TRUE(result) << result.error().text;
  return result ? *std::move(result) : T();
}

ReplaySettings settings_of(const Json& json, const std::string& back_end) {
  ReplaySettings settings;
  settings.rules = back_end.starts_with("v3") ? TraceRules::kFeeder3 : TraceRules::kFeeder1;
  settings.network = value(TraceNetwork::make(
      value(read_astra_network(network_text(json["network"]), "network.yml")),
      back_end.ends_with("unaware") ? TraceCongestion::kUnaware : TraceCongestion::kAware));
  settings.system = value(read_astra_system(json["system"].dump(), "system.json"));
  settings.memory = value(read_astra_memory(json["remote_memory"].dump(), "memory.json"));
  return settings;
}

using Event = std::tuple<int64_t, uint64_t, uint64_t, std::string>;

void compare(const TraceJob& job, const std::vector<RankReplay>& ranks, const Json& expected,
             TraceRules rules) {
  const auto ns = [](Time time) { return (time - Time::zero()).ps() / 1000; };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string name = std::to_string(rank);
    EXPECT_EQ(ns(ranks[rank].finish), expected["finish_ns"][name]) << "rank " << rank;
    if (expected.contains("exposed_ns")) {
      EXPECT_EQ(ranks[rank].exposed.ps() / 1000, expected["exposed_ns"][name]) << "rank " << rank;
    }
  }
  if (!expected.contains("events")) return;
  std::set<uint64_t> told;
  std::multiset<Event> there, here;
  for (const Json& event : expected["events"]) {
    told.insert(event[1].get<uint64_t>());
    there.emplace(event[2], event[1], event[3], event[0]);
  }
  for (const uint64_t rank : told) {
    const auto& nodes = job.ranks[rank]->nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const TraceNodeTimes& times = ranks[rank].nodes[i];
      // The first rules do not tell of nodes without work.
      if (times.skipped && rules == TraceRules::kFeeder1) continue;
      const uint64_t id = nodes[i].id + rank * job.id_step;
      here.emplace(ns(times.begin), rank, id, "i");
      here.emplace(ns(times.end), rank, id, "c");
    }
  }
  EXPECT_EQ(here, there);
}

void compare_all(const std::string& source) {
  size_t compared = 0;
  for (const Case& one : all_cases()) {
    const std::string path = (one.folder / source).string();
    if (source != "et" && !fs::exists(path)) continue;
    TraceFilesOptions options;
    options.ranks = one.json["ranks"].get<uint32_t>();
    options.passes = one.json.value("passes", 1u);
    TraceJob job = value(read_traces(path, options));
    if (!one.json["comm_groups"].is_null()) {
      job.groups = value(read_astra_groups(one.json["comm_groups"].dump(), "groups.json"));
    }
    for (const auto& [back_end, expected] : one.json["results"].items()) {
      SCOPED_TRACE(one.folder.filename().string() + " " + back_end);
      if (!expected["finished"].get<bool>()) continue;
      const ReplaySettings settings = settings_of(one.json, back_end);
      const auto ranks = replay(job, settings);
      ASSERT_TRUE(ranks) << ranks.error().text;
      compare(job, *ranks, expected, settings.rules);
      ++compared;
    }
  }
  EXPECT_EQ(compared, source == "et" ? 108u : 20u);
}

TEST(EtCases, TracesTakeAstraSimsTimes) {
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  compare_all("et");
}

TEST(EtCases, TextWorkloadsTakeAstraSimsTimes) { compare_all("workload.txt"); }

}  // namespace
}  // namespace understudy
