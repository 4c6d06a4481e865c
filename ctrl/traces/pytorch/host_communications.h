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

/// By their nodes. A call c10d::allreduce_, the record_param_comms below it, and the back end's mark gloo:
/// or nccl: are one. Gloo's threads put their marks anywhere: PyTorch takes what the calling thread does
/// at that moment for the caller, and forgets one of its calls when the mark ends. So such a mark is of the call
/// around it if that is of the same collective and tensor, else of the first such call before it that has
/// no mark; and a call within another is one of its own. Waits are none.
std::vector<HostCommunication> communications_of(const HostTrace& trace);

/// Each communication and what is below it, by node: its place in the list above, or none.
std::vector<std::optional<uint32_t>> communication_by_node(
    const HostTrace& trace, const std::vector<HostCommunication>& communications);

}  // namespace understudy
