#include "ctrl/jobs/nccl/nccl_children.h"

#include <algorithm>
#include <utility>

#include "ctrl/jobs/job_watch.h"
#include "ctrl/jobs/nccl/search_plan.h"
#include "dataplane/base/try.h"

namespace understudy {

NcclChildren::NcclChildren(const Config& config, size_t parent, JobRunner& runner, Say say)
    : config_(config), runner_(runner), say_(std::move(say)) {
  for (size_t j = 0; j < config.jobs.size(); ++j) {
    const auto& child = config.jobs[j].child;
    if (!child || child->job != parent || !runner.has(j)) continue;
    jobs_.push_back(j);
    children_.emplace_back(config, j, runner);
  }
}

const NcclChildren::Child& NcclChildren::child(size_t job) const {
  return *std::ranges::find_if(children_, [&](const Child& c) { return c.links.number() == job; });
}

Result<void> NcclChildren::found(const MadeCommunicator& made) {
  known_.insert(made.number);
  for (Child& child : children_) {
    const size_t job = child.links.number();
    if (child.communicator || config_.jobs[job].child->members != made.ranks) continue;
    child.communicator = made.number;
    child.links.bind(made.number, made.called);
    say_(job, "the real ranks have made its communicator");
    const std::string line = TRY(settle_plan(config_, runner_, job, made.search_channels));
    if (!line.empty()) say_(job, line);
    return {};
  }
  return {};
}

NcclLinks* NcclChildren::links(uint32_t communicator) {
  for (Child& child : children_) {
    if (child.communicator == communicator) return &child.links;
  }
  return nullptr;
}

std::optional<size_t> NcclChildren::job_of(uint32_t communicator) const {
  for (const Child& child : children_) {
    if (child.communicator == communicator) return child.links.number();
  }
  return std::nullopt;
}

bool NcclChildren::is_made(size_t job) const { return child(job).communicator.has_value(); }

std::string NcclChildren::how_ended(size_t job) const {
  if (!is_made(job)) return "the real ranks have not made its communicator";
  if (config_.jobs[job].operations != OperationsMode::kTold) return {};
  const auto& real = runner_.setup(job).job.real;
  return left_early_text(runner_.setup(job), runner_.emulated(job).progress(),
                         "rank " + std::to_string(real.front()));
}

std::string NcclChildren::missing(const Child& child) const {
  const size_t job = child.links.number();
  const auto link = runner_.emulated(job).missing_link();
  return link ? missing_text(config_, config_.jobs[job], runner_.setup(job), *link) : "";
}

std::vector<std::string> NcclChildren::status() const {
  std::vector<std::string> lines;
  for (const Child& child : children_) {
    lines.push_back("child job \"" + config_.jobs[child.links.number()].name +
                    (child.communicator ? "\": its communicator is communicator " +
                                              std::to_string(*child.communicator)
                                        : "\": the real ranks have not made its communicator"));
  }
  return lines;
}

void NcclChildren::poll(Time now) {
  for (Child& child : children_) {
    if (!child.communicator) continue;
    const size_t job = child.links.number();
    runner_.joined(job, now);
    const auto waiting = [&] {
      std::vector<std::string> lines;
      if (std::string line = missing(child); !line.empty()) lines.push_back(std::move(line));
      return lines;
    };
    for (const std::string& line :
         child.mistakes.look(now, runner_.setup(job), runner_.emulated(job).progress(), waiting)) {
      say_(job, line);
    }
    const bool told = config_.jobs[job].operations == OperationsMode::kTold;
    if (!told || child.links.unplanned().own == 0 || std::exchange(child.unplanned, true)) continue;
    say_(job, unplanned_text(runner_.setup(job)));
  }
}

std::vector<RankPartition> NcclChildren::splits() const {
  std::vector<RankPartition> all;
  for (const size_t job : jobs_) {
    const auto& split = config_.jobs[job].child->split;
    if (!split.empty()) all.push_back(split);
  }
  return all;
}

bool NcclChildren::ready() const {
  return std::ranges::all_of(jobs_, [this](size_t job) { return runner_.is_ready(job); });
}

void NcclChildren::end(Time now, const std::string& how, bool next) {
  for (const size_t job : jobs_) {
    const std::string own = how_ended(job);
    runner_.emulated(job).end();
    runner_.ended_communicator(job, now, own.empty() ? how : own, next);
  }
}

void NcclChildren::forget() {
  for (Child& child : children_) {
    child.links.forget();
    child.communicator.reset();
    child.mistakes = {};
    child.unplanned = false;
  }
  known_.clear();
}

}  // namespace understudy
