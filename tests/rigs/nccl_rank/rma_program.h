// What a reference rank's program does with one-sided operations (docs/nccl 3.16): windows,
// zero-SM collectives, a put with a signal, gets.
#pragma once

#include "tests/rigs/nccl_rank/rma_proxy.h"

namespace understudy::nccl_rank {

/// Of each rank's slice in an all-gather, which is done twice; of a block in an all-to-all; of a put.
inline constexpr uint64_t kRmaSliceBytes = 5000, kRmaBlockBytes = 1000, kRmaPutBytes = 3000;

/// What an emulated rank's window holds at first, if contents are kept.
uint8_t first_content(int rank, uint64_t place);

/// All that it finds is right, or it refuses. In 2.29 without gets, and its collectives are the
/// program's own, of signals and puts. `exact`: emulated ranks keep contents; else these are
/// zeros. Up to ten ranks.
Task<> rma_program(RealRank& rank, RmaProxy& proxy, bool exact);

}  // namespace understudy::nccl_rank
