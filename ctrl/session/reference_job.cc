#include "ctrl/session/reference_job.h"

#include <algorithm>

#include "ctrl/build/iteration_reports.h"
#include "ctrl/build/net_ib_environment.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/peers/nccl/net_ib_layout.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/job_plan.h"
#include "ctrl/session/link_timeline.h"
#include "ctrl/session/packet_model.h"
#include "ctrl/session/reference_feed.h"

namespace understudy {
namespace {

bool ended(const CollectiveProgress& p) { return p.failed || p.finished == p.results.size(); }

/// When the real ranks of a node had done their parts: they wait for each other, each is done when
/// the last one is.
std::vector<Time> ends(const RanksHost& node) {
  std::vector<Time> done;
  const CollectiveProgress& own = node.progress();
  for (uint32_t i = 0; i < own.finished; ++i) done.push_back(own.results[i].end);
  return done;
}

}  // namespace

Result<std::unique_ptr<CollectiveSetup>> ReferenceJob::plan(const Config& config,
                                                            const JobConfig& job,
                                                            SwitchedRun* switched) {
  return plan_job(config, job, job.entry == EntryMode::kScheduled, carries_inner(config, job, true),
                  switched);
}

Result<std::unique_ptr<ReferenceJob>> ReferenceJob::create(
    const Config& config, size_t job, std::unique_ptr<CollectiveSetup> setup,
    const std::function<NicSides(NodeId, uint32_t)>& sides, const std::string& feed) {
  std::unique_ptr<ReferenceJob> made(new ReferenceJob(config, job));
  made->setup_ = std::move(setup);
  if (auto connected = made->connect(sides); !connected) return fail(connected.error().text);
  if (auto followed = made->follow(feed); !followed) return fail(followed.error().text);
  return made;
}

Result<void> ReferenceJob::connect(const std::function<NicSides(NodeId, uint32_t)>& sides) {
  const CollectiveJob& out = setup_->job;
  const Communicator& communicator = setup_->communicator;
  const auto sides_of = [&](uint32_t rank) {
    return sides(job().ranks[communicator.node_of(rank)], communicator.nic_of(rank));
  };
  const NetIbLayout& layout = net_ib_layout(job().nccl);
  const NetIbEnvironment told = net_ib_environment(config_);
  const NcclWire wire{.layout = layout.cts,
                      .queue_pairs = told.queue_pairs,
                      .split = told.split_data.value_or(layout.split_data)};
  auto environment = EnvironmentHost::create(
      config_, job(), *setup_, *sides_of(out.real.front()).emulator, false, wire.layout);
  if (!environment) return fail(environment.error().text);
  environment_ = std::move(*environment);
  for (uint32_t node = 0; node * communicator.gpus < out.real.size(); ++node) {
    const NicSides nic = sides_of(out.real[node * communicator.gpus]);
    auto ranks = RanksHost::create(config_, job(), *setup_, node, *nic.reference, wire);
    if (!ranks) return fail(ranks.error().text);
    ranks_.push_back(std::move(*ranks));
  }
  for (const auto& ranks : ranks_) {
    if (auto connected = ranks->connect(*environment_, ranks_); !connected) return connected;
  }
  return {};
}

Result<void> ReferenceJob::follow(const std::string& path) {
  FedOperations* feed = environment_->feed();
  if (feed == nullptr) return {};
  auto pieces = path.empty() ? reference_feed(config_, job(), *setup_) : recorded_feed(path);
  if (!pieces) return fail(pieces.error().text);
  feed->follow(std::move(*pieces));
  return {};
}

void ReferenceJob::start() {
  environment_->start();
  for (const auto& ranks : ranks_) ranks->start();
}

bool ReferenceJob::over() const {
  return ended(environment_->progress()) &&
         std::ranges::all_of(ranks_, [](const auto& node) { return ended(node->progress()); });
}

uint64_t ReferenceJob::progress() const {
  uint64_t done = environment_->progress().finished;
  for (const auto& node : ranks_) done += node->progress().finished;
  return done;
}

std::vector<const std::vector<ControlledPair>*> ReferenceJob::controlled() const {
  std::vector<const std::vector<ControlledPair>*> all{&environment_->controlled()};
  for (const auto& node : ranks_) all.push_back(&node->controlled());
  return all;
}

std::vector<IterationReport> ReferenceJob::iteration_reports() const {
  IterationReports reports;
  const CollectiveJob& out = setup_->job;
  for (const auto& node : ranks_) {
    const std::vector<Time> done = ends(*node);
    for (uint32_t real = node->own().first; real < node->own().end; ++real) {
      reports.add(iterations_of(out.work[out.real[real]], done), setup_->operations);
    }
  }
  return reports.take();
}

/// What each real rank computed; its operations are in the report.
void ReferenceJob::add_compute(std::vector<TimelineTrack>& tracks) const {
  const CollectiveJob& out = setup_->job;
  for (const auto& node : ranks_) {
    for (uint32_t real = node->own().first; real < node->own().end; ++real) {
      const uint32_t rank = out.real[real];
      TimelineTrack track{"job " + job().name, "compute, rank " + std::to_string(rank), {}};
      for (const ComputeSpan& span : compute_spans(out.work[rank], ends(*node))) {
        track.slices.push_back({span.from, span.length, "computes", {}});
      }
      if (!track.slices.empty()) tracks.push_back(std::move(track));
    }
  }
}

void ReferenceJob::add_timeline(std::vector<TimelineTrack>& tracks) const {
  add_compute(tracks);
  understudy::add_timeline(tracks, config_, job(), *setup_, environment_->moments());
}

/// What the reference nodes say of an operation that all of them have finished.
void ReferenceJob::add_reference(CollectiveReport& report, size_t operation) const {
  Time entry = Time::never(), end;
  for (const auto& node : ranks_) {
    const CollectiveResult& own = node->progress().results[operation];
    entry = std::min(entry, own.entry);
    end = std::max(end, own.end);
    report.size_mismatches += own.size_mismatches;
    if (setup_->job.exact) {
      report.wrong_elements = report.wrong_elements.value_or(0) + own.wrong_elements;
    }
    if (ranks_.size() > 1) report.by_node.push_back(own.end - own.entry);
  }
  report.node_reported = end - entry;
  if (!report.entry.is_never()) return;
  report.entry = entry;  // no rank is emulated
  report.measured = end - entry;
}

JobReport ReferenceJob::report() {
  environment_->end();
  JobReport report = job_report(config_, job_, environment_->progress(), setup_->operations,
                                Verified::kNo, [&](size_t i) { return setup_->modelled[i]; });
  report.model = model_name(setup_->model);
  report.algorithm = name_of(kAlgorithmNames, setup_->algorithm);
  report.protocol = name_of(kProtocolNames, setup_->protocol);
  if (const InferenceReport* found = environment_->found()) report.inferred = *found;
  size_t finished = report.collectives.size();
  for (const auto& node : ranks_) {
    const CollectiveProgress& own = node->progress();
    report.failed = report.failed || own.failed;
    report.violations += own.violations;
    finished = std::min<size_t>(finished, own.finished);
    const uint32_t rank = setup_->job.real[node->own().first];
    report.real_nodes.push_back(
        config_.nodes[job().ranks[setup_->communicator.node_of(rank)]].name);
  }
  report.collectives.resize(finished);
  for (size_t i = 0; i < finished; ++i) add_reference(report.collectives[i], i);
  report.per_iteration = operations_per_iteration(job());
  if (job().iteration.stated() && finished == setup_->operations.size()) {
    report.iterations = iteration_reports();
  }
  return report;
}

}  // namespace understudy
