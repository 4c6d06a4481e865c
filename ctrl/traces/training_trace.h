// Iterations of a training job as execution traces: what each rank computes and communicates, in the order
// of the iterations' graph (collective_model/training/iteration_graph.h).
#pragma once

#include "collective_model/traces/trace_system.h"
#include "collective_model/training/iteration_graph.h"

namespace understudy {

/// Who is a rank of the traces.
enum class TrainingRanks : uint8_t {
  kGpus,  ///< every GPU, numbered as the job does: tensor + tp * (replica + replicas * stage)
  kGroups,  ///< the GPUs of one stage and replica as one: replica + replicas * stage. Of what replicas of a
            ///< stage do, one of `tp` equal communicators is left.
};

/// The same with all computing in whole nanoseconds, as traces have it.
IterationGraph in_whole_ns(const IterationGraph& graph);

/// `graph` is in whole nanoseconds. Ids are those of the workload's nodes. Operations of tensor
/// parallelism are part of what is computed. Computing that takes no time, starts, and a norm of one rank are
/// left out: what waits for them waits for what they wait for. Communicators other than of all ranks are
/// groups of the job. A message has a tag of its own. An error: there are more than kMostTraceNodes.
Result<TraceJob> training_trace(const IterationGraph& graph, const Parallel& parallel,
                                TrainingRanks ranks);

/// Of all ranks together.
inline constexpr uint64_t kMostTraceNodes = 20'000'000;

/// A job of as many ranks, which do nothing but one operation of the family with this number, all its
/// communicators at once.
TraceJob lone_operation(const Parallel& parallel, TrainingRanks ranks,
                        const std::vector<TrainingFamily>& families, size_t number,
                        const FamilyOperation& operation);

}  // namespace understudy
