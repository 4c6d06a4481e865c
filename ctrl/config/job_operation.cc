#include "ctrl/config/job_operation.h"

#include <algorithm>

#include "ctrl/config/config_limits.h"
#include "ctrl/config/nccl_versions.h"

namespace understudy {
namespace {

// Whose cutting ring_node follows: see collective_model/nccl/channel_cut.h.
constexpr NcclVersion kOldestToRun{23}, kNewestToRun{28};

std::string quoted(std::string_view key, std::string_view value) {
  return std::string(key) + " = \"" + std::string(value) + "\"";
}

/// What about it is not a plain ring; empty if nothing.
std::string not_plain(const Config& config, const JobConfig& job) {
  if (job.collective != Collective::kAllReduce) {
    return quoted("collective", name_of(kCollectiveNames, job.collective));
  }
  if (job.algorithm != Algorithm::kRing) {
    return quoted("algorithm", name_of(kAlgorithmNames, job.algorithm));
  }
  if (!job.dimensions.empty()) return "an algorithm for each dimension";
  if (job.protocol != Protocol::kSimple) {
    return quoted("protocol", name_of(kProtocolNames, job.protocol));
  }
  if (job.type != DataType::kFloat32) return quoted("type", name_of(kDataTypeNames, job.type));
  if (job.reduction != ReduceOp::kSum) {
    return quoted("reduction", name_of(kReduceOpNames, job.reduction));
  }
  if (job.group) return "group = true";
  if (job.iteration.whole) return "order = \"iteration\"";
  const uint32_t gpus = gpus_per_node(config, job);
  if (gpus > 1) return std::to_string(gpus) + " ranks on each node";
  if (job.ranks.size() == 1) return "a single node";
  return "";
}

}  // namespace

bool has_parts(Collective collective) {
  return has_rank_parts(collective) || collective == Collective::kAllToAll ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

uint32_t gpus_per_node(const Config& config, const JobConfig& job) {
  if (job.gpus) return *job.gpus;
  uint32_t least = static_cast<uint32_t>(kMostGpus);
  for (const NodeId node : job.ranks) least = std::min(least, config.nodes[node].gpus);
  return least;
}

uint64_t job_rank_count(const Config& config, const JobConfig& job) {
  return uint64_t{gpus_per_node(config, job)} * job.ranks.size();
}

bool all_emulated(const Config& config) {
  return std::ranges::none_of(config.nodes, [](const NodeConfig& node) { return node.real; });
}

bool is_plain_ring(const Config& config, const JobConfig& job) {
  return not_plain(config, job).empty();
}

bool is_ring_of_neighbours(const Config& config, const JobConfig& job) {
  return job.nccl >= kOldestToRun && job.nccl <= kNewestToRun && job.merged_nics == 1 &&
         is_plain_ring(config, job);
}

}  // namespace understudy
