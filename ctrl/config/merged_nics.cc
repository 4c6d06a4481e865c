#include "ctrl/config/merged_nics.h"

#include <algorithm>
#include <numeric>

#include "ctrl/config/job_operation.h"

namespace understudy {

uint32_t merged_nics(const JobConfig& job, const NodeConfig& node, unsigned nic) {
  const auto there = static_cast<uint32_t>(node.nics.size() > nic ? node.nics.size() - nic : 1);
  return std::min(job.merged_nics, there);
}

uint32_t job_nics(const Config& config, const JobConfig& job) {
  if (gpus_per_node(config, job) < 2) return 1;
  size_t least = config.nodes[job.ranks.front()].nics.size();
  for (const NodeId node : job.ranks) least = std::min(least, config.nodes[node].nics.size());
  return static_cast<uint32_t>(std::max<size_t>(least / job.merged_nics, 1));
}

uint32_t job_nic(const Config& config, const JobConfig& job, uint32_t k) {
  if (job.child) return job.nic + k * job.child->nic_stride;
  return gpus_per_node(config, job) < 2 ? job.nic : k * job.merged_nics;
}

uint32_t used_nics(const Config& config, const JobConfig& job) {
  if (job.child) return job.child->nics;
  return std::min(gpus_per_node(config, job), job_nics(config, job));
}

std::vector<unsigned> first_nics(const Config& config, const JobConfig& job) {
  const uint32_t used = used_nics(config, job);
  std::vector<unsigned> firsts;
  firsts.reserve(used);
  for (uint32_t k = 0; k < used; ++k) firsts.push_back(job_nic(config, job, k));
  return firsts;
}

std::vector<std::vector<unsigned>> rank_nics(const Config& config, const JobConfig& job,
                                             const NodeConfig& node) {
  std::vector<std::vector<unsigned>> all;
  for (const unsigned first : first_nics(config, job)) {
    all.emplace_back(merged_nics(job, node, first));
    std::iota(all.back().begin(), all.back().end(), first);
  }
  return all;
}

Rate merged_rate(const JobConfig& job, const NodeConfig& node, unsigned nic) {
  const uint32_t number = merged_nics(job, node, nic);
  Rate slowest = node.nics[nic].link_rate;
  for (uint32_t i = 1; i < number; ++i) {
    const Rate rate = node.nics[nic + i].link_rate;
    if (slowest.is_unlimited() || (!rate.is_unlimited() && rate < slowest)) slowest = rate;
  }
  if (slowest.is_unlimited()) return slowest;
  return Rate::bits_per_second(slowest.bps() * number);
}

}  // namespace understudy
