// Which drills can hold: what is expected of them against what the configuration lets happen.
#pragma once

#include "ctrl/compile/scenario.h"

namespace understudy {

/// NCCL_IB_TIMEOUT's default: 20 since 2.23, 18 before (docs/nccl appendix H).
uint8_t nccl_ib_timeout(NcclVersion version);
/// So long a queue pair hears nothing until it gives up: its retries and the first try, a timeout
/// of 4.096 us * 2^timeout each.
Duration gives_up_after(uint8_t timeout, unsigned retries);

/// Error, with the place in the file: a drill that nobody could judge, or that cannot pass.
Result<void> check_drills(const Scenario& scenario);

}  // namespace understudy
