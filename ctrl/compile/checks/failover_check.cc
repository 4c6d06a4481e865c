#include "ctrl/compile/checks/failover_check.h"

#include <algorithm>

#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/read/load.h"
#include "ctrl/schedule/net_ib_environment.h"

namespace understudy {
namespace {

constexpr NcclVersion kRecoverySince{30};
constexpr std::string_view kFailover = "NCCL_IB_RESILIENCY_PORT_FAILOVER",
                           kRecovery = "NCCL_IB_RESILIENCY_PORT_RECOVERY";

/// The other side of a job whose real ranks are not NCCL's and not played here.
bool meets_ring_node(const Scenario& scenario, const JobConfig& job) {
  if (job.join) return false;
  return scenario.clock == RunClock::kReal || has_kernel_ranks(scenario.config, job);
}

}  // namespace

Result<void> check_failover(const Scenario& scenario) {
  const Config& config = scenario.config;
  const NetIbEnvironment told = net_ib_environment(config);
  const auto refused = [&](std::string_view name, const std::string& why) -> Result<void> {
    const auto& all = config.nccl->environment;
    const auto variable = std::ranges::find(all, name, &EnvironmentVariable::name);
    return fail(
        ConfigError{config.path, variable->line, std::string(name), variable->value, why}.text());
  };
  if (told.failover.recovery && !told.port_failover) {
    return refused(kRecovery, "it does nothing without " + std::string(kFailover) + " = \"1\"");
  }
  if (!told.port_failover) return {};
  for (const JobConfig& job : config.jobs) {
    const std::string name = "job \"" + job.name + "\"";
    if (!told.failover_of(job.nccl)) {
      return refused(kFailover, name + " has nccl = \"2." + std::to_string(job.nccl.minor) +
                                    "\", which has no port failover: that is there from 2.29.7 on");
    }
    if (told.failover.recovery && job.nccl < kRecoverySince) {
      return refused(kRecovery, name + " has nccl = \"2." + std::to_string(job.nccl.minor) +
                                    "\", which has no recovery: that is there from 2.30 on");
    }
    if (!scenario.real_side) {
      return refused(kFailover, "ranks of " + name +
                                    " do not fail over where none of them is real: give one of its "
                                    "nodes real = true and ports");
    }
    if (meets_ring_node(scenario, job)) {
      return refused(kFailover,
                     "the real ranks of " + name +
                         " are ring_node's, which has no port failover: NCCL itself (join) and "
                         "simulate's reference nodes have it");
    }
  }
  return {};
}

}  // namespace understudy
