// A comparison of real nodes with emulated ones as text and as JSON.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ctrl/compare/real_comparison.h"
#include "ctrl/report/nccl_columns.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

std::vector<RealRow> worst_first(std::vector<RealRow> rows) {
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [](const RealRow& row) { return std::abs(row.error()); });
  return rows;
}

}  // namespace

std::string real_comparison_text(const RealComparison& comparison) {
  const NcclColumns columns({size_column(14),
                             {"all real", "(us)", 14},
                             {"emulated", "(us)", 14},
                             {"error", "(%)", 10},
                             {"iterations", ""}});
  std::string text = "# an iteration with all " + std::to_string(comparison.nodes) +
                     " nodes real, and with " + std::to_string(comparison.real) +
                     " real among emulated ones\n";
  for (const RealPart& part : comparison.parts) {
    text += "# job '" + part.name + "': " + part.way + "\n" + columns.heading();
    for (const RealRow& row : worst_first(part.rows)) {
      text +=
          columns.row({std::to_string(row.bytes), format_text("%.3f", row.all),
                       format_text("%.3f", row.emulated), format_text("%+.4f", row.error() * 100),
                       std::to_string(row.averaged) + (row.whole ? ", of all sizes" : "")});
    }
    if (!part.doubt.empty()) text += "# not judged: " + part.doubt + "\n";
  }
  for (const std::string& line : comparison.wrong) text += "# not faithful, " + line + "\n";
  return text;
}

std::string real_comparison_json(const Config& config, const RealComparison& comparison) {
  Json out = {{"schema", "understudy-real-comparison/1"}};
  out["configuration"] = {{"path", config.path}, {"hash", config.hash}};
  out["real_nodes"] = comparison.real;
  out["nodes"] = comparison.nodes;
  out["jobs"] = Json::array();
  for (const RealPart& part : comparison.parts) {
    Json one = {{"name", part.name}, {"way", part.way}, {"not_judged", part.doubt}};
    one["rows"] = Json::array();
    for (const RealRow& row : worst_first(part.rows)) {
      one["rows"].push_back({{"size", row.bytes},
                             {"whole", row.whole},
                             {"all_real_us", row.all},
                             {"emulated_us", row.emulated},
                             {"error", row.error()},
                             {"iterations", row.averaged}});
    }
    out["jobs"].push_back(std::move(one));
  }
  out["wrong"] = comparison.wrong;
  return out.dump(2) + "\n";
}

}  // namespace understudy
