#include "ctrl/session/reference_side.h"

#include <algorithm>
#include <utility>

#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/port_of.h"

namespace understudy {

Config without_reference_jobs(const Config& config) {
  Config changed = config;
  std::erase_if(changed.jobs,
                [&](const JobConfig& job) { return has_reference_ranks(config, job); });
  return changed;
}

Result<void> ReferenceSide::plan(SwitchedRun* switched) {
  for (const JobConfig& job : config_.jobs) {
    if (!has_reference_ranks(config_, job)) continue;
    auto setup = ReferenceJob::plan(config_, job, switched);
    if (!setup) return fail(setup.error().text);
    setups_.push_back(std::move(*setup));
  }
  return {};
}

Result<void> ReferenceSide::open(ShardControl& emulator, bool timeline) {
  const auto sides = [&](NodeId node, uint32_t nic) -> NicSides {
    return {&emulator, &nodes_.behind(*port_of(config_, node, nic)).side->control};
  };
  for (size_t i = 0; i < config_.jobs.size(); ++i) {
    if (!has_reference_ranks(config_, config_.jobs[i])) continue;
    auto made = ReferenceJob::create(config_, i, std::move(setups_[jobs_.size()]), sides, "");
    if (!made) return fail(made.error().text);
    if (timeline) (*made)->record();
    (*made)->start();
    jobs_.push_back(std::move(*made));
  }
  return {};
}

bool ReferenceSide::over() const {
  return std::ranges::all_of(jobs_, [](const auto& job) { return job->over(); });
}

uint64_t ReferenceSide::progress() const {
  uint64_t all = 0;
  for (const auto& job : jobs_) all += job->progress();
  return all;
}

void ReferenceSide::finish(RunReport& report, bool timeline) {
  std::vector<JobReport> others = std::exchange(report.jobs, {});
  size_t other = 0, own = 0;
  for (const JobConfig& job : config_.jobs) {
    if (!has_reference_ranks(config_, job)) {
      report.jobs.push_back(std::move(others[other++]));
      continue;
    }
    report.jobs.push_back(jobs_[own]->report());
    if (timeline) jobs_[own]->add_timeline(report.timeline);
    ++own;
  }
}

}  // namespace understudy
