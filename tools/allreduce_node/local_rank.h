// One real rank: its GPU, its buffers and its place in the communicator.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "tools/allreduce_node/options.h"
#include "tools/allreduce_node/values.h"

namespace understudy {

class LocalRank {
 public:
  /// Takes the device, then joins the communicator: returns when all its ranks have.
  static Result<std::unique_ptr<LocalRank>> join(const NodeOptions& options, uint32_t rank,
                                                 int device, const ncclUniqueId& id,
                                                 uint64_t buffer_bytes);
  ~LocalRank();
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;

  uint32_t rank() const { return rank_; }
  const std::string& device_name() const { return device_name_; }

  /// Values for the next operations of this shape.
  Result<void> prepare(const Shape& shape, bool in_place, const RankValues* values);
  /// `times` operations; returns the microseconds of one, of them all together.
  Result<double> run(const Shape& shape, bool in_place, uint32_t times);
  /// Of the last operation's result.
  Result<RankValues::Difference> check(const Shape& shape, bool in_place, const RankValues& values);
  /// Leaves the communicator in good order.
  Result<void> leave();

 private:
  LocalRank(const NodeOptions& options, uint32_t rank) : options_(options), rank_(rank) {}
  Result<void> await_stream();
  OperationBuffers buffers(const Shape& shape, bool in_place) const;

  const NodeOptions& options_;
  uint32_t rank_;
  std::string device_name_;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* first_ = nullptr;
  void* second_ = nullptr;
};

}  // namespace understudy
