#include "ctrl/jobs/packet_model.h"

#include <algorithm>

#include "ctrl/compile/rank_job.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/network/lone_packets.h"
#include "ctrl/traffic/flow_routes.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

uint64_t messages(const CollectiveSetup& setup) {
  std::vector<uint64_t> of_shape;
  for (const auto& shape : setup.shapes) {
    uint64_t& sum = of_shape.emplace_back();
    for (const auto& rank : shape->ranks) {
      for (const Connection& c : rank->connections()) {
        if (c.direction == Direction::kSend) sum += c.messages;
      }
    }
  }
  uint64_t sum = 0;
  for (const JobOperation& operation : setup.operations) sum += of_shape[operation.size];
  return sum;
}

}  // namespace

Result<void> model_by_packets(const Config& config, const JobConfig& job, JobState& state) {
  const CollectiveSetup& setup = *state.setup;
  if (!setup.carried || messages(setup) * job.merged_nics > kMostModelledMessages) return {};
  std::vector<FlowSpec> flows;
  uint32_t connections = 0;
  auto ranks = build_rank_job(config, job, *setup.topology, flows, connections);
  if (!ranks) return tl::unexpected(ranks.error());
  if (auto routed = route_flows(*setup.topology, config.seed, flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  const Graph& graph = setup.topology->graph;
  FlowTraffic traffic(graph, flows, config.queues.flows, flow_controls(config));
  LonePackets network(graph, setup.topology->next_hops(config.seed), network_settings(config),
                      flows, traffic, {ranks->ranks.get()});
  TRY(run_alone(network, graph, config.path));
  for (size_t o = 0; o < setup.operations.size(); ++o) {
    Time entry = Time::never(), end;
    for (const uint32_t rank : setup.job.real) {
      entry = std::min(entry, ranks->ranks->entry(o, rank));
      end = std::max(end, ranks->ranks->completion(o, rank));
    }
    state.modelled[o] = end - entry;
  }
  state.model = ModelKind::kPackets;
  return {};
}

}  // namespace understudy
