#include "ctrl/traffic/flow_routes.h"

#include "ctrl/traffic/traffic.h"

namespace understudy {
namespace {

/// Most paths that the packets of one flow are spread over.
constexpr uint8_t kMostPaths = 64;
constexpr size_t kFlowsBetweenLooks = 1 << 14;

/// Static routes depend on both ends of a flow, so its packets carry their links.
void give_static_paths(Routes& routes, FlowSpec& f) {
  const bool forth = routes.is_static(f.from, f.to), back = routes.is_static(f.to, f.from);
  if (!forth && !back) return;
  // Acknowledgements are hashed by themselves, as by their own addresses and ports.
  if (f.back.empty()) f.back = path_back_of(routes, f);
  if (!forth) return;
  f.path = path_of(routes, f);
  f.number = kNoFlowNumber;
  if (f.most_paths == 1) return;
  f.spray = routes.paths(f.from, f.to, f.most_paths);
  if (f.spray.size() == 1) f.spray.clear();
}

}  // namespace

Result<void> route_flows(const Topology& topology, uint64_t seed, std::vector<FlowSpec>& flows,
                         const std::function<void(size_t)>& prepared) {
  Routes routes = topology.routes(seed);
  const std::vector<Vertex>& vertices = topology.graph.vertices();
  for (size_t i = 0; i < flows.size(); ++i) {
    FlowSpec& f = flows[i];
    if (i % kFlowsBetweenLooks == 0 && prepared) prepared(i);
    if (!f.path.empty() || f.number != kNoFlowNumber) continue;
    f.number = hash_number(flows, i);
    if (routes.next_hops(f.from, f.to).empty()) {
      return fail("flow \"" + f.name + "\": there is no path from " + vertices[f.from].name +
                  " to " + vertices[f.to].name);
    }
    if (routes.choice() == RouteChoice::kSpray) f.most_paths = kMostPaths;
    give_static_paths(routes, f);
  }
  return {};
}

std::vector<LinkId> path_of(Routes& routes, const FlowSpec& flow) {
  if (!flow.path.empty()) return flow.path;
  return routes.path(flow.from, flow.to, flow_hash(flow.from, flow.to, flow.number));
}

std::vector<LinkId> path_back_of(Routes& routes, const FlowSpec& flow) {
  if (!flow.back.empty()) return flow.back;
  if (!flow.path.empty()) {
    std::vector<LinkId> back(flow.path.rbegin(), flow.path.rend());
    for (LinkId& link : back) link = reverse(link);
    return back;
  }
  return routes.path(flow.to, flow.from, flow_hash(flow.to, flow.from, flow.number));
}

Result<FlowSenders> flow_senders(const Config& config, const Topology& topology,
                                 const std::vector<FlowSpec>& flows) {
  Routes routes = topology.routes(config.seed);
  FlowSenders senders;
  senders.of.reserve(flows.size());
  std::vector<uint32_t> of_connection(connection_count(flows), kNoConnection);
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
    FlowSenders::Ends& ends = senders.ends.emplace_back();
    if (flow.path.empty()) {
      const uint64_t hash = flow_hash(flow.from, flow.to, hash_number(flows, i));
      senders.paths.back() = routes.path(flow.from, flow.to, hash);
      if (!routes.is_static(flow.from, flow.to)) ends = {flow.from, flow.to, hash};
    }
    if (!senders.paths.back().empty()) continue;
    const std::vector<Vertex>& vertices = topology.graph.vertices();
    return fail(config.path + ": flow \"" + flow.name + "\": there is no path from " +
                vertices[flow.from].name + " to " + vertices[flow.to].name);
  }
  return senders;
}

}  // namespace understudy
