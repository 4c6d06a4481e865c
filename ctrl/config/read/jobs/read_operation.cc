#include "ctrl/config/nccl_versions.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

/// What NCCL would choose is computed from costs, which of a release before its day may change.
void check_choice(TableReader& table, const JobConfig& job) {
  if (job.nccl.minor <= NcclVersion::kNewestWithCosts || is_p2p(job.collective)) return;
  const auto refuse = [&](const char* key) {
    const TomlNode* given = table.any(key);
    table.error(given != nullptr ? given->line : table.line(), key, "\"auto\"",
                "what NCCL 2." + std::to_string(job.nccl.minor) +
                    " chooses is not known: choices are of 2.8 to 2.30");
  };
  if (!job.algorithm) refuse("algorithm");
  if (!job.protocol) refuse("protocol");
}

}  // namespace

void read_operation(TableReader& table, ReadContext& context, JobConfig& job) {
  if (job.listed) table.require("collective", "\"all_reduce\", or another collective");
  table.choice_among("collective", kCollectiveNames, job.collective);
  const TomlNode* algorithm = table.any("algorithm");
  if (algorithm != nullptr && algorithm->kind == TomlNode::Kind::kArray) {
    read_dimension_algorithms(table, context, job);
  } else {
    table.choice_among("algorithm", kAlgorithmNames, job.algorithm);
  }
  table.choice_among("protocol", kProtocolNames, job.protocol);
  table.choice_among("type", kDataTypeNames, job.type);
  table.choice_among("reduction", kReduceOpNames, job.reduction);
  table.choice_among("nccl", kVersionNames, job.nccl);
  check_choice(table, job);
}

}  // namespace understudy
