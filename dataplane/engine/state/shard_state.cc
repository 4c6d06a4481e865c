#include "dataplane/engine/state/shard_state.h"

#include <vector>

namespace understudy {
namespace {

std::vector<NodeId> node_ids(const NodeTable& nodes) {
  std::vector<NodeId> ids;
  for (const NodeNic& nic : nodes.nics()) ids.push_back(nic.id);
  return ids;
}

/// A queue pair's timer; under congestion control, its pacing and its rate controller's timer too.
size_t events_of_qp(const ShardConfig& config) { return config.control_users == 0 ? 1 : 3; }

}  // namespace

ShardState::ShardState(const ShardConfig& made_of)
    : config(made_of),
      ports(config),
      pool(config.packets),
      events(size_t{config.packets} * 4 + size_t{config.queue_pairs} * events_of_qp(config),
             size_t{config.packets} * 4 + config.nodes.nics().size() * 4),
      qps(config),
      regions(config.regions),
      faults(config.faults, config.fault_seed, node_ids(config.nodes), config.queue_pairs),
      notices(ports.size()) {
  for (uint32_t i = 0; i < config.nodes.nics().size(); ++i) {
    qps[qps.finished_slot(i)].real = ports[0].nic;
  }
}

}  // namespace understudy
