#include "ctrl/report/table.h"

#include <algorithm>
#include <cmath>

#include "ctrl/report/flow_table.h"
#include "ctrl/report/inference_doubt.h"
#include "ctrl/report/iteration_table.h"
#include "ctrl/report/nccl_columns.h"
#include "ctrl/report/real_pace.h"
#include "ctrl/report/summary.h"
#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

const NcclColumns& columns() {
  static const NcclColumns kColumns({size_column(),
                                     count_column(),
                                     type_column(6),
                                     redop_column(),
                                     time_column(11),
                                     algbw_column(9),
                                     busbw_column(9),
                                     {"model", "(us)", 11},
                                     {"diff", "(%)", 8},
                                     wrong_column(7, 2),
                                     {"verdict", ""}});
  return kColumns;
}

/// Two decimals, and never "-0.00".
std::string percent_text(double value) {
  return format_text("%+.2f", std::abs(value) < 0.005 ? 0 : value);
}

std::string row_text(const JobReport& job, const SizeSummary& s) {
  const std::string wrong = s.wrong_elements ? std::to_string(*s.wrong_elements) : "N/A";
  const std::string right = job.not_judged.empty() ? "faithful" : "not judged";
  const std::string verdict = s.faithful ? right : "NOT FAITHFUL";
  const bool listed = s.size_index >= job.kinds.size();
  const uint32_t element = listed ? job.element : job.kinds[s.size_index].element;
  const std::string count = std::to_string(s.bytes / element);
  const std::string type = type_word(listed ? job.type : job.kinds[s.size_index].type);
  const std::string size = std::to_string(s.bytes);
  const std::string redop(listed ? job.reduction : "-");  // no feed tells it
  if (s.timed == 0) {
    return columns().row({size, count, type, redop, "-", "-", "-", "-", "-", wrong, "NOT DONE"});
  }
  const double algbw = s.algorithm_bandwidth() / 1e9;
  return columns().row(
      {size, count, type, redop, format_text("%.2f", s.time.microseconds()), bandwidth_text(algbw),
       bandwidth_text(algbw * bus_factor(job, s.size_index)),
       format_text("%.2f", s.modelled.microseconds()),
       s.modelled > Duration() ? percent_text(s.difference_percent()) : "-", wrong, verdict});
}

std::string time_source(const std::vector<SizeSummary>& rows) {
  const auto by_node = [](const SizeSummary& s) { return s.node_reported; };
  if (std::ranges::all_of(rows, by_node)) return "time: as the real node's own program measured it";
  if (std::ranges::none_of(rows, by_node)) return "time: as the emulated environment measured it";
  return "time: the real node's own where it reported one for all iterations, else the emulated "
         "environment's";
}

/// The operation of which it is the least sure what it was.
std::string least_sure_text(const InferenceReport& inferred) {
  const auto& all = inferred.operations;
  const auto least = std::ranges::min_element(all, {}, &InferredReport::confidence);
  if (least == all.end() || least->confidence == 1) return "";
  return "# inferred: least sure is operation " + std::to_string(least - all.begin()) + ": " +
         certainty_text(*least) + "\n";
}

std::string failover_text(const FailoverReport& f) {
  std::string text = "# port failover: " + count_text(f.failed, "device") +
                     " of connections' ends failed, " + count_text(f.probes, "probe") + ", " +
                     std::to_string(f.repeated) + " parts of messages and credits sent again";
  if (f.recovered > 0) text += ", " + count_text(f.recovered, "device") + " recovered";
  if (f.lost > 0) text += ", recovery of " + std::to_string(f.lost) + " given up";
  return text + "\n";
}

