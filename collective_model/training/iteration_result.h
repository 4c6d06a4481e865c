// Results of iterations from a workload that was carried out (iteration_parts.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collective_model/training/iteration_graph.h"
#include "collective_model/training/iteration_parts.h"
#include "collective_model/workload/communicators.h"

namespace understudy {

/// Of all iterations that are over on all replicas, in order.
std::vector<IterationResult> iteration_results(const IterationGraph& graph,
                                               const WorkloadCommunicators& done);

/// A stretch of a replica's time, for timelines.
struct TrainingSlice {
  std::string_view what;  ///< "forward", "gradients" ...
  Time from, to;
  uint32_t iteration = 0, micro_batch = 0, chunk = 0;
  uint32_t node = 0;  ///< of the workload
};
/// What a replica of a stage computed, in order.
std::vector<TrainingSlice> computed_slices(const IterationGraph& graph,
                                           const WorkloadCommunicators& done, uint32_t stage,
                                           uint32_t replica);
/// Operations that it took part in, from when it entered; in order of the group.
std::vector<TrainingSlice> operation_slices(const IterationGraph& graph,
                                            const WorkloadCommunicators& done, uint32_t stage,
                                            uint32_t replica);

}  // namespace understudy
