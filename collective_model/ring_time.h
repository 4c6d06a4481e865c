// How long a ring all-reduce takes on one channel when nothing but the model delays it.
#pragma once

#include <cstdint>

#include "collective_model/plan.h"
#include "dataplane/base/units.h"

namespace understudy {

/// From the operation's entry until `rank` completes its part, with every rank of the plan taken as
/// emulated (its entry delays count). Exact; costs one step of the recurrence per message.
Duration modelled_time(const RingPlan& plan, uint32_t rank);

/// The same for uniform ranks without entry delays, in O(loops): the sum over loops of
///   (J-1) * max(c/B, s/B + alpha) + c/B + alpha
/// with J = 2(n-1), c the loop's chunk, s its first slice, alpha the latency + step cost and B the
/// hop's rate times payload over wire bytes of a packet that is full.
Duration closed_form_time(const RingSchedule& schedule, const RingHop& hop, const WireCost& wire,
                          Duration step_cost);

}  // namespace understudy
