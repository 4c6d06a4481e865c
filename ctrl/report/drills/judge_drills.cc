#include "ctrl/report/drills/judge_drills.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ctrl/report/text.h"

namespace understudy {
namespace {

/// One operation of a job, as drills see it.
struct Operation {
  std::string job;
  uint64_t bytes = 0;
  bool warmup = false;
  Time start, end;
  std::optional<Duration> modelled;
  Duration took;  ///< since the one before it had ended
};

/// Appends it, behind those before it of the same job.
void add(std::vector<Operation>& all, Operation operation) {
  Time from = operation.start;
  if (!all.empty() && all.back().job == operation.job) from = std::max(from, all.back().end);
  operation.took = std::max(Duration(), operation.end - from);
  all.push_back(std::move(operation));
}

std::vector<Operation> operations_of(const RunReport& report) {
  std::vector<Operation> all;
  for (const JobReport& job : report.jobs) {
    for (const CollectiveReport& c : job.collectives) {
      add(all, {job.name, c.bytes, c.warmup, c.entry, c.end(), c.modelled, {}});
    }
  }
  if (!report.traffic) return all;
  for (const RankJobReport& job : report.traffic->jobs) {
    for (const RankOperationReport& o : job.operations) {
      add(all, {job.name, o.bytes, o.warmup, o.start, o.start + o.longest, {}, {}});
    }
  }
  return all;
}

bool met(const DrillReport& drill, Time start, Time end) {
  return !drill.from.is_never() && end >= drill.from && (!drill.until || start <= *drill.until);
}

/// Something went wrong at a time.
struct Trouble {
  Time at;
  std::string text;
};

bool is_unfinished(const JobReport& job) { return job.collectives.size() < job.planned; }

/// Its last communicator, of several.
bool has_ended(const JobReport& job) {
  return !job.communicators.empty() && job.communicators.back().ended;
}

std::string done_of(const JobReport& job) {
  return std::to_string(job.collectives.size()) + " of " + count_text(job.planned, "operation");
}

void add_job(const JobReport& job, std::vector<Trouble>& all) {
  const std::string name = "job '" + job.name + "'";
  if (job.failed) all.push_back({job.failed_at, name + ": a queue pair failed"});
  for (const CommunicatorReport& c : job.communicators) {
    if (c.ended && c.done < c.planned) all.push_back({*c.ended, name + ": " + c.end});
  }
  if (!job.communicators.empty()) return;
  if (!job.failure.empty()) {
    all.push_back({job.left_at, name + ": " + job.failure});
  } else if (is_unfinished(job) && !job.left_at.is_never()) {
    all.push_back({job.left_at, name + ": its real ranks left after " + done_of(job)});
  }
}

/// A job, or a program, that has neither ended nor reported an error; empty: there is none.
std::string hang_text(const RunReport& report) {
  for (const JobReport& job : report.jobs) {
    if (is_unfinished(job) && !job.failed && job.left_at.is_never() && !has_ended(job)) {
      return "job '" + job.name + "' hangs: " + done_of(job) + " were done" +
             (job.standing.empty() ? "" : "; " + job.standing) +
             (report.ended_by ? " (the run was ended by " + *report.ended_by + ")" : "");
    }
  }
  for (const ClientReport& client : report.clients) {
    if (!client.error.empty() && client.ended.is_never()) {
      return "the client on " + client.node + " hangs: " + client.error;
    }
  }
  for (const KernelReport& kernel : report.kernels) {
    if (!kernel.exit_status) return "the program of node \"" + kernel.node + "\" hangs";
  }
  return "";
}

/// Errors that somebody has reported, in order of time.
std::vector<Trouble> troubles_of(const RunReport& report) {
  std::vector<Trouble> all;
  for (const JobReport& job : report.jobs) add_job(job, all);
  for (const ServiceReport& s : report.services) {
    if (!s.error.empty()) all.push_back({s.to, "service on " + s.node + ": " + s.error});
  }
  for (const ClientReport& c : report.clients) {
    if (c.error.empty() || c.ended.is_never()) continue;
    all.push_back({c.ended, "client on " + c.node + ": " + c.error});
  }
  for (const KernelReport& k : report.kernels) {
    if (k.exit_status.value_or(0) == 0) continue;
    all.push_back({k.ended, "the program of node \"" + k.node + "\" ended with status " +
                                std::to_string(*k.exit_status)});
  }
  if (report.broken_off) {
    std::string text = report.broken_off->text;
    const std::string file = report.configuration_path + ": ";
    if (text.starts_with(file)) text.erase(0, file.size());
    all.push_back({report.broken_off->at, std::move(text)});
  }
  std::ranges::stable_sort(all, {}, &Trouble::at);
  return all;
}

/// Wrong results, wherever somebody looked; empty: there are none.
std::string wrong_text(const RunReport& report) {
  for (const JobReport& job : report.jobs) {
    uint64_t wrong = 0;
    for (const CollectiveReport& c : job.collectives) wrong += c.wrong_elements.value_or(0);
    uint64_t told = 0;
    for (const NodeCheck& check : job.node_checks) told += check.wrong_elements.value_or(0);
    wrong = std::max(wrong, told);
    if (wrong != 0) return "job '" + job.name + "': " + count_text(wrong, "wrong element");
  }
  return "";
}

/// Whether somebody has looked at results.
bool is_verified(const RunReport& report) {
  return std::ranges::any_of(report.jobs, [](const JobReport& job) {
    return std::ranges::any_of(job.collectives,
                               [](const auto& c) { return c.wrong_elements.has_value(); }) ||
           std::ranges::any_of(job.node_checks,
                               [](const auto& c) { return c.wrong_elements.has_value(); });
  });
}

class Judge {
 public:
  explicit Judge(const RunReport& report)
      : report_(report),
        operations_(operations_of(report)),
        troubles_(troubles_of(report)),
        hang_(hang_text(report)) {
    for (const Operation& o : operations_) {
      const bool touched = std::ranges::any_of(
          report_.drills, [&](const DrillReport& d) { return met(d, o.start, o.end); });
      if (!touched) alone_[{o.job, o.bytes, o.warmup}].push_back(o.took);
    }
    for (auto& [like, times] : alone_) std::ranges::sort(times);
  }

