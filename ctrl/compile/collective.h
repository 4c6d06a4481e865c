// From a job of the configuration to its plans: operations, their schedules, the connections
// between real and emulated ranks, model times.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/nccl/communicator.h"
#include "ctrl/config/config.h"
#include "ctrl/schedule/job_work.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/collective_job.h"

namespace understudy {

/// A job's plan, which does not change while it runs. Does not move: shards hold pointers into it.
struct CollectiveSetup {
  const Topology* topology = nullptr;  ///< that it crosses; null without switches
  Communicator communicator;
  std::optional<Algorithm> algorithm;  ///< of all operations; nothing if they differ
  std::optional<Protocol> protocol;    ///< the same
  CollectiveJob job;
  std::vector<std::unique_ptr<CollectiveShape>> shapes;
  std::vector<PlanInput> inputs;  ///< of plans, by shape
  std::vector<JobOperation> operations;
  std::vector<uint64_t> sizes;  ///< bytes, by JobOperation::size; of a group all together
  std::vector<std::vector<Operation>> kinds;  ///< the same; several are a group
  bool carried = false;                       ///< what emulated ranks say crosses the network ...
  std::vector<InnerConnection> inner;         ///< ... by these, as CollectiveJob::inner
  PacketLevelRanksSettings inner_settings;
  bool plan_holds = true;  ///< the plan's times are those of packets (inner_way.h)
  /// Messages between emulated ranks take times that packets do not have.
  bool is_doubtful() const { return !carried && !plan_holds; }
};

/// Builds everything (`carried`: messages between emulated ranks go through the network, by
/// CollectiveSetup::inner); `scheduled` overrides the job's entry mode, for a run in real time
/// cannot know the real node's. The first operation starts at time zero. Errors name file and line:
/// what NCCL would not carry out, and what cannot be done beside a real node. `former`: the job's
/// plan for other trees, whose numbers of connections between emulated ranks hold.
Result<std::unique_ptr<CollectiveSetup>> build_collective(const Config& config,
                                                          const JobConfig& job, bool scheduled,
                                                          const Topology* topology = nullptr,
                                                          bool carried = false,
                                                          const CollectiveSetup* former = nullptr);

}  // namespace understudy
