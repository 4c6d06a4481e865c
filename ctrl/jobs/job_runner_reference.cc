// Ranks of JobRunner's jobs that are on reference nodes.
#include <algorithm>
#include <utility>

#include "ctrl/jobs/job_runner.h"
#include "dataplane/base/try.h"

namespace understudy {

ShardControl* JobRunner::control_behind(const Job& job, uint32_t rank) {
  const CollectiveSetup& setup = job.setup();
  if (job.behind.empty() || !setup.job.is_real(rank)) return nullptr;
  return job.behind[setup.job.real_index[rank] / setup.communicator.gpus];
}

ShardControl* JobRunner::reference_control(size_t job, uint32_t rank) const {
  return control_behind(jobs_[job], rank);
}

/// Whoever plays a real rank here; null: a program does, or it is not connected yet.
RanksHost* JobRunner::reference_of(const Job& job, uint32_t rank) {
  const CollectiveSetup& setup = job.setup();
  if (job.reference.empty() || !setup.job.is_real(rank)) return nullptr;
  return job.reference[setup.job.real_index[rank] / setup.communicator.gpus].get();
}

void JobRunner::find_reference(Job& job, const JobConfig& config,
                               const std::vector<ShardControl*>& reference) const {
  if (reference.empty()) return;
  const CollectiveJob& out = job.setup().job;
  const uint32_t gpus = job.setup().communicator.gpus;
  for (size_t real = 0; real < out.real.size(); real += gpus) {
    job.behind.push_back(reference[port_of_rank(config_, config, job.setup(), out.real[real])]);
  }
}

Result<void> JobRunner::host_reference(Job& job, const JobConfig& config) {
  const NcclWire wire =
      config.join ? NcclWire::of_joined(config_, config) : NcclWire::alone(config);
  for (uint32_t node = 0; node < job.behind.size(); ++node) {
    std::unique_ptr<RanksHost>& made = job.reference.emplace_back();
    if (job.behind[node] == nullptr) continue;
    made = TRY(RanksHost::create_beside_programs(config_, config, *job.state, node,
                                                 *job.behind[node], wire));
  }
  for (const auto& ranks : job.reference) {
    if (ranks == nullptr) continue;
    TRY(ranks->connect(*job.emulated, job.reference));
  }
  return {};
}

Result<void> JobRunner::open_reference(size_t number) {
  Job& job = jobs_[number];
  return host_reference(job, job.own == nullptr ? config_.jobs[number] : *job.own);
}

void JobRunner::start(Job& job) {
  job.emulated->start();
  for (const auto& ranks : job.reference) {
    if (ranks != nullptr) ranks->start();
  }
}

void JobRunner::start_joined(size_t number) {
  Job& job = jobs_[number];
  const bool joined = std::ranges::all_of(
      job.reference, [](const auto& ranks) { return ranks == nullptr || ranks->all_joined(); });
  const bool told = config_.jobs[number].operations == OperationsMode::kTold;
  if (told && !(joined && job.emulated->all_joined())) return;
  if (!std::exchange(job.emulated_started, true)) job.emulated->start();
  if (!joined || std::exchange(job.reference_started, true)) return;
  for (const auto& ranks : job.reference) {
    if (ranks != nullptr) ranks->start();
  }
}

std::vector<const CollectiveProgress*> JobRunner::progress(size_t number) const {
  const Job& job = jobs_[number];
  std::vector<const CollectiveProgress*> all{&job.emulated->progress()};
  for (const auto& ranks : job.reference) {
    if (ranks != nullptr) all.push_back(&ranks->progress());
  }
  return all;
}

bool JobRunner::has_reference() const {
  return std::ranges::any_of(jobs_, [](const Job& job) {
    return std::ranges::any_of(job.behind, [](const auto* control) { return control != nullptr; });
  });
}

bool JobRunner::reference_over() const {
  return std::ranges::all_of(jobs_, [](const Job& job) {
    return !job.failure.empty() || std::ranges::all_of(job.reference, [](const auto& ranks) {
      return ranks == nullptr || ranks->progress().over();
    });
  });
}

}  // namespace understudy
