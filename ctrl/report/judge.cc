#include <algorithm>

#include "ctrl/report/run_report.h"
#include "ctrl/report/text.h"

namespace understudy {
namespace {

/// A drill expects errors, and they came as it expects.
bool expects_errors(const RunReport& report) {
  return std::ranges::any_of(report.drills, [](const DrillReport& drill) {
    return drill.expected == DrillExpectation::kReports && drill.passed;
  });
}

bool within(Duration lateness, double tolerance, Duration whole) {
  return static_cast<double>(lateness.ps()) <= tolerance * static_cast<double>(whole.ps());
}

std::string share_text(Duration part, Duration whole) {
  if (whole <= Duration()) return "";
  const double percent = 100 * static_cast<double>(part.ps()) / static_cast<double>(whole.ps());
  return decimal_text(percent, percent < 10 ? 2 : 0) + " % of ";
}

std::string gap_text(const GapReport& gap) {
  return "the packet loop stood still for " + duration_text(gap.length) + " at " +
         time_text(gap.from);
}

/// Those parts of the loop's gaps that lie in [from, to].
struct Overlap {
  Duration length;
  std::string text;  ///< the gaps, "; " before each
};
Overlap gaps_during(const RunReport& report, Time from, Time to) {
  Overlap overlap;
  if (!report.loop) return overlap;
  for (const GapReport& gap : report.loop->kept) {
    const Time start = std::max(from, gap.from), end = std::min(to, gap.from + gap.length);
    if (end <= start) continue;
    overlap.length += end - start;
    overlap.text += "; " + gap_text(gap);
  }
  return overlap;
}

std::string label(const JobReport& job) { return "job '" + job.name + "'"; }

std::string label(const JobReport& job, const CollectiveReport& c) {
  return label(job) +
         (job.communicators.empty() ? "" : ", communicator " + std::to_string(c.communicator + 1)) +
         ", " + size_text(c.bytes) + ", " + (c.warmup ? "warm-up " : "iteration ") +
         std::to_string(c.iteration);
}

/// Appends why the collective is wrong, returns whether it is right.
bool judge_contents(const JobReport& job, const CollectiveReport& c,
                    std::vector<std::string>& reasons) {
  const uint64_t wrong = c.wrong_elements.value_or(0);
  if (c.size_mismatches > 0) {
    reasons.push_back(label(job, c) + ": " + count_text(c.size_mismatches, "message") +
                      " did not have the schedule's size");
  }
  if (wrong > 0) {
    reasons.push_back(label(job, c) + ": " + count_text(wrong, "wrong element") + " of " +
                      std::to_string(c.bytes / 4));
  }
  return c.size_mismatches == 0 && wrong == 0;
}

bool judge_collective(const RunReport& report, const JobReport& job, const CollectiveReport& c,
                      std::vector<std::string>& reasons) {
  const bool right = judge_contents(job, c, reasons);
  if (within(c.lateness, report.tolerance, c.modelled)) return right;
  if (!c.warmup) {
    // A gap may end where the operation begins: what opened it had waited as long as it is late.
    reasons.push_back(label(job, c) + ": departures were " + duration_text(c.lateness) + " late, " +
                      share_text(c.lateness, c.modelled) + "the modelled " +
                      duration_text(c.modelled) +
                      " (allowed: " + decimal_text(100 * report.tolerance, 4) + " %)" +
                      gaps_during(report, c.entry - c.lateness, c.end()).text);
  }
  return false;
}

/// What may be why.
std::string closed_text(const RunReport& report) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, report.closed.size()); ++i) {
    text += (i == 0 ? ", and at the end nothing came through " : ", ") + report.closed[i];
  }
  if (report.closed.size() > kMost) {
    text += " and " + std::to_string(report.closed.size() - kMost) + " more";
  }
  return text;
}

