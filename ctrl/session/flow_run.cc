#include "ctrl/session/flow_run.h"

#include <algorithm>

#include "ctrl/build/traffic.h"
#include "ctrl/session/link_changes.h"
#include "ctrl/session/progress.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

void tell(Progress& progress, const FlowModel& model, size_t flows) {
  if (!progress.due()) return;
  const double done = static_cast<double>(model.finished()) / static_cast<double>(flows);
  progress.line(format_text("%5.1f %% of the flows, %.3f ms modelled", done * 100,
                            model.now().seconds() * 1e3),
                done);
}

}  // namespace

Result<FlowSenders> flow_senders(const Config& config, const Topology& topology,
                                 const std::vector<FlowSpec>& flows) {
  if (topology.choice == RouteChoice::kSpray) {
    return fail(config.path +
                ": topology.routing = \"spray\" is a matter of packets: it needs fabric.fidelity "
                "= \"packet\"");
  }
  Routes routes = topology.routes(config.seed);
  FlowSenders senders;
  senders.of.reserve(flows.size());
  uint32_t connections = 0;
  for (const FlowSpec& flow : flows) {
    if (flow.connection != kNoConnection) connections = std::max(connections, flow.connection + 1);
  }
  std::vector<uint32_t> of_connection(connections, kNoConnection);
  for (size_t i = 0; i < flows.size(); ++i) {
    const FlowSpec& flow = flows[i];
    const auto next = static_cast<uint32_t>(senders.paths.size());
    if (flow.connection != kNoConnection) {
      uint32_t& known = of_connection[flow.connection];
      if (known != kNoConnection) {
        senders.of.push_back(known);
        continue;
      }
      known = next;
    }
    senders.of.push_back(next);
    senders.paths.push_back(flow.path);
    if (flow.path.empty()) {
      const uint64_t hash = flow_hash(flow.from, flow.to, hash_number(flows, i));
      senders.paths.back() = routes.path(flow.from, flow.to, hash);
    }
    if (!senders.paths.back().empty()) continue;
    const std::vector<Vertex>& vertices = topology.graph.vertices();
    return fail(config.path + ": flow \"" + flow.name + "\": there is no path from " +
                vertices[flow.from].name + " to " + vertices[flow.to].name);
  }
  return senders;
}

Result<FlowRun> run_flows(const Config& config, const Topology& topology,
                          const std::vector<FlowSpec>& flows,
                          const std::function<void(const std::string&)>& progress,
                          TrafficSeries* series) {
  const auto senders = flow_senders(config, topology, flows);
  if (!senders) return fail(senders.error().text);
  FlowModel model(topology.graph, flows, *senders, config.queues.flows,
                  config.queues.network.cut_through, link_changes(config, topology));
  Progress said(progress);
  const SeriesSources sources{nullptr, nullptr, &model};
  std::function<void(Time)> sample;
  if (series != nullptr) {
    sample = [&](Time before) {
      while (series->next() < before) series->sample(sources);
    };
  }
  model.run([&](const FlowModel& at) { tell(said, at, flows.size()); }, sample);
  while (series != nullptr && !series->holds(model.now())) series->sample(sources);
  if (model.finished() != flows.size()) {
    std::string text = config.path + ": ";
    text += std::to_string(flows.size() - model.finished()) + " of " +
            std::to_string(flows.size()) + " flows never end: links on their way stay down";
    return fail(text);
  }
  FlowRun run;
  run.flows = model.times();
  run.link_bytes = model.link_bytes();
  run.events = model.events();
  run.filled = model.rates().filled();
  for (const FlowTimes& flow : run.flows) run.end = std::max(run.end, flow.received);
  return run;
}

}  // namespace understudy
