// NCCL's profiler plugin of the environment, called as NCCL calls it: ring_node's operations are
// told as those of an NCCL process would be.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/base/result.h"
#include "tools/nccl_profiler/profiler_interface.h"

namespace understudy {

class Profiler {
 public:
  /// Loads what NCCL_PROFILER_PLUGIN names, a path or what stands for "x" in
  /// libnccl-profiler-x.so; null if that is not set. For rank `rank` of `ranks` in a communicator
  /// of that hash.
  static Result<std::unique_ptr<Profiler>> load(uint64_t communicator, uint32_t rank,
                                                uint32_t ranks);
  ~Profiler();

  /// An all-reduce of so many float32 by ring and Simple begins.
  void start(uint64_t count, uint32_t channels);

 private:
  Profiler() = default;

  void* library_ = nullptr;
  nccl::TableV5* table_ = nullptr;
  void* context_ = nullptr;
  bool wanted_ = false;  ///< it asked for collectives
  int rank_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace understudy
