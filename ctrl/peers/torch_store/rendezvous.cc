#include "ctrl/peers/torch_store/rendezvous.h"

#include <utility>

#include "ctrl/peers/torch_store/emulated_rank0.h"
#include "ctrl/peers/torch_store/real_rank0.h"

namespace understudy {

std::vector<AgentNode> agent_nodes(const std::vector<RendezvousSettings::Rank>& ranks) {
  std::vector<AgentNode> nodes;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const RendezvousSettings::Rank& r = ranks[rank];
    if (rank == 0 || r.node != ranks[rank - 1].node) {
      nodes.push_back({r.real, rank, 0, r.address});
    }
    ++nodes.back().ranks;
  }
  return nodes;
}

AgentKeys agent_keys(const RendezvousSettings& settings, const std::string& prefix) {
  AgentKeys keys;
  const std::string run = prefix + "torchelastic/";
  const std::string exit = run + "agent/terminal_state";
  const auto nodes = agent_nodes(settings.ranks);
  const auto leave = [&](std::string key, std::string value) {
    keys.entries.push_back({std::move(key), std::move(value)});
  };
  const auto leave_role = [&](size_t i) {
    const std::string node = std::to_string(i);
    const std::string role = "{\"role\": \"default\", \"rank\": " + node +
                             ", \"local_world_size\": " + std::to_string(nodes[i].ranks) + "}";
    leave(run + "role_info" + node, role);  // 1.x: all agents read all of them
    leave(run + "role_info" + node + ".FIN", "FIN");
    leave(exit + node, node);
    leave(exit + node + ".FIN", "FIN");
    leave(run + "role_info/" + node, role);  // 2.x: agent 0 reads them and assigns ranks
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].real) continue;
    ++keys.emulated_nodes;
    leave_role(i);
  }
  keys.exit_counter = exit + "/num_members";
  if (settings.ranks.empty() || settings.ranks[0].real) return keys;
  const std::string world = std::to_string(settings.ranks.size());
  const auto leave_assignment = [&](size_t i) {
    const std::string first = std::to_string(nodes[i].first_rank);
    leave(run + "assigned_ranks/" + std::to_string(i),
          "[" + first + ", " + world + ", " + first + ", " + world + "]");
  };
  for (size_t i = 0; i < nodes.size(); ++i) leave_assignment(i);
  leave(prefix + "MASTER_ADDR", settings.master.address.text());
  leave(prefix + "MASTER_PORT", std::to_string(settings.master.port));
  return keys;
}

std::unique_ptr<Rendezvous> Rendezvous::make(RendezvousSettings settings, StoreHost& host,
                                             RendezvousCallbacks callbacks) {
  if (!settings.ranks.empty() && settings.ranks[0].real) {
    return std::make_unique<RealRank0>(std::move(settings), host, std::move(callbacks));
  }
  return std::make_unique<EmulatedRank0>(std::move(settings), host, std::move(callbacks));
}

}  // namespace understudy
