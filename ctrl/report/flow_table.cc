#include "ctrl/report/flow_table.h"

#include <algorithm>

#include "ctrl/report/iteration_table.h"
#include "ctrl/report/nccl_columns.h"
#include "ctrl/report/text.h"
#include "ctrl/report/workload/trace_table.h"
#include "ctrl/report/workload/training_table.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr size_t kMostLinks = 10;

uint64_t count_of(const NamedCounts& counts, const std::string& name) {
  for (const auto& [known, count] : counts) {
    if (known == name) return count;
  }
  return 0;
}

std::string rate_text(double bits_per_second) {
  return decimal_text(bits_per_second / 1e9, 3) + " Gbit/s";
}

std::string group_line(const TrafficGroupReport& group) {
  const double bits = static_cast<double>(group.bytes) * 8;
  const double rate = group.took.ps() == 0 ? 0 : bits / group.took.seconds();
  return format_text("%-24s %8u %12s %12s %12s %12s %12s %16s\n", group.name.c_str(), group.count,
                     size_text(group.bytes).c_str(), duration_text(group.took).c_str(),
                     duration_text(group.mean).c_str(), duration_text(group.p99).c_str(),
                     duration_text(group.longest).c_str(), rate_text(rate).c_str());
}

const NcclColumns& job_columns() {
  static const NcclColumns kColumns({size_column(),
                                     count_column(1),
                                     type_column(10, 1),
                                     {"time (us)", "", 14, 1},
                                     {"last rank", "", 14, 1},
                                     algbw_column(9, 1),
                                     busbw_column(9, 1)});
  return kColumns;
}

/// GB/s.
double bandwidth(double bytes, Duration time) {
  return time.ps() == 0 ? 0 : bytes / time.seconds() / 1e9;
}

std::vector<uint64_t> bytes_of(const std::vector<RankOperationReport>& operations) {
  std::vector<uint64_t> out;
  for (const RankOperationReport& operation : operations) out.push_back(operation.bytes);
  return out;
}

/// nccl-tests' columns; each size once, the mean of its timed operations.
std::string job_lines(const RankJobReport& job) {
  std::string text = "# job '" + job.name + "': " + job.collective + ", " + job.algorithm + ", " +
                     job.protocol + ", " + count_text(job.ranks, "rank") + " on " +
                     count_text(job.nodes, "node") + ", " + count_text(job.channels, "channel") +
                     ", all emulated; " + count_text(job.messages, "message") + "\n";
  text += job_columns().names();
  std::vector<uint64_t> sizes;
  for (const RankOperationReport& operation : job.operations) {
    if (std::ranges::find(sizes, operation.bytes) == sizes.end()) sizes.push_back(operation.bytes);
  }
  for (const uint64_t bytes : sizes) {
    Duration mean, longest;
    int64_t timed = 0;
    for (const RankOperationReport& operation : job.operations) {
      if (operation.bytes != bytes || operation.warmup) continue;
      mean += operation.mean;
      longest += operation.longest;
      ++timed;
    }
    if (timed == 0) continue;
    mean = mean / timed;
    const auto size = static_cast<double>(bytes);
    text += job_columns().row({std::to_string(bytes), std::to_string(bytes / job.element),
                               type_word(job.type), format_text("%.2f", mean.microseconds()),
                               format_text("%.2f", (longest / timed).microseconds()),
                               bandwidth_text(bandwidth(size, mean)),
                               bandwidth_text(bandwidth(size * job.bus_factor, mean))});
  }
  return text + iteration_lines(job.iterations, job.per_iteration, bytes_of(job.operations));
}

/// Busy links first: by what they held back, then by what they carried.
bool busier(const TrafficLinkReport* a, const TrafficLinkReport* b) {
  const uint64_t a_queue = count_of(a->counters, "queue_peak_bytes");
  const uint64_t b_queue = count_of(b->counters, "queue_peak_bytes");
  if (a_queue != b_queue) return a_queue > b_queue;
  return a->utilisation > b->utilisation;
}

}  // namespace

std::string traffic_table(const TrafficReport& traffic) {
  std::string text = "# traffic at " + traffic.fidelity + " fidelity\n";
  for (const RankJobReport& job : traffic.jobs) text += job_lines(job);
  if (traffic.training) text += training_table(*traffic.training);
  if (traffic.traces) text += trace_table(*traffic.traces);
  for (const InnerMessagesReport& inner : traffic.inner_messages) {
    text += "# between emulated ranks of job '" + inner.job +
            "': " + count_text(count_of(inner.counts, "received"), "message") +
            " packet by packet\n";
  }
  if (!traffic.groups.empty()) {
    text += format_text("# %-22s %8s %12s %12s %12s %12s %12s %16s\n", "traffic", "flows", "bytes",
                        "took", "mean flow", "99 % below", "longest", "rate");
  }
  for (const TrafficGroupReport& group : traffic.groups) text += group_line(group);
  for (const TrafficGroupReport& group : traffic.groups) {
    if (group.slowdowns) text += slowdown_table(group.name, *group.slowdowns);
  }
  std::vector<const TrafficLinkReport*> links;
  for (const TrafficLinkReport& l : traffic.links) links.push_back(&l);
  std::stable_sort(links.begin(), links.end(), busier);
  text += format_text("# %-30s %8s %12s %10s %10s %8s %12s\n", "link", "used", "queue peak",
                      "marked", "lost", "pauses", "paused");
  for (size_t i = 0; i < std::min(links.size(), kMostLinks); ++i) {
    const TrafficLinkReport& l = *links[i];
    uint64_t lost = 0;
    for (const auto& [name, count] : l.counters) {
      if (name.starts_with("lost_")) lost += count;
    }
    text += format_text(
        "%-32s %6.1f %% %12s %10lu %10lu %8lu %12s\n", l.name.c_str(), l.utilisation * 100,
        size_text(count_of(l.counters, "queue_peak_bytes")).c_str(), count_of(l.counters, "marked"),
        lost, count_of(l.counters, "pauses"), duration_text(l.paused).c_str());
  }
  if (links.size() > kMostLinks) {
    text += "# and " + std::to_string(links.size() - kMostLinks) + " more links\n";
  }
  for (const auto& [name, count] : traffic.work) {
    text += "# " + name + ": " + std::to_string(count) + "\n";
  }
  return text;
}

}  // namespace understudy
