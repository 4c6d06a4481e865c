// From a job of the configuration to its plans: operations, their schedules, the connections
// between real and emulated ranks, model times.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/communicator.h"
#include "ctrl/build/job_work.h"
#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "dataplane/node/collective_job.h"

namespace understudy {

/// Where the model's times of operations come from.
enum class ModelKind : uint8_t {
  kPlan,     ///< its plan with every rank emulated
  kPackets,  ///< all its ranks packet by packet
};

/// A job ready to run. Does not move: shards hold pointers into it.
struct CollectiveSetup {
  const Topology* topology = nullptr;  ///< that it crosses; null without switches
  Communicator communicator;
  std::optional<Algorithm> algorithm;  ///< of all operations; nothing if they differ
  std::optional<Protocol> protocol;    ///< the same
  CollectiveJob job;
  std::vector<std::unique_ptr<CollectiveShape>> shapes;
  std::vector<std::unique_ptr<Plan>> plans;
  std::vector<JobOperation> operations;
  std::vector<uint64_t> sizes;     ///< bytes, by JobOperation::size; of a group all together
  std::vector<Duration> modelled;  ///< of each operation: the real ranks' view
  ModelKind model = ModelKind::kPlan;
  std::unique_ptr<InnerMessages> inner;  ///< null: what emulated ranks say takes times
};

/// Builds everything (`carried`: messages between emulated ranks go through the network, as flows
/// of CollectiveSetup::inner); `scheduled` overrides the job's entry mode, for a run in real time
/// cannot know the real node's. The first operation starts at time zero. Errors name file and line:
/// what NCCL would not carry out, and what cannot be done beside a real node.
Result<std::unique_ptr<CollectiveSetup>> build_collective(const Config& config,
                                                          const JobConfig& job, bool scheduled,
                                                          const Topology* topology = nullptr,
                                                          bool carried = false);

/// Why simulate cannot carry out one of the jobs beside the configuration's real node, with file
/// and line; empty if it can, or if there is none.
std::string why_not_simulated(const Config& config);

}  // namespace understudy
