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

Bandwidth bandwidth(const SizeOutcome& outcome, uint32_t ranks) {
  const double sum_ns = static_cast<double>(
      std::accumulate(outcome.times_ns.begin(), outcome.times_ns.end(), uint64_t{0}));
  const double ns = sum_ns / static_cast<double>(outcome.times_ns.size());
  const double algorithm = static_cast<double>(outcome.bytes) / ns;
  return {ns / 1000, algorithm, algorithm * 2 * (ranks - 1) / ranks};
}

std::string table_head() { return "#\n" + columns().heading(); }

std::string table_row(const SizeOutcome& outcome, uint32_t ranks) {
  const Bandwidth b = bandwidth(outcome, ranks);
  return columns().row({std::to_string(outcome.bytes),
                        std::to_string(outcome.bytes / RankCutting::kElement), "float", "sum",
                        root_text(false, 0), format_text("%.2f", b.time_us),
                        bandwidth_text(b.algorithm), bandwidth_text(b.bus), wrong_text(outcome)});
}

std::string csv_head() {
  return "size_bytes,count,type,redop,time_avg_us,time_min_us,time_max_us,algbw_GBps,busbw_GBps,"
         "wrong\n";
}

std::string csv_row(const SizeOutcome& outcome, uint32_t ranks) {
  const Bandwidth b = bandwidth(outcome, ranks);
  const auto [least, most] = std::ranges::minmax(outcome.times_ns);
  return format_text("%llu,%llu,float,sum,%.3f,%.3f,%.3f,%.6f,%.6f,%s\n",
                     static_cast<unsigned long long>(outcome.bytes),
                     static_cast<unsigned long long>(outcome.bytes / RankCutting::kElement),
                     b.time_us, static_cast<double>(least) / 1000, static_cast<double>(most) / 1000,
                     b.algorithm, b.bus, wrong_text(outcome).c_str());
}

}  // namespace understudy
