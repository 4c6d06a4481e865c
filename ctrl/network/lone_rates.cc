#include "ctrl/network/lone_rates.h"

#include <algorithm>
#include <utility>

#include "ctrl/network/stuck_flows.h"
#include "dataplane/base/text_format.h"

namespace understudy {

LoneRates::LoneRates(FlowModel& model, std::vector<FlowJob*> jobs)
    : LoneFlows(model.times().size(), std::move(jobs)), model_(model) {
  attach(model);
  model.start();
  start_jobs();
}

void LoneRates::advance_to(Time t) {
  while (!over() && model_.next() <= t) model_.step();
}

/// Flows that nobody waits for come in when nothing happens any more.
Time LoneRates::end() const {
  Time end = has_jobs() ? model_.now() : Time::zero();
  for (const FlowTimes& flow : model_.times()) {
    if (!flow.received.is_never()) end = std::max(end, flow.received);
  }
  return end;
}

double LoneRates::share_done() const {
  if (const double done = jobs_done(); done >= 0) return done;
  return static_cast<double>(finished()) / static_cast<double>(flows());
}

std::string LoneRates::progress(double) const {
  return format_text("%5.1f %% of the flows, %.3f ms modelled", share_done() * 100,
                     model_.now().seconds() * 1e3);
}

std::string LoneRates::why_at_rest(const Graph& graph) const { return why_stuck(graph, model_); }

NamedCounts LoneRates::work() const {
  return {{"events", model_.events()}, {"rates_worked_out", model_.rates().filled()}};
}

}  // namespace understudy
