#include "ctrl/run/reference_side.h"

#include <algorithm>

#include "ctrl/config/port_of.h"

namespace understudy {

Result<void> ReferenceSide::open(const std::string& feed, bool timeline) {
  const auto sides = [&](NodeId node, uint32_t nic) -> NicSides {
    const size_t port = *port_of(config_, node, nic);
    return {&emulator_.port(port).side->control, &nodes_.behind(port).side->control};
  };
  Emulator::Jobs jobs = emulator_.take_jobs(true);
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (jobs[j] == nullptr) continue;
    auto made = ReferenceJob::create(config_, j, std::move(jobs[j]), sides, feed);
    if (!made) return tl::unexpected(made.error());
    jobs_.push_back(std::move(*made));
    numbers_.push_back(j);
    if (timeline) jobs_.back()->record();
    jobs_.back()->start();
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

std::vector<const std::vector<ControlledPair>*> ReferenceSide::controlled() const {
  std::vector<const std::vector<ControlledPair>*> all;
  for (const auto& job : jobs_) {
    const auto of_job = job->controlled();
    all.insert(all.end(), of_job.begin(), of_job.end());
  }
  return all;
}

void ReferenceSide::finish(RunReport& report, bool timeline) {
  if (jobs_.empty()) return;
  report.jobs.resize(config_.jobs.size());
  for (size_t i = 0; i < jobs_.size(); ++i) {
    report.jobs[numbers_[i]] = jobs_[i]->report();
    if (timeline) jobs_[i]->add_timeline(report.timeline);
  }
}

}  // namespace understudy