std::string inferred_text(const InferenceReport& inferred) {
  uint64_t right = 0, unique = 0, late = 0, wrong = 0;
  bool listed = false;
  Duration most;
  for (const InferredReport& o : inferred.operations) {
    right += o.right.value_or(false) ? 1 : 0;
    listed = listed || o.right;
    unique += o.unique ? 1 : 0;
    late += o.late_messages;
    wrong += o.wrong_sizes;
    most = std::max(most, o.late);
  }
  std::string text;
  if (inferred.fed) {
    text = "# fed: " + count_text(inferred.operations.size(), "operation") + ", " +
           (listed ? std::to_string(right) + " as the real node did them; " : "") +
           "before they were told " + count_text(late, "message") + " left late, by " +
           duration_text(most) + " at most\n";
    if (!inferred.lost.empty()) text += "# the feed lost track: " + inferred.lost + "\n";
    return text;
  }
  text = "# inferred: " + count_text(inferred.operations.size(), "operation") + ", " +
         (listed ? std::to_string(right) + " right, " : "") + std::to_string(unique) +
         " without another explanation; before they were known " + count_text(late, "message") +
         " left late, by " + duration_text(most) + " at most, and " + std::to_string(wrong) +
         " had another size\n" + least_sure_text(inferred);
  if (!inferred.lost.empty()) text += "# inference lost track: " + inferred.lost + "\n";
  return text;
}

/// Which operations a row is of, in a job that lists none.
std::string kind_text(const JobReport& job, const SizeSummary& s) {
  if (s.size_index >= job.kinds.size()) return "";
  return "# " + std::to_string(s.bytes) + " B: " + job.kinds[s.size_index].text + ", " +
         count_text(s.timed, "time") + "\n";
}

/// Of several real nodes each one's mean time, over the timed operations of a size.
std::string nodes_text(const JobReport& job, const SizeSummary& s) {
  std::string text = "# " + size_text(s.bytes) + " by node:";
  for (size_t node = 0; node < job.real_nodes.size(); ++node) {
    Duration sum;
    for (const CollectiveReport& c : job.collectives) {
      if (c.warmup || c.size_index != s.size_index) continue;
      if (node < c.by_node.size()) sum += c.by_node[node];
    }
    text += (node == 0 ? " " : ", ") + job.real_nodes[node] + " " +
            format_text("%.2f", sum.microseconds() / static_cast<double>(s.timed)) + " us";
  }
  return text + "\n";
}

std::string outage_text(const OutageReport& outage) {
  std::string text = "# outage: " + outage.event + " at " + time_text(outage.at) + ": ";
  if (outage.rerouted) {
    text += "routes changed " + duration_text(*outage.rerouted - outage.at) + " later; ";
  }
  text += count_text(outage.stopped, "stream") + " stopped";
  if (outage.again != 0) {
    text += ", " + std::to_string(outage.again) + " flowed again after up to " +
            duration_text(outage.longest);
  }
  return text + "\n";
}

std::string drill_text(const DrillReport& drill) {
  return "# drill '" + drill.name + "'" +
         (drill.from.is_never() ? "" : " at " + time_text(drill.from)) + ": " +
         (drill.passed ? "passed" : "FAILED") + ": " + drill.text + "\n";
}

std::string service_text(const ServiceReport& s) {
  return "# service " + s.node + ":" + std::to_string(s.port) + " (" + s.kind + "): client " +
         s.client + " from " + time_text(s.from) + " to " + time_text(s.to) +
         (s.error.empty() ? "" : ": " + s.error) + "\n";
}

std::string client_text(const ClientReport& c) {
  const double seconds = static_cast<double>((c.to - c.from).ps()) * 1e-12;
  const double megabits = static_cast<double>(c.completed) * c.bytes * 8e-6;
  return "# client on " + c.node + " of " + c.server + ":" + std::to_string(c.port) + " (" +
         c.kind + "): " + std::to_string(c.completed) + " of " + count_text(c.messages, "message") +
         " of " + size_text(c.bytes) +
         (seconds > 0 ? " at " + format_text("%.2f", megabits / seconds) + " Mbit/s" : "") +
         (c.error.empty() ? "" : ": " + c.error) + "\n";
}

std::string kernel_text(const KernelReport& kernel) {
  std::string text = "# kernel " + kernel.node + ": ";
  text += kernel.exit_status
              ? "its program ended with status " + std::to_string(*kernel.exit_status)
              : "its program had not ended";
  for (const auto& [name, count] : kernel.counters) {
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    text += ", " + std::to_string(count) + " " + words;
  }
  return text + "\n";
}

