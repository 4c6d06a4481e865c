// The values of a node's ranks in a job with payload = "exact": what their messages carry, and
// whether what comes out is right (docs/nccl 3.14).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/ring/node_job.h"
#include "dataplane/collective/rank_program.h"
#include "tools/rigs/ring_node/values/rank_values.h"
#include "tools/rigs/ring_node/whole_node/node_schedule.h"

namespace understudy {

class NodeValues {
 public:
  /// `input_seed`: of the contributions of this node's ranks, which no message carries; with
  /// `shared_seed` those of all programs' ranks. Results are verified if all contributions are
  /// known here. Arguments outlive this.
  NodeValues(const NodeJobMessage& job, const std::vector<NodeKind>& kinds, uint64_t input_seed,
             bool shared_seed);

  /// All ranks enter an operation; nothing of the one before is kept.
  void begin(uint32_t kind);
  /// The data of message `k` that a rank sends.
  std::vector<uint8_t> made(const RankEnd& sender, uint64_t k) const;
  /// Message `k` that a rank receives.
  void take(const RankEnd& receiver, uint64_t k, std::vector<uint8_t> data);
  /// Of the operation, which is over: elements of the ranks' results that are wrong; nothing if
  /// they are not verified.
  std::optional<uint64_t> wrong();

  /// Why results are not verified; empty if they are.
  const std::string& why_not_verified() const { return why_not_; }

 private:
  std::string find_why_not(bool shared_seed) const;
  const std::vector<RankResult>& right(uint32_t kind);
  uint64_t seed(uint32_t rank) const;
  uint32_t first_rank() const { return job_.node * job_.communicator.gpus; }

  const NodeJobMessage& job_;
  const std::vector<NodeKind>& kinds_;
  const uint64_t input_seed_;
  const std::string why_not_;
  uint32_t kind_ = 0;
  std::vector<std::unique_ptr<RankValues>> ranks_;  ///< of the operation
  std::vector<std::vector<RankResult>> right_;      ///< by kind, of the node's ranks, once known
};

}  // namespace understudy
