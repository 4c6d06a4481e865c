// What the user asks of allreduce_node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/allreduce_node/collective.h"

namespace understudy {

struct NodeOptions {
  uint32_t ranks = 0;           ///< of the communicator, real and emulated
  std::vector<uint32_t> local;  ///< those that this process plays, one thread and GPU each
  int first_device = 0;         ///< CUDA device of the first of them; the next has the next one
  std::string id_file;          ///< where the unique id comes from, or empty
  std::string make_id_file;     ///< where the unique id is written to, or empty
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ElementType type = ElementType::kFloat;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;
  std::vector<uint64_t> sizes;  ///< bytes as nccl-tests count them: of the larger of both buffers
  uint32_t iterations = 20, warmup = 5;
  bool out_of_place = true, in_place = false;
  bool blocking = false;  ///< wait for each operation before the next one is begun
  /// Verify results: values of all ranks are known.
  bool verify = false;
  std::vector<uint32_t> real;  ///< ranks whose values come from `input_seed`; others': `job_seed`
  uint64_t input_seed = 1;
  std::optional<uint64_t> job_seed;
  double timeout_s = 120;  ///< without any progress
};

}  // namespace understudy
