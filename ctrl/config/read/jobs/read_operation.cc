#include "ctrl/config/nccl_versions.h"
#include "ctrl/config/read/sections.h"

namespace understudy {

void read_operation(TableReader& table, ReadContext& context, JobConfig& job) {
  table.require("collective", "\"all_reduce\", or another collective");
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
}

}  // namespace understudy
