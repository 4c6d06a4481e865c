// The world of a joined job of a configuration.
#pragma once

#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "tests/rigs/nccl_rank/process.h"
#include "tests/rigs/nccl_rank/world.h"

namespace understudy::nccl_rank {

inline IpAddress address_of(const NicConfig& nic) { return nic.v4 ? *nic.v4 : nic.v6.value(); }

inline World world_of(const Config& config, const JobConfig& job) {
  World world;
  const auto* layout = nccl_decode::layout_of({static_cast<int>(job.nccl.minor), 0});
  require(layout != nullptr, "job.nccl: a release that is not known");
  world.release = layout->release;
  const uint32_t gpus = gpus_per_node(config, job);
  for (size_t n = 0; n < job.ranks.size(); ++n) {
    const NodeConfig& node = config.nodes[job.ranks[n]];
    // The emulator speaks for its reference nodes.
    const bool program = node.real && !is_reference_beside_kernels(config, node.index);
    world.addresses.push_back(address_of(node.nics.at(job.nic)));
    const auto nics = rank_nics(config, job, node);
    (program ? world.real_devices : world.emulated_devices) = static_cast<int>(nics.front().size());
    for (uint32_t gpu = 0; gpu < gpus; ++gpu) {
      world.ranks.push_back({program, static_cast<int>(n)});
      // Each GPU has the next NIC, or some of them share one.
      const auto& own = nics[gpu * nics.size() / gpus];
      World::Nic& nic = world.nics.emplace_back();
      nic.first = static_cast<int>(own.front() - nics.front().front());
      for (const unsigned number : own) nic.gids.push_back(address_of(node.nics.at(number)));
    }
  }
  world.channels = static_cast<int>(job.channels);
  world.search_channels = (world.channels + 1) / 2;
  world.queue_pairs = static_cast<int>(job.join->queue_pairs);
  const auto failover = net_ib_environment(config).failover_of(job.nccl);
  world.failover = failover.has_value();
  world.recovery = failover && failover->recovery;
  return world;
}

}  // namespace understudy::nccl_rank
