// [[job]] matrix: who has how many bytes for whom in an all-to-all of different sizes.
#include <algorithm>

#include "ctrl/config/read/sections.h"

namespace understudy {
void read_matrix(TableReader& table, JobConfig& job, uint64_t ranks) {
  const std::string allowed =
      "a row for each rank: what it has for each rank, as in [[\"0B\", \"4KiB\"], [\"1MiB\", "
      "\"0B\"]]";
  if (!table.require("matrix", allowed)) {
    table.any("matrix");
    return;
  }
  const TomlNode* rows = table.any("matrix");
  const auto is_array = [&](const TomlNode& node) {
    if (node.kind == TomlNode::Kind::kArray) return true;
    table.error(node.line, "matrix", node.describe(), "expected " + allowed);
    return false;
  };
  const auto complete = [&](const TomlNode& node) {
    if (ranks == 0 || node.children.size() == ranks) return true;
    table.error(node.line, "matrix", std::to_string(node.children.size()) + " entries",
                "the job has " + std::to_string(ranks) + " ranks");
    return false;
  };
  if (!is_array(*rows) || !complete(*rows)) return;
  const uint64_t element = element_bytes(job.type);
  uint64_t longest = 0;
  for (const TomlNode& row : rows->children) {
    if (!is_array(row) || !complete(row)) return;
    uint64_t sum = 0;
    for (const TomlNode& entry : row.children) {
      const auto size = table.size_of(entry, "matrix");
      if (!size) return;
      if (size->value % element != 0 || size->value > kMostOperationBytes) {
        table.error(size->line, "matrix", std::to_string(size->value) + " bytes",
                    "an entry must be a multiple of " + std::to_string(element) +
                        " bytes, and at most 16 TiB");
        return;
      }
      job.matrix.push_back(size->value);
      sum += size->value;
    }
    longest = std::max(longest, sum);
  }
  job.sizes.push_back(longest);
}

}  // namespace understudy
