// The step counter of one of NCCL's connections for collectives, as both its ends keep it
// (docs/nccl 3.7, 3.8): which protocol a message belongs to is told by its credit's capacity, where
// in that protocol's buffer it lies by the counter, and LL and LL128 data carry it as their flag.
#pragma once

#include <cstdint>

#include "dataplane/rc/memory.h"

namespace understudy {

/// Buffers of one connection, all eight steps: NCCL_BUFFSIZE and its like.
struct NcclBuffers {
  uint32_t simple = 4 * 1024 * 1024;
  uint32_t ll = 512 * 1024;
  uint32_t ll128 = 4'915'200;
};

/// What a credit's capacity says of its message.
enum class CreditKind : uint8_t {
  kLL,
  kLL128,
  kSimpleStep,   ///< Simple, a step at a time: broadcast, reduce, tree, PAT
  kSimpleSlice,  ///< Simple, two steps at a time, chunks of four: the rings
  kOther         ///< none of NCCL's own buffers: user memory that was registered
};
CreditKind credit_kind(uint64_t capacity, const NcclBuffers& buffers);

class NcclSteps {
 public:
  struct Place {
    CreditKind kind = CreditKind::kOther;
    uint64_t step = 0;    ///< of the connection
    uint32_t offset = 0;  ///< in the protocol's buffer
    uint64_t flag() const { return step + 1; }
  };

  /// Where the next message of the connection stands. Counts no steps for kOther.
  Place next(uint64_t capacity, const NcclBuffers& buffers);

 private:
  uint64_t step_ = 0;
  CreditKind last_ = CreditKind::kOther;
};

/// Data of a message there: zeros, in LL's and LL128's lines with the flags that the receiving
/// kernel looks for.
PayloadRef flag_lines(const NcclSteps::Place& place);

}  // namespace understudy
