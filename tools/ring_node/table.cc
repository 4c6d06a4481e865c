#include "tools/ring_node/table.h"

#include <algorithm>
#include <numeric>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// nccl-tests prints two decimals; slow links need more to show anything.
std::string rate_text(double gigabytes) {
  return format_text(gigabytes < 1 ? "%.5f" : "%.2f", gigabytes);
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

std::string table_head() {
  return "#\n" +
         format_text("# %10s  %12s  %8s  %6s  %6s  %9s  %7s  %7s %6s\n", "size", "count", "type",
                     "redop", "root", "time", "algbw", "busbw", "#wrong") +
         format_text("# %10s  %12s  %8s  %6s  %6s  %9s  %7s  %7s %6s\n", "(B)", "(elements)", "",
                     "", "", "(us)", "(GB/s)", "(GB/s)", "");
}

std::string table_row(const SizeOutcome& outcome, uint32_t ranks) {
  const Bandwidth b = bandwidth(outcome, ranks);
  return format_text("%12llu  %12llu  %8s  %6s  %6d  %9.2f  %7s  %7s %6s\n",
                     static_cast<unsigned long long>(outcome.bytes),
                     static_cast<unsigned long long>(outcome.bytes / RankCutting::kElement),
                     "float", "sum", -1, b.time_us, rate_text(b.algorithm).c_str(),
                     rate_text(b.bus).c_str(), wrong_text(outcome).c_str());
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
