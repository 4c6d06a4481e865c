// From operations that became known during a run to what their emulated ranks need of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/online_operation.h"

namespace understudy {

/// What one kernel carries out, which is one operation of a job: one collective, several of a group
/// in the order in which NCCL takes them, or all sends and receives of a group.
using Kernel = std::vector<Operation>;

/// "all_reduce ring simple of 1048576 B", with its root if it has one; of a group one after
/// another.
std::string text_of(const Operation& operation);
std::string text_of(const Kernel& kernel);

/// Messages of one are those of the other.
bool same(const Operation& a, const Operation& b);
bool same(const Kernel& a, const Kernel& b);

class OperationMaker {
 public:
  /// Without `strict` connections of operations that the job has not are left out. All of it
  /// outlives this object and what it makes.
  OperationMaker(const Config& config, const JobConfig& job, const Topology* topology,
                 const CollectiveJob& told, bool strict);

  const Communicator& communicator() const { return communicator_; }
  /// A kernel with its plan, or why the job cannot do it.
  Result<std::unique_ptr<OnlineOperation>> make(const Kernel& kernel) const;
  /// What it takes where nothing but the model delays it, and it follows no other one. Errors: as
  /// make().
  Result<Duration> modelled(const Kernel& kernel) const;

 private:
  Result<PlanInput> plan_of(const Kernel& kernel) const;
  tl::unexpected<Error> no_connection(const Connection& connection) const;

  const Config& config_;
  const JobConfig& job_;
  const Topology* topology_;
  const CollectiveJob& told_;
  const Communicator communicator_;
  const bool strict_;
  /// By channel, index, real rank, far rank, and whether the real one sends.
  std::map<std::tuple<uint32_t, uint8_t, uint32_t, uint32_t, bool>, uint32_t> links_;
  /// By channel, index, sender and receiver: of CollectiveJob::inner.
  std::map<std::tuple<uint32_t, uint8_t, uint32_t, uint32_t>, uint32_t> inner_;
};

}  // namespace understudy
