#include "ctrl/network/lone_flows.h"

#include <algorithm>

#include "ctrl/network/deadlock.h"

namespace understudy {
namespace {

constexpr uint64_t kTurnsBetweenLooks = 1 << 10;

}  // namespace

void LoneFlows::attach(FlowCarrier& carrier) {
  uint32_t wakes = 0;
  for (FlowJob* job : jobs_) wakes = job->attach(carrier, wakes);
}

void LoneFlows::start_jobs() {
  for (FlowJob* job : jobs_) job->start();
}

double LoneFlows::jobs_done() const {
  double done = -1;
  for (const FlowJob* job : jobs_) done = std::max(done, job->share_done());
  return done;
}

/// Ranks may have something to do when the last flow has come in.
bool LoneFlows::at_rest() const {
  return finished() + stopped() == flows_ &&
         std::ranges::all_of(jobs_, [](const FlowJob* job) { return job->finished(); });
}

std::string LoneFlows::unfinished() const {
  for (const FlowJob* job : jobs_) {
    if (job->finished()) continue;
    if (std::string why = job->why_unfinished(); !why.empty()) return why;
  }
  const size_t left = flows_ - finished() - stopped();
  if (left == 0) return "a job never ends";
  return std::to_string(left) + " of " + std::to_string(flows_) + " flows never end";
}

Result<void> run_alone(LoneFlows& flows, const Graph& graph, const std::string& heading) {
  const auto deadlock = [&] {
    return flows.network() == nullptr ? std::vector<LinkId>() : flows.network()->deadlock();
  };
  const auto stuck = [&](const std::string& why) {
    return fail(heading + ": " + flows.unfinished() + ": " + why);
  };
  uint64_t until_look = kTurnsBetweenLooks;
  for (Time next; !(next = flows.next_event()).is_never();) {
    flows.advance_alone(next, Time::never());
    if (--until_look != 0) continue;
    until_look = kTurnsBetweenLooks;
    // Timers go on for ever where a timeout repeats what a deadlock holds back.
    if (flows.has_moved()) continue;
    if (const auto cycle = deadlock(); !cycle.empty()) return stuck(deadlock_text(graph, cycle));
  }
  if (flows.at_rest()) return {};
  const auto cycle = deadlock();
  return stuck(cycle.empty() ? flows.why_at_rest(graph) : deadlock_text(graph, cycle));
}

}  // namespace understudy
