// NCCL's profiler plugin of the environment, called as NCCL calls it: operations of ring_node, and of
// the tests' reference rank, are told as those of an NCCL process would be.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "dataplane/base/result.h"
#include "tools/nccl_profiler/profiler_interface.h"

namespace understudy {

class Profiler {
 public:
  /// Loads what NCCL_PROFILER_PLUGIN names, a path or what stands for "x" in
  /// libnccl-profiler-x.so; null if that is not set. For rank `rank` of `ranks` in the communicator
  /// with that hash.
  static Result<std::unique_ptr<Profiler>> load(uint64_t communicator, uint32_t rank,
                                                uint32_t ranks);
  /// The same of a job, the hash of whose name is that of its communicator: all of its ranks have
  /// the same.
  static Result<std::unique_ptr<Profiler>> load(const std::string& job, uint32_t rank,
                                                uint32_t ranks);
  ~Profiler();

  /// An all-reduce of so many float32 by ring and Simple begins.
  void start(uint64_t count, uint32_t channels);
  /// Operations of one kernel begin; `channels`: how many each uses, of collectives.
  void start(const Communicator& communicator, std::span<const Operation> operations,
             std::span<const uint32_t> channels);

 private:
  Profiler() = default;
  void tell(const Operation& operation, uint32_t channels, void* group);
  void tell_pairs(const Communicator& communicator, const Operation& operation, void* group);
  void tell(nccl::EventV5& event);

  void* library_ = nullptr;
  nccl::TableV5* table_ = nullptr;
  void* context_ = nullptr;
  bool wanted_ = false, pairs_wanted_ = false;  ///< it asked for collectives, sends and receives
  int rank_ = 0;
  std::map<Collective, uint64_t> sequences_;
};

}  // namespace understudy
