#include "tools/allreduce_node/table.h"

#include <nlohmann/json.hpp>

#include "ctrl/report/nccl_columns.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

struct Rates {
  double algorithm = 0, bus = 0;  ///< GB/s, of 1e9 bytes
};

Rates rates_of(const NodeOptions& options, const Shape& shape, const Measured& measured) {
  const double algorithm = static_cast<double>(shape.bytes) / measured.time_us / 1000;
  return {algorithm, algorithm * bus_factor(options.kind, options.ranks)};
}

const NcclColumns& columns() {
  static const NcclColumns kColumns({size_column(), count_column(), type_column(), redop_column(),
                                     root_column(), time_column(), algbw_column(), busbw_column(),
                                     wrong_column(), time_column(), algbw_column(), busbw_column(),
                                     wrong_column()});
  return kColumns;
}

void add_cells(std::vector<std::string>& cells, const NodeOptions& options, const Shape& shape,
               const std::optional<Measured>& measured) {
  if (!measured) {
    cells.insert(cells.end(), 4, "N/A");
    return;
  }
  const Rates rates = rates_of(options, shape, *measured);
  cells.push_back(format_text("%.2f", measured->time_us));
  cells.push_back(bandwidth_text(rates.algorithm));
  cells.push_back(bandwidth_text(rates.bus));
  cells.push_back(measured->wrong ? std::to_string(*measured->wrong) : "N/A");
}

std::string reduction_text(const NodeOptions& options) {
  return std::string(reduces(options.kind) ? name_of(options.reduction) : "none");
}

nlohmann::ordered_json measured_json(const NodeOptions& options, const Shape& shape,
                                     const std::optional<Measured>& measured) {
  if (!measured) return nullptr;
  const Rates rates = rates_of(options, shape, *measured);
  nlohmann::ordered_json json{{"time_us", measured->time_us},
                              {"algbw_GBps", rates.algorithm},
                              {"busbw_GBps", rates.bus},
                              {"wrong", nullptr}};
  if (measured->wrong) json["wrong"] = *measured->wrong;
  return json;
}

}  // namespace

std::string table_head() {
  return "#\n" + format_text("#%55s%-38s%s\n", "", "  out-of-place", "in-place") +
         columns().heading();
}

std::string table_row(const NodeOptions& options, const SizeRow& row) {
  std::vector<std::string> cells{std::to_string(row.shape.bytes), std::to_string(row.shape.count),
                                 std::string(name_of(options.type)), reduction_text(options),
                                 root_text(has_root(options.kind), options.root)};
  add_cells(cells, options, row.shape, row.out_of_place);
  add_cells(cells, options, row.shape, row.in_place);
  return columns().row(cells);
}

std::string json_text(const NodeOptions& options, const std::vector<SizeRow>& rows) {
  nlohmann::ordered_json json{
      {"collective", name_of(options.kind)},  {"type", name_of(options.type)},
      {"reduction", reduction_text(options)}, {"ranks", options.ranks},
      {"local_ranks", options.local},         {"warmup", options.warmup},
      {"iterations", options.iterations},     {"blocking", options.blocking}};
  if (has_root(options.kind)) json["root"] = options.root;
  json["sizes"] = nlohmann::ordered_json::array();
  for (const SizeRow& row : rows) {
    json["sizes"].push_back({{"bytes", row.shape.bytes},
                             {"count", row.shape.count},
                             {"out_of_place", measured_json(options, row.shape, row.out_of_place)},
                             {"in_place", measured_json(options, row.shape, row.in_place)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace understudy
