#include "ctrl/jobs/reference_job.h"

#include <algorithm>

#include "ctrl/config/job_operation.h"
#include "ctrl/jobs/link_timeline.h"
#include "ctrl/jobs/operations/reference_feed.h"
#include "ctrl/jobs/packet_model.h"
#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "ctrl/schedule/iteration_reports.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "ctrl/shards/collect.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// When the real ranks of a node had done their parts: they wait for each other, each is done when
/// the last one is.
std::vector<Time> ends(const RanksHost& node) {
  std::vector<Time> done;
  const CollectiveProgress& own = node.progress();
  for (uint32_t i = 0; i < own.finished; ++i) done.push_back(own.results[i].end);
  return done;
}

}  // namespace

Result<std::unique_ptr<ReferenceJob>> ReferenceJob::create(
    const Config& config, size_t job, std::unique_ptr<JobState> state,
    const std::function<NicSides(NodeId, uint32_t)>& sides, const std::string& feed) {
  std::unique_ptr<ReferenceJob> made(new ReferenceJob(config, job));
  made->state_ = std::move(state);
  TRY(made->connect(sides));
  TRY(made->follow(feed));
  return made;
}

Result<void> ReferenceJob::connect(const std::function<NicSides(NodeId, uint32_t)>& sides) {
  const CollectiveJob& out = setup().job;
  const Communicator& communicator = setup().communicator;
  const auto sides_of = [&](uint32_t rank) {
    return sides(job().ranks[communicator.node_of(rank)], communicator.nic_of(rank));
  };
  const NetIbLayout& layout = net_ib_layout(job().nccl);
  const NetIbEnvironment told = net_ib_environment(config_);
  const NcclWire wire{.layout = layout.cts,
                      .queue_pairs = told.queue_pairs,
                      .split = told.split_data.value_or(layout.split_data),
                      .failover = told.failover_of(job().nccl)};
  emulated_ = TRY(EmulatedRanksBinding::create(
      config_, job(), *state_, *sides_of(out.real.front()).emulator, false, wire.layout));
  for (uint32_t node = 0; size_t{node} * communicator.gpus < out.real.size(); ++node) {
    const NicSides nic = sides_of(out.real[size_t{node} * communicator.gpus]);
    auto ranks = TRY(RanksHost::create(config_, job(), *state_, node, *nic.reference, wire));
    ranks_.push_back(std::move(ranks));
  }
  for (const auto& ranks : ranks_) {
    TRY(ranks->connect(*emulated_, ranks_));
  }
  return {};
}

Result<void> ReferenceJob::follow(const std::string& path) {
  FedOperations* feed = emulated_->feed();
  if (feed == nullptr) return {};
  auto pieces = TRY(path.empty() ? reference_feed(config_, job(), setup()) : recorded_feed(path));
  feed->follow(std::move(pieces));
  return {};
}

void ReferenceJob::start() {
  emulated_->start();
  for (const auto& ranks : ranks_) ranks->start();
}

bool ReferenceJob::over() const {
  return emulated_->progress().over() &&
         std::ranges::all_of(ranks_, [](const auto& node) { return node->progress().over(); });
}

uint64_t ReferenceJob::progress() const {
  uint64_t done = emulated_->progress().finished;
  for (const auto& node : ranks_) done += node->progress().finished;
  return done;
}

std::vector<const std::vector<ControlledPair>*> ReferenceJob::controlled() const {
  std::vector<const std::vector<ControlledPair>*> all{&emulated_->controlled()};
  for (const auto& node : ranks_) all.push_back(&node->controlled());
  return all;
}

std::vector<IterationReport> ReferenceJob::iteration_reports() const {
  IterationReports reports;
  const CollectiveJob& out = setup().job;
  for (const auto& node : ranks_) {
    const std::vector<Time> done = ends(*node);
    for (uint32_t real = node->own().first; real < node->own().end; ++real) {
      const uint32_t rank = out.real[real];
      reports.add(iterations_of(out.work[rank], done, begun(rank)), setup().operations);
    }
  }
  return reports.take();
}

/// What each real rank computed; its operations are in the report.
void ReferenceJob::add_compute(std::vector<TimelineTrack>& tracks) const {
  const CollectiveJob& out = setup().job;
  for (const auto& node : ranks_) {
    for (uint32_t real = node->own().first; real < node->own().end; ++real) {
      const uint32_t rank = out.real[real];
      TimelineTrack track{"job " + job().name, "compute, rank " + std::to_string(rank), {}};
      for (const ComputeSpan& span : compute_spans(out.work[rank], ends(*node), begun(rank))) {
        track.slices.push_back({span.from, span.length, "computes", {}});
      }
      if (!track.slices.empty()) tracks.push_back(std::move(track));
    }
  }
}

void ReferenceJob::add_timeline(std::vector<TimelineTrack>& tracks) const {
  add_compute(tracks);
  understudy::add_timeline(tracks, config_, job(), setup(), emulated_->moments());
}

/// What the reference nodes say of an operation that all of them have finished.
void ReferenceJob::add_reference(CollectiveReport& report, size_t operation) const {
  Time entry = Time::never(), end;
  for (const auto& node : ranks_) {
    const CollectiveResult& own = node->progress().results[operation];
    entry = std::min(entry, own.entry);
    end = std::max(end, own.end);
    report.size_mismatches += own.size_mismatches;
    if (setup().job.exact) {
      report.wrong_elements = report.wrong_elements.value_or(0) + own.wrong_elements;
    }
    if (ranks_.size() > 1) report.by_node.push_back(own.end - own.entry);
    report.entry_by_node.push_back(own.entry);
  }
  report.node_reported = end - entry;
  if (!report.entry.is_never()) return;
  report.entry = entry;  // no rank is emulated
  report.measured = end - entry;
}

JobReport ReferenceJob::report() {
  emulated_->end();
  JobReport report = job_report(config_, job_, emulated_->progress(), setup().operations,
                                Verified::kNo, [&](size_t i) { return state_->modelled[i]; });
  report.model = model_name(state_->model);
  report.not_judged = state_->doubt_after(emulated_->progress());
  report.algorithm = name_of(kAlgorithmNames, setup().algorithm);
  report.protocol = name_of(kProtocolNames, setup().protocol);
  if (const InferenceReport* found = emulated_->found()) report.inferred = *found;
  count_failover(report, state_->ranks.carrier.get());
  size_t finished = report.collectives.size();
  for (const auto& node : ranks_) {
    const CollectiveProgress& own = node->progress();
    report.failed = report.failed || own.failed;
    if (own.failed) {
      report.failed_at = std::min(report.failed_at, Time::from_ps(own.failed_at));
    }
    report.violations += own.violations;
    if (report.failover) count_failover(report, own.failover);
    finished = std::min<size_t>(finished, own.finished);
    const uint32_t rank = setup().job.real[node->own().first];
    report.real_nodes.push_back(
        config_.nodes[job().ranks[setup().communicator.node_of(rank)]].name);
  }
  report.collectives.resize(finished);
  for (size_t i = 0; i < finished; ++i) add_reference(report.collectives[i], i);
  report.per_iteration = operations_per_iteration(job());
  if (job().iteration.stated() && finished == setup().operations.size()) {
    report.iterations = iteration_reports();
  }
  return report;
}

}  // namespace understudy