/// Those that have not done all, and those that never came.
void judge_communicators(const JobReport& job, std::vector<std::string>& reasons) {
  const size_t count = job.communicators.size();
  for (size_t i = 0; i < count; ++i) {
    const CommunicatorReport& c = job.communicators[i];
    if (c.done == c.planned) continue;
    reasons.push_back(label(job) + ", communicator " + std::to_string(i + 1) + ": " +
                      std::to_string(c.done) + " of " + count_text(c.planned, "operation") +
                      " were done: " + c.end);
  }
  if (count < job.communicators_wanted.value_or(0)) {
    reasons.push_back(label(job) + ": " + std::to_string(count) + " of " +
                      count_text(*job.communicators_wanted, "communicator") + " have come");
  }
}

/// Once its collectives are judged.
void judge_each_communicator(JobReport& job) {
  for (CommunicatorReport& c : job.communicators) {
    c.faithful = c.done == c.planned && !c.failed && c.planned > 0;
  }
  for (const CollectiveReport& c : job.collectives) {
    if (job.communicators.empty()) return;
    const bool right = c.size_mismatches == 0 && c.wrong_elements.value_or(0) == 0;
    CommunicatorReport& of = job.communicators[c.communicator];
    of.faithful = of.faithful && (c.warmup ? right : c.faithful);
  }
  for (CommunicatorReport& c : job.communicators) {
    c.not_judged = c.faithful && !job.not_judged.empty();
    c.faithful = c.faithful && !c.not_judged;
  }
}

void judge_job(const JobReport& job, const RunReport& report, std::vector<std::string>& reasons) {
  const bool expected = expects_errors(report);
  if (job.failed && !expected) {
    reasons.push_back(label(job) + ": a queue pair failed" + closed_text(report));
  }
  if (job.violations > 0) {
    reasons.push_back(label(job) + ": " + count_text(job.violations, "message") +
                      " of the real node broke the protocol");
  }
  if (!expected) judge_communicators(job, reasons);
  if (job.communicators.empty() && job.collectives.size() < job.planned && !expected) {
    reasons.push_back(label(job) + ": " + std::to_string(job.collectives.size()) + " of " +
                      count_text(job.planned, "operation") + " were done" +
                      (job.child_of.empty() || job.failure.empty() ? "" : ": " + job.failure) +
                      (report.ended_by ? ", the run was ended by " + *report.ended_by : "") +
                      (job.failed ? "" : closed_text(report)) +
                      (job.standing.empty() ? "" : "; " + job.standing));
  }
  if (job.inferred && !job.inferred->lost.empty()) {
    reasons.push_back(label(job) + ": " + (job.inferred->fed ? "the feed" : "inference") +
                      " lost track, and every credit was answered at once: " + job.inferred->lost);
  }
  if (job.inferred) {
    const auto& operations = job.inferred->operations;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].right.value_or(true)) continue;
      reasons.push_back(label(job) + ": operation " + std::to_string(i) +
                        (job.inferred->fed ? " was told to be " : " was taken for ") +
                        operations[i].operation);
    }
  }
  for (const NodeCheck& check : job.node_checks) {
    if (check.wrong_elements.value_or(0) == 0) continue;
    reasons.push_back(label(job) + ", " + size_text(check.bytes) + ": the real node found " +
                      count_text(*check.wrong_elements, "wrong element"));
  }
}

void judge_service(const ServiceReport& service, const RunReport& report,
                   std::vector<std::string>& reasons) {
  const std::string name =
      "service " + service.node + ":" + std::to_string(service.port) + " (" + service.kind + ")";
  if (!service.error.empty() && !expects_errors(report)) {
    reasons.push_back(name + ": " + service.error);
  }
  const Overlap gaps = gaps_during(report, service.from, service.to);
  if (within(gaps.length, report.tolerance, service.to - service.from)) return;
  reasons.push_back(name + ": no packets moved for " +
                    share_text(gaps.length, service.to - service.from) + "a client's connection" +
                    gaps.text);
}

