// [workload]: execution traces and how they are carried out.
#include <numeric>

#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"

namespace understudy {

void read_workload(TableReader& root, ReadContext& context) {
  const TomlNode* toml = root.table("workload");
  if (toml == nullptr) return;
  TableReader table(*toml, "workload", context.errors);
  WorkloadConfig workload;
  workload.line = toml->line;
  const auto file = [&](std::string_view key) -> std::optional<std::string> {
    const auto name = table.text(key);
    if (!name) return std::nullopt;
    return beside(context.errors.file(), name->value);
  };
  if (const auto traces = file("traces")) workload.traces = *traces;
  table.require("traces", "the prefix of PREFIX.RANK.et, or one file for all ranks");
  if (const auto ranks = table.integer("ranks", 1, 1 << 20)) {
    workload.ranks = static_cast<uint32_t>(ranks->value);
  }
  if (const auto passes = table.integer("passes", 1, 100'000)) {
    workload.passes = static_cast<uint32_t>(passes->value);
  }
  table.choice("rules",
               {{"streams", TraceRules::kStreams},
                {"data-streams", TraceRules::kDataStreams},
                {"feeder1", TraceRules::kFeeder1},
                {"feeder3", TraceRules::kFeeder3}},
               workload.rules);
  if (const TomlNode* sizes = table.any("dimensions")) {
    constexpr int64_t kMostRanks = 1 << 20;
    constexpr size_t kMostDimensions = 32;
    bool good = sizes->kind == TomlNode::Kind::kArray && !sizes->children.empty() &&
                sizes->children.size() <= kMostDimensions;
    for (const TomlNode& size : sizes->children) {
      good = good && size.kind == TomlNode::Kind::kInteger && size.integer >= 1 &&
             size.integer <= kMostRanks;
      if (good) workload.dimensions.push_back(static_cast<uint32_t>(size.integer));
    }
    if (!good) {
      table.error(sizes->line, "dimensions", sizes->describe(),
                  "expected how many ranks each dimension has, as [2, 4]");
    }
  }
  workload.groups = file("groups");
  workload.system = file("system");
  workload.memory = file("remote_memory");
  read_slow(table, "workload", context, workload.slow);
  read_sender(table, context, workload.sender);
  std::vector<NodeId> all(context.config.nodes.size());
  std::iota(all.begin(), all.end(), NodeId{0});
  name_sender(table, context, workload.sender, "[workload]", all);
  table.finish();
  context.config.workload = workload;
}

}  // namespace understudy
