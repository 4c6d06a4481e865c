#include "ctrl/compile/ways/inner_way.h"

#include <algorithm>

#include "collective_model/plan/nic_use.h"
#include "collective_model/plan/symmetric_ranks.h"
#include "collective_model/schedule/all_to_all.h"
#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/config/shared_place.h"
#include "ctrl/schedule/job_schedule.h"

namespace understudy {
namespace {

/// Of an operation in which every rank speaks with many others: its connections are not listed.
NicUse use_of_all(const Communicator& communicator, const Operation& operation, uint64_t ranks) {
  const uint64_t channels =
      is_p2p(operation.collective) ? communicator.p2p_channels_per_peer() : communicator.channels;
  return {.inner = ranks * (ranks - 1) * channels, .alone = false};
}

/// Packets take no time on the job's links, and so none waits for another.
bool takes_no_time(const Config& config, const JobConfig& job) {
  return std::ranges::all_of(job.ranks, [&](NodeId node) {
    return std::ranges::all_of(config.nodes[node].nics, [&](const NicConfig& nic) {
      return !nic.limits.packets.any() &&
             (nic.link_rate.is_unlimited() ||
              nic.link_rate.time_for(config.fabric.mtu) <= Duration::ps(1));
    });
  });
}

/// Behind NICs messages may meet others: on links between switches, or those of [[traffic]].
bool may_meet(const Config& config) {
  return !config.traffic.empty() ||
         (config.topology && config.topology->kind != TopologyKind::kSingleSwitch);
}

}  // namespace

InnerNeed inner_need(const Config& config, const JobConfig& job) {
  InnerNeed need;
  const Communicator communicator = job_communicator(config, job);
  std::vector<bool> real;
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    real.push_back(config.nodes[job.ranks[communicator.node_of(rank)]].real);
  }
  const auto emulated = static_cast<uint64_t>(std::ranges::count(real, false));
  const auto schedules = job_schedules(config, job);
  if (!schedules || takes_no_time(config, job)) return need;
  need.plan_holds = !acks_wait(config, job);  // no plan knows that
  if (emulated <= communicator.gpus) return need;
  need.plan_holds = need.plan_holds && !shares_place(config, job) && !has_relatives(config, job);
  for (uint32_t size = 0; size < (job.group ? 1 : schedules->size()); ++size) {
    const Operation& operation = (*schedules)[size].operation;
    NicUse use;
    if (!job.group && (AllToAll::is_one(operation) || SymmetricRanks::is_one(operation))) {
      use = use_of_all(communicator, operation, emulated);
    } else {
      std::vector<std::shared_ptr<const RankSchedule>> ranks;
      for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
        ranks.push_back(rank_part(communicator, job, *schedules, size, rank));
      }
      use = nic_use(communicator, ranks, real);
    }
    need.plan_holds = need.plan_holds && use.alone &&
                      !(use.inner > 0 && (may_meet(config) || is_pipeline(operation.collective)));
    need.connections = std::max(need.connections, use.inner);
  }
  return need;
}

bool is_fed_chain(const JobConfig& job) {
  return job.operations == OperationsMode::kFed && is_pipeline(job.collective);
}

bool may_go_by_packets(const Config& config, const JobConfig& job) {
  if (is_fed_chain(job) && !job.inner) return false;
  return can_carry(config, job) && (asks_for_network(config) || can_have_network(config));
}

bool goes_by_packets(const Config& config, const JobConfig& job) {
  return !job.inner && may_go_by_packets(config, job) && !inner_need(config, job).plan_holds;
}

}  // namespace understudy
