// What the ranks of one node do in the operations of a job, and over which of the node's links, by
// the model's schedules (collective_model/schedule).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "ctrl/peers/ring/node_job.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/rank_program.h"

namespace understudy {

/// Parts of the node's ranks in one kind of operation; ranks are numbered within the node.
struct NodeKind {
  static constexpr uint32_t kInside = ~uint32_t{0};
  std::vector<std::unique_ptr<RankSchedule>> schedules;  ///< by rank
  std::vector<RankPart> parts;                           ///< the same, of the schedules
  std::vector<uint32_t> channels;            ///< that each operation uses, of collectives
  std::vector<std::vector<uint32_t>> links;  ///< by rank and connection: of the job; or kInside
};

/// By NodeJobMessage::kinds. Error: NCCL would not carry it out, or the links that the job names are
/// not those of its operations.
Result<std::vector<NodeKind>> node_kinds(const NodeJobMessage& job);

}  // namespace understudy
