// [queues]: which priority a packet has, by its DSCP or its tag's PCP.
#include <span>
#include <string>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

/// The exceptions in the list `key`: { values = [26], priority = 3 }. Each value once.
void read_exceptions(TableReader& queues, ReadContext& context, std::string_view key,
                     std::span<uint8_t> map) {
  uint64_t seen = 0;
  for (const TomlNode* node : queues.tables(key)) {
    TableReader table(*node, queues.path(key), context.errors);
    const std::string allowed =
        "a list of numbers 0 to " + std::to_string(map.size() - 1) + ", each in one list";
    table.require("values", allowed);
    table.require("priority", "0 to 7: [[queues.class]] says what that is");
    const auto priority = table.integer("priority", 0, kPriorities - 1);
    const TomlNode* values = table.any("values");
    table.finish();
    if (values == nullptr) continue;
    bool good = values->kind == TomlNode::Kind::kArray && !values->children.empty();
    for (const TomlNode& value : values->children) {
      const bool fits = value.kind == TomlNode::Kind::kInteger && value.integer >= 0 &&
                        value.integer < static_cast<int64_t>(map.size());
      const uint64_t bit = fits ? uint64_t{1} << value.integer : 0;
      good = good && fits && (seen & bit) == 0;
      seen |= bit;
      if (fits && priority)
        map[static_cast<size_t>(value.integer)] = static_cast<uint8_t>(priority->value);
    }
    if (!good) table.error(values->line, "values", values->describe(), "expected " + allowed);
  }
}

}  // namespace

void read_priority_map(TableReader& queues, ReadContext& context) {
  PriorityMap& map = context.config.queues.network.priorities;
  using Trust = PriorityMap::Trust;
  queues.choice("trust", {{"dscp", Trust::kDscp}, {"pcp", Trust::kPcp}}, map.trust);
  bool sonic = false;
  queues.choice("dscp_map", {{"class_selector", false}, {"sonic", true}}, sonic);
  if (sonic) map.dscp = PriorityMap::sonic();
  read_exceptions(queues, context, "dscp", map.dscp);
  read_exceptions(queues, context, "pcp", map.pcp);
  if (const auto priority = queues.integer("untrusted_priority", 0, kPriorities - 1)) {
    map.untrusted = static_cast<uint8_t>(priority->value);
  }
}

}  // namespace understudy