  void judge(uint32_t number, DrillReport& drill) const {
    drill.passed = false;
    drill.text.clear();
    drill.found.reset();
    drill.slowest.reset();
    const std::string wrong = wrong_text(report_);
    const Trouble* error = error_of(drill);
    if (drill.from.is_never()) {
      drill.text = "it waited for " + drill.awaits + ": " +
                   (troubles_.empty() ? last_text() : troubles_.front().text);
    } else if (!meets_anything(drill)) {
      drill.text = "nothing ran between " + time_text(drill.from) + " and its end: " + last_text();
    } else if (!wrong.empty()) {
      drill.text = "wrong results: " + wrong;
    } else if (error != nullptr && error->at < drill.from) {
      drill.text = "an error came before it: " + error->text;
    } else if (error == nullptr && hangs(drill)) {
      drill.text = drill.expected == DrillExpectation::kReports
                       ? "nobody reported an error: " + hang_
                       : hang_;
    } else if (drill.expected == DrillExpectation::kReports) {
      judge_report(error, drill);
    } else if (error != nullptr) {
      drill.text = error->text + ", " + duration_text(error->at - drill.from) + " after it began";
    } else if (drill.expected == DrillExpectation::kRecovers) {
      judge_recovery(number, drill);
    } else {
      judge_pace(drill);
    }
  }

 private:
  bool meets_anything(const DrillReport& drill) const {
    const auto any = [&](const auto& list, const auto& start, const auto& end) {
      return std::ranges::any_of(
          list, [&](const auto& item) { return met(drill, start(item), end(item)); });
    };
    const auto from = [](const auto& item) { return item.from; };
    const auto to = [](const auto& item) { return item.to; };
    // What failed, broke off or hangs was under way.
    const Trouble* error = error_of(drill);
    if (error != nullptr ? error->at >= drill.from : hangs(drill)) return true;
    return any(
               operations_, [](const Operation& o) { return o.start; },
               [](const Operation& o) { return o.end; }) ||
           any(report_.services, from, to) || any(report_.clients, from, to) ||
           any(
               report_.kernels, [](const auto&) { return Time::zero(); },
               [](const auto& kernel) { return kernel.ended; }) ||
           (report_.traffic && any(
                                   report_.traffic->groups, [](const auto& g) { return g.start; },
                                   [](const auto& g) {
                                     return g.ended < g.count ? Time::never() : g.start + g.took;
                                   }));
  }

  std::string last_text() const {
    Time last;
    for (const Operation& o : operations_) last = std::max(last, o.end);
    if (operations_.empty()) return "no operation was done";
    return "the last operation ended at " + time_text(last);
  }

  void judge_report(const Trouble* error, DrillReport& drill) const {
    if (error == nullptr) {
      drill.text = "nobody reported an error: " + done_text();
      return;
    }
    drill.found = error->at - drill.from;
    drill.passed = *drill.found <= drill.within;
    drill.text = error->text + ", " + duration_text(*drill.found) +
                 " after it began (expected: " + duration_text(drill.within) + " at most)";
  }

  /// When the next drill begins.
  Time next_after(const DrillReport& drill) const {
    Time next = Time::never();
    for (const DrillReport& other : report_.drills) {
      if (other.from > drill.from) next = std::min(next, other.from);
    }
    return next;
  }

  /// The first error, unless that is a later drill's; null: there is none.
  const Trouble* error_of(const DrillReport& drill) const {
    if (troubles_.empty() || troubles_.front().at >= next_after(drill)) return nullptr;
    return troubles_.data();
  }

  /// A job hangs, and not because of a later drill.
  bool hangs(const DrillReport& drill) const {
    if (hang_.empty()) return false;
    const Time end = drill.until.value_or(drill.from);
    return next_after(drill).is_never() ||
           std::ranges::none_of(operations_, [&](const Operation& o) { return o.start >= end; });
  }

