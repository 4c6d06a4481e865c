// What a reference rank's program does with GIN (docs/nccl 3.16), as kernels ask for it: barriers,
// puts with signals, gets.
#pragma once

#include "tests/rigs/nccl_rank/gin_proxy.h"

namespace understudy::nccl_rank {

/// Of a block in an exchange with all peers on each context; of a put to one.
inline constexpr uint64_t kGinBlockBytes = 2000, kGinPutBytes = 3000;

/// All that it finds is right, or it refuses. `exact`: emulated ranks keep contents; else these are
/// zeros. `window_first`: a window is registered before GIN connects, else after. Up to ten ranks.
Task<> gin_program(RealRank& rank, RmaProxy& proxy, GinProxy& gin, bool exact, bool window_first);

}  // namespace understudy::nccl_rank
