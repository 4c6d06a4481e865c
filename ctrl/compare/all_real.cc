#include "ctrl/compare/all_real.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "ctrl/config/kernel_nodes.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

Result<void> refuse(const Config& config, unsigned line, const std::string& key,
                    const std::string& why) {
  return fail(config.path + ":" + std::to_string(line) + ": " + key + ": " + why);
}

Result<void> check(const Config& config, const JobConfig& job) {
  if (job.operations != OperationsMode::kTold) {
    return refuse(config, job.line, "job.operations",
                  "where all nodes are real nobody has to find out or to be told what they do");
  }
  if (job.iteration.jitter) {
    return refuse(config, job.line, "job.jitter",
                  "real nodes have none of their own: give skew or injected_delay");
  }
  const bool real =
      std::ranges::any_of(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
  if (!real) return refuse(config, job.line, "job.ranks", "none of them is on a real node");
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    for (const NicConfig& nic : node.nics) {
      NicLimits limits = nic.limits;
      limits.ahead = limits.again = limits.ack_every = 0;
      if (!limits.any()) continue;
      return refuse(config, node.line, "node.nic",
                    "what a NIC takes for packets and messages is known of emulated nodes alone");
    }
  }
  return {};
}

/// Its NICs that the job uses.
std::set<unsigned> nics_of(const Config& config, const JobConfig& job, NodeId node) {
  const Communicator c = job_communicator(config, job);
  std::set<unsigned> nics;
  for (unsigned nic = 0; nic < config.nodes[node].nics.size(); ++nic) {
    if (c.has_nic(nic)) nics.insert(nic);
  }
  return nics;
}

void make_real(Config& config, NodeId node, unsigned nic) {
  PortConfig port;
  port.node = node;
  port.nic = nic;
  port.device = "virtual";
  port.line = config.nodes[node].line;
  if (!config.ports.empty()) port.pfc = config.ports.front().pfc;
  config.ports.push_back(std::move(port));
}

}  // namespace

Result<Config> all_real(const Config& config) {
  if (has_kernels(config)) {
    return fail(config.path +
                ": nodes of kind \"kernel\" run programs of their own: no reference node "
                "can be put beside them for comparison");
  }
  Config out = config;
  std::set<std::pair<NodeId, unsigned>> ports;
  for (const PortConfig& port : config.ports) ports.insert({port.node, port.nic});
  for (JobConfig& job : out.jobs) {
    TRY(check(config, job));
    job.inner.reset();
    for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
      const NodeId node = job.ranks[rank];
      if (!config.nodes[node].real && rank < job.skew.size()) {
        job.skew[rank] += job.iteration.injected_delay;
      }
      for (const unsigned nic : nics_of(config, job, node)) {
        if (ports.insert({node, nic}).second) make_real(out, node, nic);
      }
    }
    job.iteration.injected_delay = Duration();
  }
  for (const JobConfig& job : config.jobs) {
    for (const NodeId node : job.ranks) out.nodes[node].real = true;
  }
  return out;
}

}  // namespace understudy
