// job.merged_nics, queue_pairs and split_data: over what NCCL spreads a connection.
#include <string>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostMerged = 8;

/// NCCL_IB_MAX_DEVS_PER_NIC (docs/nccl 2.3).
uint32_t most_merged(NcclVersion version) {
  constexpr NcclVersion kTwo{20}, kFour{24}, kEight{30};
  return version < kTwo ? 1 : version < kFour ? 2 : version < kEight ? 4 : 8;
}

/// Of several ranks a node: whether each NIC belongs to a device, or all of a node's to one.
std::string not_even(const Config& config, const JobConfig& job) {
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    const size_t nics = node.nics.size();
    if (nics <= job.merged_nics || nics % job.merged_nics == 0) continue;
    return "node " + node.name + " has " + std::to_string(nics) + " NICs: with several ranks a " +
           "node, which take all of them, these have to be a multiple";
  }
  return "";
}

}  // namespace

void read_queue_pairs(TableReader& table, JobConfig& job) {
  constexpr int64_t kMost = 16;
  constexpr NcclVersion kInTurn{20};  // NCCL_IB_SPLIT_DATA_ON_QPS is off from there on
  job.split_data = job.nccl < kInTurn;
  if (const auto number = table.integer("queue_pairs", 1, kMost)) {
    job.queue_pairs = static_cast<uint32_t>(number->value);
  }
  const auto split = table.boolean("split_data");
  if (!split) return;
  job.split_data = split->value;
  if (table.any("queue_pairs") == nullptr) {
    table.error(split->line, "split_data", split->value ? "true" : "false",
                "says how messages go over several queue pairs: it needs queue_pairs");
  }
}

void read_merged_nics(TableReader& table, ReadContext& context, JobConfig& job) {
  const auto merged = table.integer("merged_nics", 1, kMostMerged);
  if (!merged) return;
  job.merged_nics = static_cast<uint32_t>(merged->value);
  if (job.merged_nics == 1) return;
  std::string why;
  if (job.merged_nics > most_merged(job.nccl)) {
    why = "NCCL 2." + std::to_string(job.nccl.minor) + " makes one device of " +
          std::to_string(most_merged(job.nccl)) + " at most";
  } else if (!job.ranks.empty() && gpus_per_node(context.config, job) > 1) {
    why = not_even(context.config, job);
  }
  if (why.empty()) return;
  table.error(merged->line, "merged_nics", std::to_string(merged->value), why);
}

}  // namespace understudy
