// Jobs on child communicators: ranks of another job that ncclCommSplit, ncclCommShrink or PyTorch's
// new_group() makes a communicator of.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"

namespace understudy {

struct Config;
struct JobConfig;

struct ChildConfig {
  uint32_t job = 0;               ///< the one with join, by position
  std::vector<uint32_t> members;  ///< its ranks there, in the order of their ranks in the child
  /// Of the first child of each [[job]]: all that its members mean, of emulated ranks only too.
  std::vector<std::vector<uint32_t>> split;
  uint32_t nics = 1;        ///< of a node that its ranks take
  uint32_t nic_stride = 1;  ///< from the first number of one to that of the next
};

/// Where ranks of a job are, as a job of their own has it.
struct ChildPlace {
  std::vector<NodeId> nodes;
  uint32_t gpus = 1;                  ///< ranks on each of them
  unsigned nic = 0;                   ///< of the first one
  uint32_t nics = 1, nic_stride = 1;  ///< as ChildConfig's
};

/// Of `members` of `job`. Error: they are not the same GPUs of each of their nodes, node by node and
/// in ascending order, or the NICs of these GPUs are not evenly apart.
Result<ChildPlace> child_place(const Config& config, const JobConfig& job,
                               const std::vector<uint32_t>& members);

/// The job's messages may meet those of another communicator of the same ranks: it has children, or
/// is one.
bool has_relatives(const Config& config, const JobConfig& job);

}  // namespace understudy
