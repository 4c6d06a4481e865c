#include "ctrl/schedule/job_tuner.h"

#include <algorithm>
#include <utility>

#include "collective_model/tuner/graph_search.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// What NCCL finds: as [nccl] says, else as its search would; without [nccl] the job's channels.
NcclSystem system_of(const Config& config, const JobConfig& job,
                     const CommunicatorSize& communicator) {
  ASSERT_INVARIANT(!job.ranks.empty() && job.ranks[0] < config.nodes.size());
  NcclSystem system = config.nccl ? config.nccl->system : NcclSystem();
  // A real node's communicator has no switches of emulated nodes: these say so as they join.
  for (const NodeId node : job.ranks) {
    if (config.nodes[node].real) system.nvls = system.collnet = false;
  }
  NodeLinks links;
  links.gpus = communicator.gpus_per_node();
  links.nics = job_nics(config, job);
  if (config.nccl) links.inside = config.nccl->links;
  const NodeConfig& node = config.nodes[job.ranks[0]];
  if (!node.nics.empty()) {
    const Rate rate = merged_rate(job, node, job_nic(config, job, 0));
    links.nic_rate = rate.is_unlimited() ? 50 : static_cast<double>(rate.bps()) / 8e9;
  }
  search_graphs(system, job.nccl, communicator, links);
  if (!config.nccl) {
    system.channels = job.channels;
    return system;
  }
  const NcclConfig& nccl = *config.nccl;
  if (nccl.ring) {
    system.ring = system.tree = *nccl.ring;
    system.channels = 2 * nccl.ring->channels;
  }
  if (nccl.tree) system.tree = *nccl.tree;
  if (nccl.channels) system.channels = *nccl.channels;
  return system;
}

}  // namespace

CommunicatorSize job_size(const Config& config, const JobConfig& job) {
  return {static_cast<uint32_t>(job_rank_count(config, job)),
          static_cast<uint32_t>(job.ranks.size())};
}

tl::expected<Tuner, std::vector<ConfigError>> job_tuner(const Config& config,
                                                        const JobConfig& job) {
  std::vector<ConfigError> errors;
  NcclEnvironment environment;
  if (config.nccl) {
    for (const EnvironmentVariable& variable : config.nccl->environment) {
      const auto set = environment.set(variable.name, variable.value, job.nccl);
      if (set) continue;
      errors.push_back({config.path, variable.line, "nccl.environment." + variable.name,
                        "\"" + variable.value + "\"", set.error().text});
    }
    if (environment.min_channels && environment.max_channels &&
        *environment.min_channels > *environment.max_channels) {
      errors.push_back({config.path, config.nccl->line, "nccl.environment",
                        "NCCL_MIN_NCHANNELS=" + std::to_string(*environment.min_channels) +
                            " and NCCL_MAX_NCHANNELS=" + std::to_string(*environment.max_channels),
                        "the least is larger than the most"});
    }
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  const CommunicatorSize communicator = job_size(config, job);
  return Tuner(system_of(config, job, communicator), communicator, job.nccl, environment);
}

}  // namespace understudy
