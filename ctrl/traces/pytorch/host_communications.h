// Which communications a host trace has: several nodes speak of the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ctrl/traces/pytorch/host_trace.h"

namespace understudy {

struct HostCommunication {
  uint32_t node = 0;             ///< place of what was called: outermost of the nodes
  std::optional<uint32_t> mark;  ///< place of the back end's node
  HostCall what;                 ///< with what all its nodes say; the group is a name
  /// DistributedDataParallel reduces a bucket while gradients become ready: it was called below a node
  /// AccumulateGrad.
  bool is_bucket = false;
};

/// By their nodes. A call c10d::allreduce_, the record_param_comms below it, and the mark gloo: or nccl:
/// below it or beside it (which of these is a race between threads) are one; beside it, a mark is of the
/// first call of the same collective and tensor that has none. Waits are none.
std::vector<HostCommunication> communications_of(const HostTrace& trace);

/// Each communication and what is below it, by node: its place in the list above, or none.
std::vector<std::optional<uint32_t>> communication_by_node(
    const HostTrace& trace, const std::vector<HostCommunication>& communications);

}  // namespace understudy
