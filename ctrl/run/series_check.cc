#include "ctrl/run/series_check.h"

#include "ctrl/jobs/link_ends.h"
#include "ctrl/network/traffic_series.h"
#include "ctrl/traffic/traffic.h"

namespace understudy {

Result<void> check_series(const Scenario& scenario, const SeriesOptions& series) {
  if (series.links.empty() && series.flows.empty()) return {};
  const Config& config = scenario.config;
  const auto traffic = build_traffic(config, *scenario.topology);
  if (!traffic) return fail(describe(traffic.error()));
  std::vector<std::string> queue_pairs;
  for (size_t j = 0; j < config.jobs.size(); ++j) {
    if (scenario.jobs[j].setup == nullptr) continue;
    for (std::string& name : controlled_names(config, config.jobs[j], *scenario.jobs[j].setup)) {
      queue_pairs.push_back(std::move(name));
    }
  }
  return TrafficSeries::check(series, scenario.topology->graph, traffic->flows, queue_pairs);
}

}  // namespace understudy