void judge_client(const ClientReport& client, const RunReport& report,
                  std::vector<std::string>& reasons) {
  const std::string name = "client of " + client.server + ":" + std::to_string(client.port) + " (" +
                           client.kind + ") on node " + client.node;
  if (!client.error.empty() && !expects_errors(report)) {
    reasons.push_back(name + ": " + client.error);
  }
  const Overlap gaps = gaps_during(report, client.from, client.to);
  if (within(gaps.length, report.tolerance, client.to - client.from)) return;
  reasons.push_back(name + ": no packets moved for " +
                    share_text(gaps.length, client.to - client.from) + "its traffic's time" +
                    gaps.text);
}

/// Frames that a device lost come late or never, which no lateness shows.
void judge_port(const PortReport& port, std::vector<std::string>& reasons) {
  for (const auto& [name, count] : port.device_counters) {
    if (count == 0 || (name != "rx_missed" && name != "rx_unreadable" && name != "tx_no_buffer")) {
      continue;
    }
    reasons.push_back("port " + port.name + ": the device lost " + count_text(count, "frame") +
                      " (" + name + ")");
  }
}

}  // namespace

void judge(RunReport& report) {
  VerdictReport verdict;
  for (JobReport& job : report.jobs) {
    judge_job(job, report, verdict.reasons);
    for (CollectiveReport& c : job.collectives) {
      c.faithful = judge_collective(report, job, c, verdict.reasons);
      if (!c.warmup) ++verdict.judged;
    }
    judge_each_communicator(job);
  }
  // In virtual time a flow ends as modelled; a run whose flows do not all end has no report.
  if (report.traffic) {
    for (const RankJobReport& job : report.traffic->jobs) verdict.judged += job.operations.size();
    if (report.traffic->traces) verdict.judged += report.traffic->traces->ranks.size();
    if (report.traffic->training) verdict.judged += report.traffic->training->iterations.size();
    for (const TrafficGroupReport& group : report.traffic->groups) verdict.judged += group.count;
    if (!report.traffic->deadlock.empty()) {
      std::string reason = "deadlock, each of these links is paused by the switch behind it: ";
      for (const std::string& link : report.traffic->deadlock) {
        reason += (&link == report.traffic->deadlock.data() ? "" : ", ") + link;
      }
      verdict.reasons.push_back(reason);
    }
  }
  for (const ServiceReport& service : report.services) {
    judge_service(service, report, verdict.reasons);
    ++verdict.judged;
  }
  if (const uint64_t failed = report.services_left_out.failed; failed != 0) {
    verdict.reasons.push_back("services: " + count_text(failed, "more client") +
                              " failed that the report leaves out");
    verdict.judged += failed;
  }
  for (const ClientReport& client : report.clients) {
    judge_client(client, report, verdict.reasons);
    ++verdict.judged;
  }
  for (const KernelReport& kernel : report.kernels) {
    ++verdict.judged;
    const std::string program = "the program of node \"" + kernel.node + "\" ";
    if (!kernel.exit_status) {
      verdict.reasons.push_back(
          program + "had not ended" +
          (report.ended_by ? ": the run was ended by " + *report.ended_by : ""));
    } else if (*kernel.exit_status != 0 && !expects_errors(report)) {
      verdict.reasons.push_back(program + "ended with status " +
                                std::to_string(*kernel.exit_status));
    }
  }
  for (const PortReport& port : report.ports) judge_port(port, verdict.reasons);
  if (report.broken_off && !expects_errors(report)) {
    verdict.reasons.push_back(report.broken_off->text);
  }
  if (verdict.reasons.empty()) {
    for (const JobReport& job : report.jobs) {
      if (!job.not_judged.empty()) verdict.reasons.push_back(label(job) + ": " + job.not_judged);
    }
    verdict.not_judged = !verdict.reasons.empty();
  }
  verdict.faithful = verdict.reasons.empty();
  report.verdict = std::move(verdict);
}

}  // namespace understudy
