// Collectives on a stack of dimensions: a job's algorithm for each, and what their steps cost.
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

DimensionKind kind_of(DimensionConfig::Kind kind) {
  switch (kind) {
    case DimensionConfig::Kind::kRing:
      return DimensionKind::kRing;
    case DimensionConfig::Kind::kFullyConnected:
      return DimensionKind::kFullyConnected;
    case DimensionConfig::Kind::kSwitch:
      return DimensionKind::kSwitch;
  }
  return DimensionKind::kRing;
}

bool has_closed_form(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
         collective == Collective::kReduceScatter || collective == Collective::kAllToAll;
}

}  // namespace

void read_dimension_costs(TableReader& root, ReadContext& context) {
  const TomlNode* toml = root.table("dimension_costs");
  if (toml == nullptr) return;
  TableReader table(*toml, "dimension_costs", context.errors);
  DimensionCosts& costs = context.config.dimension_costs;
  if (const auto endpoint = table.duration("endpoint")) costs.endpoint = endpoint->value;
  if (const auto memory = table.memory_rate("memory")) costs.memory = memory->value;
  if (const auto stored = table.boolean("store_and_forward")) {
    costs.store_and_forward = stored->value;
  }
  if (const auto shared = table.boolean("shared_links")) costs.shared_links = shared->value;
  if (const auto rounding = table.duration("rounding")) {
    costs.rounding = rounding->value;
    if (rounding->value <= Duration()) {
      table.error(rounding->line, "rounding", table.any("rounding")->describe(),
                  "times are rounded down to multiples of it: \"1ns\", or \"1ps\"");
      costs.rounding = Duration::ps(1);
    }
  }
  table.finish();
}

void read_dimension_algorithms(TableReader& table, ReadContext& context, JobConfig& job) {
  const auto words = table.texts("algorithm");
  const unsigned line = table.any("algorithm")->line;
  const auto& topology = context.config.topology;
  if (!topology || topology->kind != TopologyKind::kDimensions) {
    table.error(line, "algorithm", "a list",
                "an algorithm for each dimension is for [topology] kind = \"dimensions\"");
    return;
  }
  const auto& dimensions = topology->dimensions;
  if (!words || words->size() != dimensions.size()) {
    table.error(line, "algorithm", std::to_string(words ? words->size() : 0) + " texts",
                "expected one for each of the " + std::to_string(dimensions.size()) +
                    " dimensions of the [topology], the innermost first");
    return;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, value] : kDimensionAlgorithmNames) names.push_back(name);
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const Located<std::string>& word = (*words)[d];
    const DimensionConfig& config = dimensions[d];
    Dimension dimension{kind_of(config.kind), config.size, config.link.rate, config.link.latency};
    bool known = false;
    for (const auto& [name, value] : kDimensionAlgorithmNames) {
      if (name != word.value) continue;
      dimension.algorithm = value;
      known = true;
    }
    if (!known) {
      table.unknown_word(word, "algorithm", names);
    } else if (const std::string why = why_not(dimension); !why.empty()) {
      table.error(word.line, "algorithm", "\"" + word.value + "\"",
                  why + "; dimension " + std::to_string(d) + " has " + std::to_string(config.size) +
                      " ranks");
    }
    job.dimensions.push_back(dimension);
  }
  if (!has_closed_form(job.collective)) {
    table.error(line, "algorithm", "a list",
                "all_reduce, all_gather, reduce_scatter and all_to_all go by dimensions, " +
                    std::string(name_of(kCollectiveNames, job.collective)) + " does not");
  }
}

void check_dimension_ranks(TableReader& table, ReadContext& context, const JobConfig& job) {
  if (job.dimensions.empty() || job.ranks.size() == context.config.nodes.size()) return;
  table.error(table.any("ranks")->line, "ranks", std::to_string(job.ranks.size()) + " nodes",
              "by dimensions go all " + std::to_string(context.config.nodes.size()) + " nodes");
}

}  // namespace understudy