uint64_t count_of(const NamedCounts& counts, std::string_view name) {
  const auto it = std::ranges::find(counts, name, [](const auto& entry) { return entry.first; });
  return it == counts.end() ? 0 : it->second;
}

/// What was marked at a port, and who was told.
std::string congestion_text(const PortReport& port) {
  const auto& counts = port.counters;
  const auto of = [&](std::string_view name) { return count_of(counts, name); };
  return "# congestion at " + port.node + ": " + count_text(of("ce_delivered"), "packet") +
         " to emulated nodes marked, " + count_text(of("cnp_sent"), "CNP") + " sent, " +
         std::to_string(of("cnp_suppressed")) + " held back by their interval; " +
         count_text(of("ce_sent"), "packet") + " to it marked, " +
         count_text(of("cnp_received"), "CNP") + " received\n";
}

std::string pfc_text(const PortReport& port) {
  const PfcReport& pfc = port.pfc;
  if (!pfc.on && pfc.received == 0) return "";
  std::string text = "# PFC at " + port.node + ": ";
  if (!pfc.on) {
    text += count_text(pfc.received, "frame");
    return text + " received and not obeyed: the port lacks pfc = true\n";
  }
  text += count_text(pfc.sent, "frame") + " sent, it was to pause for " + duration_text(pfc.told);
  text += "; " + count_text(pfc.received, "frame") + " received, the network paused for " +
          duration_text(pfc.heard);
  return text + "; sent late by up to " + duration_text(pfc.late) + "\n";
}

std::string sender_text(const SenderReport& s) {
  const auto gigabits = [](Rate rate) {
    return format_text("%.3f", static_cast<double>(rate.bps()) * 1e-9) + " Gbit/s";
  };
  return "#   " + s.user + (s.reference ? " (reference node)" : "") + " under " + s.control + ": " +
         count_text(s.queue_pairs, "queue pair") + ", " + count_text(s.cnps, "CNP") + " obeyed, " +
         count_text(s.rate_cuts, "rate cut") + ", lowest rate " + gigabits(s.lowest) +
         ", last one " + gigabits(s.final) + "\n";
}

std::string paced_text(const PacingReport& pacing) {
  if (pacing.by_device) return "the device's transmit time stamps";
  return std::string(pacing.naps ? "naps and spinning" : "spinning") +
         (pacing.device_time_stamps ? ", not by the device's transmit time stamps"
                                    : ": the device offers no transmit time stamps");
}

/// Lateness is counted by the packet thread.
std::string threads_text(const PacingReport& pacing) {
  if (pacing.threads == 1) return "";
  return std::string("; another thread receives") +
         (pacing.threads == 2 ? "" : ", and a third one sends what it is given at these times");
}

/// How late frames left, in real time.
std::string communicator_text(size_t number, const CommunicatorReport& c) {
  return "# communicator " + std::to_string(number + 1) + ": " +
         (c.joined ? "joined at " + time_text(*c.joined) : "never joined") + ", " +
         std::to_string(c.done) + " of " + count_text(c.planned, "operation") + ", " +
         (c.faithful     ? "faithful"
          : c.not_judged ? "not judged"
                         : "NOT FAITHFUL") +
         "; " + c.end + "\n";
}

std::string departures_text(const PortReport& port) {
  const LatenessReport& late = port.lateness;
  return "# departures at " + port.node + ": " + count_text(late.frames, "frame") +
         ", late by up to " + duration_text(late.p50) + " (50 %), " + duration_text(late.p90) +
         " (90 %), " + duration_text(late.p99) + " (99 %), " + duration_text(late.p999) +
         " (99.9 %), " + duration_text(late.max) + " (all); paced by " + paced_text(*port.pacing) +
         threads_text(*port.pacing) + "\n";
}

}  // namespace

