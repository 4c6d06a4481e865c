#include "ctrl/shards/collect.h"

#include <algorithm>
#include <numeric>

#include "collective_model/predict/time_model.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/schedule/net_ib_environment.h"

namespace understudy {
namespace {

template <typename Reason, typename Counts>
NamedCounts named(const Counts& counts, const char* (*name)(Reason)) {
  NamedCounts out;
  for (size_t i = 0; i < counts.size(); ++i) {
    out.emplace_back(name(static_cast<Reason>(i)), counts[i]);
  }
  return out;
}

NamedCounts device_counts(const PortCounters& c) {
  return {{"rx_frames", c.rx_frames},      {"rx_bytes", c.rx_bytes},
          {"tx_frames", c.tx_frames},      {"tx_bytes", c.tx_bytes},
          {"rx_missed", c.rx_missed},      {"rx_unreadable", c.rx_unreadable},
          {"tx_retried", c.tx_retried},    {"tx_link_down", c.tx_link_down},
          {"tx_no_buffer", c.tx_no_buffer}};
}

NamedCounts shard_counts(const ShardCounters& c) {
  return {{"rx_frames", c.rx_frames},
          {"rx_bytes", c.rx_bytes},
          {"tx_frames", c.tx_frames},
          {"tx_bytes", c.tx_bytes},
          {"rx_roce", c.rx_roce},
          {"tx_roce", c.tx_roce},
          {"ce_marked", c.ce_marked},
          {"ce_delivered", c.ce_delivered},
          {"ce_sent", c.ce_sent},
          {"cnp_sent", c.cnp_sent},
          {"cnp_suppressed", c.cnp_suppressed},
          {"cnp_received", c.cnp_received},
          {"neighbour_answers", c.neighbour_answers},
          {"to_host", c.to_host},
          {"from_host", c.from_host},
          {"tx_busy", c.tx_busy}};
}

LatenessReport lateness(const Histogram& h) {
  return {.frames = h.count(),
          .p50 = h.quantile(500),
          .p90 = h.quantile(900),
          .p99 = h.quantile(990),
          .p999 = h.quantile(999),
          .max = h.max()};
}

/// By CollectiveReport::size_index; those of a group are one operation.
std::vector<uint64_t> bytes_of_kinds(const JobConfig& job) {
  if (!job.group) return job.sizes;
  return {std::reduce(job.sizes.begin(), job.sizes.end())};
}

void add_link(std::vector<LinkReport>& out, const std::string& node, bool up,
              const std::vector<LinkCounters>& links, size_t position) {
  if (position >= links.size()) return;
  const LinkCounters& c = links[position];
  if (c.packets == 0 && c.dropped == 0) return;
  out.push_back({.node = node,
                 .up = up,
                 .packets = c.packets,
                 .wire_bytes = c.wire_bytes,
                 .queue_peak = c.queue_peak,
                 .dropped = c.dropped});
}

}  // namespace

void count_failover(JobReport& report, const InnerMessages* inner) {
  if (!report.failover || inner == nullptr) return;
  report.failover->failed += inner->counters().failed;
  report.failover->repeated += inner->counters().repeated;
}

void count_failover(JobReport& report, const FailoverCounters& counters) {
  FailoverReport& out = report.failover ? *report.failover : report.failover.emplace();
  out.failed += counters.failed;
  out.probes += counters.probes;
  out.repeated += counters.repeated;
  out.recovered += counters.recovered;
  out.lost += counters.lost;
}

JobReport job_report(const Config& config, size_t job, const CollectiveProgress& progress,
                     const std::vector<JobOperation>& operations, Verified verified,
                     const std::function<Duration(size_t)>& modelled) {
  const JobConfig& from = config.jobs[job];
  JobReport report;
  report.name = from.name;
  if (from.child) {
    report.child_of = config.jobs[from.child->job].name;
    report.parent_ranks = from.child->members;
  }
  for (const NodeId node : from.ranks) report.ranks.push_back(config.nodes[node].name);
  report.gpus = gpus_per_node(config, from);
  report.collective = name_of(kCollectiveNames, from.collective);
  report.algorithm = name_of(kAlgorithmNames, from.algorithm);
  report.protocol = name_of(kProtocolNames, from.protocol);
  report.type = name_of(kDataTypeNames, from.type);
  report.element = element_bytes(from.type);
  report.bus_factor =
      bus_factor(from.collective, static_cast<uint32_t>(from.ranks.size()) * report.gpus);
  report.reduction = reduces(from.collective) ? name_of(kReduceOpNames, from.reduction) : "none";
  report.payload = from.payload == PayloadMode::kExact ? "exact" : "synthetic";
  report.listed = from.listed;
  report.failed = progress.failed.load(std::memory_order_acquire);
  if (report.failed) report.failed_at = Time::from_ps(progress.failed_at);
  report.violations = progress.violations.load(std::memory_order_relaxed);
  if (net_ib_environment(config).failover_of(from.nccl)) count_failover(report, progress.failover);

  const std::vector<uint64_t> kinds = bytes_of_kinds(from);
  const size_t finished = progress.finished.load(std::memory_order_acquire);
  // One that a real rank has left in its middle is not done.
  const size_t begun = progress.entered.load(std::memory_order_relaxed);
  report.planned = from.listed                               ? operations.size()
                   : from.operations == OperationsMode::kFed ? std::max(begun, finished)
                                                             : finished;
  for (size_t i = 0; i < finished; ++i) {
    const CollectiveResult& result = progress.results[i];
    const JobOperation& operation = operations[from.listed ? i : 0];
    CollectiveReport c;
    c.size_index = operation.size;
    c.bytes = kinds[operation.size];
    c.warmup = operation.warmup;
    c.iteration = operation.iteration;
    c.entry = result.entry;
    c.modelled = modelled(from.listed ? i : 0);
    c.measured = result.end - result.entry;
    c.lateness = result.lateness;
    c.size_mismatches = result.size_mismatches;
    if (verified == Verified::kYes) c.wrong_elements = result.wrong_elements;
    report.collectives.push_back(c);
  }
  return report;
}

Result<void> add_node_result(JobReport& report, const JobConfig& job,
                             const RingResultMessage& result, uint32_t node) {
  const std::string what = "job '" + job.name + "': the real node's result for operation " +
                           std::to_string(result.operation);
  const std::vector<uint64_t> kinds = bytes_of_kinds(job);
  if (result.operation >= kinds.size() || kinds[result.operation] != result.bytes) {
    return fail(what + " (" + std::to_string(result.bytes) + " bytes): there is no such size");
  }
  if (result.times_ns.size() != job.iterations) {
    return fail(what + " has " + std::to_string(result.times_ns.size()) +
                " times, but the job has " + std::to_string(job.iterations) + " iterations");
  }
  for (CollectiveReport& c : report.collectives) {
    if (c.size_index != result.operation || c.warmup) continue;
    const Duration time = Duration::ns(static_cast<int64_t>(result.times_ns[c.iteration]));
    c.node_reported = std::max(c.node_reported.value_or(Duration()), time);
    c.by_node.resize(report.real_nodes.size());
    if (node < c.by_node.size()) c.by_node[node] = time;
  }
  report.node_checks.push_back({result.operation, result.bytes, result.wrong});
  return {};
}

std::vector<SenderReport> sender_reports(const Config& config, const ShardSnapshot& snapshot,
                                         bool reference) {
  std::vector<SenderReport> reports;
  for (size_t i = 0; i < snapshot.controls.size(); ++i) {
    const ControlCounters& c = snapshot.controls[i];
    if (c.queue_pairs == 0) continue;
    const ControlUser& user = config.control_users[i];
    reports.push_back({user.name, reference, config.controls[user.control].name, c.queue_pairs,
                       c.cnps, c.cuts, c.lowest,
                       Rate::bits_per_second(c.rate_sum / c.queue_pairs)});
  }
  return reports;
}

PortReport port_report(std::string name, const PortConfig& port, const Config& config,
                       const NodeTable& nodes, const ShardSnapshot& snapshot,
                       const PortCounters& device) {
  PortReport report;
  report.name = std::move(name);
  report.device = port.device;
  report.node = config.nodes[port.node].name;
  report.counters = shard_counts(snapshot.counters);
  report.drops = named(snapshot.counters.drops, drop_name);
  report.rc_events = named(snapshot.counters.rc, rc_event_name);
  report.device_counters = device_counts(device);
  report.lateness = lateness(snapshot.counters.lateness);
  const PortPfcCounters& pfc = snapshot.pfc;
  report.pfc = {port.pfc, pfc.sent, pfc.received, pfc.told, pfc.heard, pfc.late};
  for (size_t i = 0; i < nodes.nics().size(); ++i) {
    const std::string& node = config.nodes[nodes.nics()[i].id].name;
    add_link(report.links, node, true, snapshot.up, i);
    add_link(report.links, node, false, snapshot.down, i);
  }
  report.senders = sender_reports(config, snapshot, false);
  for (size_t i = 0; i < snapshot.faults.size(); ++i) {
    const FaultCounters& c = snapshot.faults[i];
    report.faults.push_back({config.faults[i].name, c.matched, c.acted, c.skipped});
  }
  return report;
}

LoopReport loop_report(const WorkerStats& stats) {
  LoopReport report;
  report.loops = stats.loops;
  report.bursts = stats.bursts;
  report.naps = stats.naps;
  report.gaps = stats.gaps;
  for (const PollGap& gap : stats.gap_list()) report.kept.push_back({gap.from, gap.length});
  return report;
}

void leave_out_shared(PortReport& port) {
  std::erase_if(port.links, [&](const LinkReport& link) { return link.node != port.node; });
  port.faults.clear();
  port.senders.clear();
}

}  // namespace understudy
