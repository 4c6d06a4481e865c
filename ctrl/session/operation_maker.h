// From an operation that became known during a run to what its emulated ranks need of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/operation.h"
#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "dataplane/node/reactive_operation.h"

namespace understudy {

/// "all_reduce ring simple of 1048576 B", with its root if it has one.
std::string text_of(const Operation& operation);

/// Messages of one are those of the other.
bool same(const Operation& a, const Operation& b);

class OperationMaker {
 public:
  /// Without `strict` connections of an operation that the job has not are left out. All of it
  /// outlives this object and what it makes.
  OperationMaker(const Config& config, const JobConfig& job, const Topology* topology,
                 const CollectiveJob& told, bool strict);

  const Communicator& communicator() const { return communicator_; }
  /// An operation with its plan, or why the job cannot do it.
  Result<std::unique_ptr<ReactiveOperation>> make(const Operation& operation) const;

 private:
  const Config& config_;
  const JobConfig& job_;
  const Topology* topology_;
  const CollectiveJob& told_;
  const Communicator communicator_;
  const bool strict_;
};

}  // namespace understudy