std::string job_table(const JobReport& job) {
  const std::vector<SizeSummary> rows = summarise(job);
  const std::string of = job.child_of.empty() ? "" : "child of '" + job.child_of + "', ";
  const std::string what =
      job.listed ? job.collective + ", " + job.algorithm + ", " + job.protocol
                 : "what its programs do, " + count_text(job.collectives.size(), "operation");
  std::string text = "# job '" + job.name + "': " + of + what + ", " +
                     count_text(job.ranks.size() * job.gpus, "rank") +
                     (job.gpus > 1 ? " on " + count_text(job.ranks.size(), "node") : "") +
                     ", payload " + job.payload + "\n";
  if (!rows.empty()) text += "# " + time_source(rows) + "\n";
  if (job.model == "packets") {
    text += "# model: all ranks packet by packet, and nothing else on the network\n";
  }
  text += columns().heading();
  for (const SizeSummary& s : rows) text += row_text(job, s);
  for (const SizeSummary& s : rows) text += kind_text(job, s);
  for (const SizeSummary& s : rows) {
    if (job.real_nodes.size() > 1 && s.timed > 0) text += nodes_text(job, s);
  }
  for (size_t i = 0; i < job.communicators.size(); ++i) {
    text += communicator_text(i, job.communicators[i]);
  }
  if (job.inferred) text += inferred_text(*job.inferred);
  const OneSidedReport& one_sided = job.answered.one_sided;
  if (one_sided.any()) text += "# beside: " + one_sided_text(one_sided) + "\n";
  if (job.answered.messages > 0) text += "# beside: " + answered_text(job.answered) + "\n";
  if (job.failover && job.failover->failed > 0) text += failover_text(*job.failover);
  std::vector<uint64_t> bytes;
  for (const CollectiveReport& c : job.collectives) bytes.push_back(c.bytes);
  text += iteration_lines(job.iterations, job.per_iteration, bytes);
  if (const auto pace = iteration_pace(job)) {
    text += format_text("# iteration: %.2f us from one entry of its first operation to the next\n",
                        pace->microseconds());
  }
  return text;
}

/// Of a job beside a real node that real time is measured on.
std::string slow_text(const RunReport& report, const JobReport& job) {
  if (report.virtual_clock || !job.not_judged.empty()) return "";
  const std::string text = pace_text(real_pace(job), report.others);
  return text.empty() ? "" : "# pace: " + text + "\n";
}

std::string drills_text(const RunReport& report) {
  std::string text;
  for (const DrillReport& drill : report.drills) text += drill_text(drill);
  return text;
}

std::string verdict_text(const RunReport& report, size_t most) {
  const VerdictReport& verdict = report.verdict;
  if (verdict.faithful) {
    if (verdict.judged == 0) return "# verdict: nothing ran that could be judged\n";
    return "# verdict: faithful\n";
  }
  std::string text = verdict.not_judged ? "# verdict: not judged\n" : "# verdict: NOT FAITHFUL\n";
  const size_t shown = std::min(most, verdict.reasons.size());
  for (size_t i = 0; i < shown; ++i) text += "#   " + verdict.reasons[i] + "\n";
  if (shown < verdict.reasons.size()) {
    text +=
        "#   and " + count_text(verdict.reasons.size() - shown, "more reason") + " in the report\n";
  }
  return text;
}

std::string report_table(const RunReport& report) {
  static constexpr size_t kReasons = 10;
  std::string text;
  for (const JobReport& job : report.jobs) text += job_table(job) + slow_text(report, job) + "#\n";
  if (report.traffic) text += traffic_table(*report.traffic) + "#\n";
  for (const OutageReport& outage : report.outages) text += outage_text(outage);
  text += drills_text(report);
  for (const ServiceReport& service : report.services) text += service_text(service);
  if (const LeftOutServices& more = report.services_left_out; more.clients != 0) {
    text += "# services: " + count_text(more.clients, "more client") + ", " +
            std::to_string(more.failed) + " of them failed\n";
  }
  for (const ClientReport& client : report.clients) text += client_text(client);
  for (const KernelReport& kernel : report.kernels) text += kernel_text(kernel);
  for (const PortReport& port : report.ports) {
    if (port.pacing) text += departures_text(port);
    text += congestion_text(port) + pfc_text(port);
    for (const SenderReport& sender : port.senders) text += sender_text(sender);
  }
  return text + verdict_text(report, kReasons) + validity_text(report.validity);
}

}  // namespace understudy
