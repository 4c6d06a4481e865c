#include "tools/rigs/ring_node/table.h"

#include <algorithm>
#include <numeric>

#include "ctrl/report/nccl_columns.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

const NcclColumns& columns() {
  static const NcclColumns kColumns({size_column(), count_column(), type_column(), redop_column(),
                                     root_column(), time_column(), algbw_column(), busbw_column(),
                                     wrong_column()});
  return kColumns;
}

std::string wrong_text(const SizeOutcome& outcome) {
  return outcome.wrong ? std::to_string(*outcome.wrong) : "N/A";
}

}  // namespace

RowShape all_reduce_rows(uint32_t ranks) {
  RowShape shape;
  shape.root = root_text(false, 0);
  shape.bus_factor = static_cast<double>(2 * (ranks - 1)) / ranks;
  return shape;
}

Bandwidth bandwidth(const SizeOutcome& outcome, const RowShape& shape) {
  const double sum_ns = static_cast<double>(
      std::accumulate(outcome.times_ns.begin(), outcome.times_ns.end(), uint64_t{0}));
  const double ns = sum_ns / static_cast<double>(outcome.times_ns.size());
  const double algorithm = static_cast<double>(outcome.bytes) / ns;
  return {ns / 1000, algorithm, algorithm * shape.bus_factor};
}

std::string table_head() { return "#\n" + columns().heading(); }

std::string table_row(const SizeOutcome& outcome, const RowShape& shape) {
  const Bandwidth b = bandwidth(outcome, shape);
  return columns().row({std::to_string(outcome.bytes),
                        std::to_string(outcome.bytes / shape.element_bytes), shape.type,
                        shape.reduction, shape.root, format_text("%.2f", b.time_us),
                        bandwidth_text(b.algorithm), bandwidth_text(b.bus), wrong_text(outcome)});
}

std::string csv_head() {
  return "size_bytes,count,type,redop,time_avg_us,time_min_us,time_max_us,algbw_GBps,busbw_GBps,"
         "wrong\n";
}

std::string csv_row(const SizeOutcome& outcome, const RowShape& shape) {
  const Bandwidth b = bandwidth(outcome, shape);
  const auto [least, most] = std::ranges::minmax(outcome.times_ns);
  return format_text("%llu,%llu,%s,%s,%.3f,%.3f,%.3f,%.6f,%.6f,%s\n",
                     static_cast<unsigned long long>(outcome.bytes),
                     static_cast<unsigned long long>(outcome.bytes / shape.element_bytes),
                     shape.type.c_str(), shape.reduction.c_str(), b.time_us,
                     static_cast<double>(least) / 1000, static_cast<double>(most) / 1000,
                     b.algorithm, b.bus, wrong_text(outcome).c_str());
}

}  // namespace understudy