  /// Of operations like it that no drill has met; else the modelled one.
  std::optional<Duration> usual(const Operation& like) const {
    if (const auto timed = median(like, false)) return timed;
    if (const auto warmups = median(like, true)) return warmups;
    return like.modelled;
  }

  std::optional<Duration> median(const Operation& like, bool warmups) const {
    const auto times = alone_.find({like.job, like.bytes, warmups});
    if (times == alone_.end()) return std::nullopt;
    return times->second[times->second.size() / 2];
  }

  struct Met {
    uint64_t operations = 0, compared = 0;
    Duration lost;       ///< beyond their usual times, in sum
    double slowest = 0;  ///< share of its usual time by which one took longer
  };
  Met met_operations(const DrillReport& drill) const {
    Met all;
    for (const Operation& o : operations_) {
      if (!met(drill, o.start, o.end)) continue;
      ++all.operations;
      const auto time = usual(o);
      if (!time || *time <= Duration()) continue;
      ++all.compared;
      all.lost += std::max(Duration(), o.took - *time);
      all.slowest = std::max(all.slowest, static_cast<double>((o.took - *time).ps()) /
                                              static_cast<double>(time->ps()));
    }
    return all;
  }

  void judge_recovery(uint32_t number, DrillReport& drill) const {
    const Met operations = met_operations(drill);
    Duration longest;
    uint64_t stopped = 0, again = 0;
    for (const OutageReport& outage : report_.outages) {
      if (outage.drill != number) continue;
      stopped += outage.stopped;
      again += outage.again;
      if (outage.again != 0) longest = std::max(longest, outage.longest);
    }
    if (operations.compared == 0 && stopped == 0) {
      drill.text = operations.operations == 0
                       ? "it stopped no traffic, and no operation was under way: how long it took "
                         "to recover is not known"
                       : "no operation of the same size ran without a drill: how much longer those "
                         "took that it met is not known";
      return;
    }
    if (again < stopped && has_unfinished_flows()) {
      drill.text = std::to_string(stopped - again) + " of " + count_text(stopped, "stream") +
                   " that it stopped never flowed again";
      return;
    }
    drill.found = std::max(operations.lost, longest);
    drill.passed = *drill.found <= drill.within;
    if (stopped == 0 && operations.lost == Duration()) drill.text = "it disturbed nothing; ";
    if (stopped != 0) {
      drill.text =
          count_text(stopped, "stream") + " stopped, " + again_text(stopped, again, longest) + "; ";
    }
    if (operations.operations != 0) {
      drill.text += count_text(operations.operations, "operation") + " under way took " +
                    duration_text(operations.lost) + " longer than usual; ";
    }
    drill.text += done_text() + " (expected: " + duration_text(drill.within) + " at most)";
  }

  static std::string again_text(uint64_t stopped, uint64_t again, Duration longest) {
    if (again == 0) return stopped == 1 ? "it never flowed again" : "none of them flowed again";
    const std::string some = again < stopped ? std::to_string(again) + " " : "";
    return some + "flowed again after up to " + duration_text(longest);
  }

  bool has_unfinished_flows() const {
    return report_.traffic && std::ranges::any_of(report_.traffic->groups, [](const auto& group) {
             return group.ended < group.count;
           });
  }

  void judge_pace(DrillReport& drill) const {
    const Met operations = met_operations(drill);
    if (operations.compared == 0) {
      drill.text = operations.operations == 0
                       ? "no operation was under way"
                       : "no operation of the same size ran without a drill to compare with";
      return;
    }
    drill.slowest = operations.slowest;
    drill.passed = operations.slowest <= drill.slower;
    drill.text = count_text(operations.operations, "operation") + " under way, the slowest took " +
                 decimal_text(100 * operations.slowest, 2) + " % longer than usual; " +
                 done_text() + " (expected: " + decimal_text(100 * drill.slower, 2) + " % at most)";
  }

  std::string done_text() const {
    if (operations_.empty()) {
      return has_unfinished_flows() ? "not all flows had ended when the run did"
                                    : "all work was done";
    }
    const std::string all = troubles_.empty() && hang_.empty() ? "all " : "";
    return all + count_text(operations_.size(), "operation") + " done" +
           (is_verified(report_) ? ", results right" : "");
  }

  const RunReport& report_;
  const std::vector<Operation> operations_;
  const std::vector<Trouble> troubles_;
  const std::string hang_;
  /// Sorted times of operations that no drill met: by job, bytes, and whether they were warm-ups.
  std::map<std::tuple<std::string, uint64_t, bool>, std::vector<Duration>> alone_;
};

}  // namespace

void judge_drills(RunReport& report) {
  const Judge judge(report);
  std::vector<DrillReport> judged = report.drills;
  for (uint32_t i = 0; i < judged.size(); ++i) judge.judge(i, judged[i]);
  report.drills = std::move(judged);
}

}  // namespace understudy
