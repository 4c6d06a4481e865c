#include "ctrl/report/workload/trace_table.h"

#include <algorithm>
#include <numeric>

#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr size_t kListedRanks = 8;

double in_milliseconds(Duration time) { return time.seconds() * 1e3; }

std::string carried_how(const std::string& source) {
  if (source == "packet") return "packet by packet";
  return source == "flow" ? "as max-min fair rates" : "by closed forms";
}

}  // namespace

std::string trace_table(const TraceReport& traces) {
  std::string text = "# traces: " + count_text(traces.ranks.size(), "rank") + " on " +
                     count_text(traces.nodes, "node") + ", " +
                     count_text(traces.communicators, "communicator") + ", rules " + traces.rules +
                     "; operations between nodes " + carried_how(traces.source) + "\n";
  text += format_text("# all ranks have finished after %.3f ms\n",
                      in_milliseconds(traces.finish() - Time::zero()));
  std::vector<uint32_t> order(traces.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return traces.ranks[a].finish > traces.ranks[b].finish;
  });
  text += format_text("# %6s %-24s %14s %14s %14s %10s\n", "rank", "where", "finish(ms)",
                      "computing(ms)", "exposed(ms)", "exposed");
  for (size_t i = 0; i < std::min(kListedRanks, order.size()); ++i) {
    const TraceRankReport& rank = traces.ranks[order[i]];
    const std::string where = rank.node + ", GPU " + std::to_string(rank.gpu);
    const double finish = in_milliseconds(rank.finish - Time::zero());
    const double share = finish > 0 ? in_milliseconds(rank.exposed()) / finish * 100 : 0;
    text +=
        format_text("%8u %-24s %14.3f %14.3f %14.3f %8.1f %%\n", order[i], where.c_str(), finish,
                    in_milliseconds(rank.computed), in_milliseconds(rank.exposed()), share);
  }
  if (order.size() > kListedRanks) {
    text +=
        "# and " + count_text(order.size() - kListedRanks, "rank") + " that finished no later\n";
  }
  if (traces.operations.empty()) return text;
  text += format_text("# %-22s %9s %16s %14s %14s %16s\n", "operations", "count", "bytes of a rank",
                      "mean(ms)", "longest(ms)", "mean wait(ms)");
  for (const TraceOperationsReport& one : traces.operations) {
    const auto count = static_cast<double>(std::max<uint64_t>(one.count, 1));
    text += format_text("%-24s %9llu %16.0f %14.4f %14.4f %16.4f\n", one.what.c_str(),
                        static_cast<unsigned long long>(one.count), one.bytes / count,
                        in_milliseconds(one.all) / count, in_milliseconds(one.longest),
                        in_milliseconds(one.waiting) / count);
  }
  return text;
}

}  // namespace understudy
