// What a job of JobRunner came to: emulated ranks' view, what programs told, reference nodes'.
#include <algorithm>

#include "ctrl/jobs/found_model.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/packet_model.h"
#include "ctrl/report/inference_doubt.h"
#include "ctrl/schedule/job_work.h"
#include "ctrl/shards/collect.h"

namespace understudy {

namespace {

/// By place in last.kinds, that in all.kinds, to which those are added that are not there.
std::vector<uint32_t> places_of_kinds(JobReport& all, const JobReport& last) {
  std::vector<uint32_t> places;
  for (const FoundKind& kind : last.kinds) {
    const auto known = std::ranges::find(all.kinds, kind.text, &FoundKind::text);
    places.push_back(static_cast<uint32_t>(known - all.kinds.begin()));
    if (known == all.kinds.end()) all.kinds.push_back(kind);
  }
  return places;
}

/// Behind all that are in `all`.
void append_communicator(JobReport& all, JobReport last) {
  const std::vector<uint32_t> places = places_of_kinds(all, last);
  for (CollectiveReport& c : last.collectives) {
    if (c.size_index < places.size()) c.size_index = places[c.size_index];
    c.communicator = static_cast<uint32_t>(all.communicators.size());
    all.collectives.push_back(std::move(c));
  }
  all.communicators.push_back(std::move(last.communicators.front()));
  all.planned += last.planned;
  all.standing = std::move(last.standing);
  all.failed = all.failed || last.failed;
  all.failed_at = std::min(all.failed_at, last.failed_at);
  all.violations += last.violations;
  if (!last.inferred) return;
  auto& operations = all.inferred->operations;
  operations.insert(operations.end(), last.inferred->operations.begin(),
                    last.inferred->operations.end());
  if (all.inferred->lost.empty()) all.inferred->lost = last.inferred->lost;
  all.inferred->beside += last.inferred->beside;
  if (all.not_judged.empty()) all.not_judged = last.not_judged;
}

/// What the operations of a job were that lists none. What they take in the model: see model_found().
void describe_found(JobReport& report, const OperationSource& source) {
  for (const Kernel& kernel : source.kinds()) report.kinds.push_back(source.describe(kernel));
  std::vector<uint32_t> before(report.kinds.size());
  for (size_t i = 0; i < std::min(report.collectives.size(), source.kind_of().size()); ++i) {
    CollectiveReport& c = report.collectives[i];
    c.size_index = source.kind_of()[i];
    c.bytes = report.kinds[c.size_index].bytes;
    c.iteration = before[c.size_index]++;
  }
}

/// Of a root of a broadcast: NCCL's part, and the model's, ends once its data are handed over, and
/// what is measured here with the last acknowledgement.
std::string doubt_of_senders(const JobReport& report) {
  const bool any = std::ranges::any_of(
      report.collectives, [](const CollectiveReport& c) { return c.modelled <= Duration(); });
  if (!any) return "";
  return "a real rank that only sends is done once its data are handed over, which takes no time "
         "in "
         "the model; how long they are on their way has none";
}

void add_answered(JobReport& report, const AnsweredReport& answered) {
  report.answered = answered;
  if (answered.messages == 0 && !answered.one_sided.any()) return;
  if (report.inferred) report.answered.operations = report.inferred->beside;
  if (report.not_judged.empty()) report.not_judged = answered_text(report.answered);
}

}  // namespace

JobReport JobRunner::with_last(std::optional<JobReport> former, size_t index,
                               std::optional<Time> ended, const std::string& how) const {
  JobReport last = report_of_last(index);
  last.communicators_wanted = config_.jobs[index].join->communicators;
  last.communicators.push_back({.joined = jobs_[index].joined,
                                .ended = ended,
                                .end = how,
                                .planned = last.planned,
                                .done = last.collectives.size(),
                                .failed = last.failed});
  if (!former) return last;
  append_communicator(*former, std::move(last));
  return std::move(*former);
}

JobReport JobRunner::report(size_t index) const {
  const Job& job = jobs_[index];
  const auto& join = config_.jobs[index].join;
  JobReport report;
  if (!join || join->joins_once()) {
    report = report_of_last(index);
  } else if (job.joined) {
    report = with_last(job.former, index, std::nullopt, "it was there when the run ended");
  } else if (job.former) {
    report = *job.former;
  } else {
    report = report_of_last(index);
    report.planned = 0;
    report.communicators_wanted = join->communicators;
  }
  if (!report.listed) model_found(report, index);
  add_answered(report, job.answered);
  return report;
}

JobReport JobRunner::report_of_last(size_t index) const {
  const Job& job = jobs_[index];
  JobReport report = job_report(config_, index, job.emulated->progress(), job.setup().operations,
                                Verified::kNo, [&](size_t i) { return job.state->modelled[i]; });
  const auto& join = config_.jobs[index].join;
  if (report.listed && (!join || join->joins_once())) {
    report.per_iteration = operations_per_iteration(config_.jobs[index]);
  }
  report.model = model_name(job.state->model);
  report.not_judged = job.state->doubt_after(job.emulated->progress());
  report.standing = job.watch.standing();
  if (!config_.jobs[index].join) {
    report.algorithm = name_of(kAlgorithmNames, job.setup().algorithm);
    report.protocol = name_of(kProtocolNames, job.setup().protocol);
  }
  if (const InferenceReport* found = job.emulated->found()) {
    report.inferred = *found;
    if (!report.listed) describe_found(report, *job.emulated->source());
    if (report.not_judged.empty()) report.not_judged = inference_doubt(*found);
  }
  if (report.listed && report.not_judged.empty()) report.not_judged = doubt_of_senders(report);
  report.left_at = job.ended_at;
  report.failure = job.failure;
  count_failover(report, job.state->ranks.carrier.get());
  add_results(report, index);
  return report;
}

const OperationSource* JobRunner::source_of(const Job& job) {
  return job.emulated == nullptr ? nullptr : job.emulated->source();
}

JobRunner::Kinds JobRunner::kinds_of(const Job& job) {
  Kinds all = job.kinds;
  if (const OperationSource* const source = source_of(job)) {
    for (const Kernel& kernel : source->kinds()) {
      all.try_emplace(source->describe(kernel).text, kernel);
    }
  }
  return all;
}

/// Once, of all communicators: packets of one kind may take a second or so.
void JobRunner::model_found(JobReport& report, size_t index) const {
  const OperationSource* const source = source_of(jobs_[index]);
  if (source == nullptr) {
    report.not_judged = jobs_[index].no_further;
    return;
  }
  const Kinds kernels = kinds_of(jobs_[index]);
  std::vector<Duration> times;
  for (const FoundKind& kind : report.kinds) {
    auto model = model_of_found(config_, config_.jobs[index], *source, kernels.at(kind.text));
    const std::string doubt = model ? model->doubt : model.error().text;
    if (report.not_judged.empty()) report.not_judged = doubt;
    times.push_back(model ? model->time : Duration());
  }
  for (CollectiveReport& c : report.collectives) {
    if (c.size_index < times.size()) c.modelled = times[c.size_index];
  }
  if (report.not_judged.empty()) report.not_judged = doubt_of_senders(report);
}

void JobRunner::add_results(JobReport& report, size_t index) const {
  const CollectiveSetup& setup = jobs_[index].setup();
  const CollectiveJob& ring = setup.job;
  const JobConfig& job = config_.jobs[index];
  const uint32_t gpus = setup.communicator.gpus;
  // Each node's times, if all of them are known.
  const size_t told = programs(jobs_[index]).size() / gpus * setup.sizes.size();
  if (ring.real.size() > gpus && jobs_[index].results.size() == told) {
    for (size_t i = 0; i < ring.real.size(); i += gpus) {
      const uint32_t node = setup.communicator.node_of(ring.real[i]);
      report.real_nodes.push_back(config_.nodes[job.ranks[node]].name);
    }
  }
  for (const auto& [rank, result] : jobs_[index].results) {
    auto added = add_node_result(report, job, result, ring.real_index[rank] / gpus);
    if (!added) {
      ++report.violations;
    }
  }
  add_reference(report, jobs_[index]);
}

/// What the reference nodes say of the operations that programs have told of.
void JobRunner::add_reference(JobReport& report, const Job& job) const {
  for (size_t real = 0; real < job.reference.size(); ++real) {
    if (job.reference[real] == nullptr) continue;
    const CollectiveProgress& own = job.reference[real]->progress();
    report.failed = report.failed || own.failed;
    if (own.failed) {
      report.failed_at = std::min(report.failed_at, Time::from_ps(own.failed_at));
    }
    report.violations += own.violations;
    for (size_t i = 0; i < std::min<size_t>(own.finished, report.collectives.size()); ++i) {
      CollectiveReport& c = report.collectives[i];
      const Duration time = own.results[i].end - own.results[i].entry;
      c.size_mismatches += own.results[i].size_mismatches;
      if (c.entry.is_never()) {  // no rank is emulated
        c.entry = own.results[i].entry;
        c.measured = time;
      }
      if (c.by_node.empty()) continue;
      c.by_node[real] = time;
      c.node_reported = std::max(c.node_reported.value_or(Duration()), time);
    }
  }
}

}  // namespace understudy
