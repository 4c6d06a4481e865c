#include "ctrl/compile/checks/real_time.h"

#include <memory>
#include <utility>

#include "ctrl/traffic/flow_routes.h"
#include "ctrl/traffic/real_time_budget.h"
#include "ctrl/traffic/traffic.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// What the largest of a job's operations sends among emulated ranks. `flows`: those of `inner`,
/// among others.
std::vector<FlowSpec> inner_load(const CollectiveSetup& setup, const InnerMessages& inner,
                                 const std::vector<FlowSpec>& flows) {
  std::vector<FlowSpec> load;
  uint64_t most = 0;
  for (const auto& shape : setup.shapes) {
    if (shape->bytes < most) continue;
    most = shape->bytes;
    load.clear();
    for (uint32_t i = 0; i < shape->inner_uses.size(); ++i) {
      const CollectiveShape::InnerUse& use = shape->inner_uses[i];
      const RankSchedule& sender = *shape->ranks[setup.job.inner[i].from];
      uint64_t bytes = 0;
      for (uint64_t k = 0; k < use.messages; ++k) bytes += sender.message(use.from, k).wire;
      for (uint32_t part = 0; part < inner.parts(i) && bytes > 0; ++part) {
        FlowSpec& flow = load.emplace_back(flows[inner.first_flow(i, part)]);
        flow.bytes = (bytes + inner.parts(i) - 1) / inner.parts(i);
      }
    }
  }
  return load;
}

}  // namespace

Result<void> check_real_time(const Scenario& scenario) {
  const Config& config = scenario.config;
  if (scenario.clock != RunClock::kReal || scenario.topology == nullptr) return {};
  if (config.fabric.fidelity == FabricFidelity::kFlow) return {};
  const Topology& topology = *scenario.topology;
  auto traffic = build_traffic(config, topology);
  if (!traffic) return fail(describe(traffic.error()));
  std::vector<FlowSpec>& flows = traffic->flows;
  const auto route = [&]() -> Result<void> {
    auto routed = route_flows(topology, config.seed, flows);
    if (!routed) return fail(config.path + ": " + routed.error().text);
    return {};
  };
  TRY(route());
  const std::vector<FlowSpec> named = flows;
  uint32_t connections = connection_count(flows);
  std::vector<std::pair<const CollectiveSetup*, std::unique_ptr<InnerMessages>>> jobs;
  for (const ScenarioJob& job : scenario.jobs) {
    if (job.setup == nullptr || job.setup->inner.empty()) continue;
    auto inner = std::make_unique<InnerMessages>(job.setup->inner, job.setup->inner_settings);
    connections = inner->add_flows(flows, connections);
    jobs.emplace_back(job.setup.get(), std::move(inner));
  }
  // Hashes count all flows that there are.
  if (!jobs.empty()) TRY(route());
  std::vector<std::vector<FlowSpec>> loads;
  loads.reserve(jobs.size());
  for (const auto& [setup, inner] : jobs) loads.push_back(inner_load(*setup, *inner, flows));
  return fits_real_time(config, topology, named, loads);
}

}  // namespace understudy
