// Checks of a PlanInput that several evaluators need; each failure names the field.
#pragma once

#include <cstdint>

#include "collective_model/plan/operation_plan.h"

namespace understudy {

/// The numbers of `config` fit an operation of so many ranks.
Result<void> check_plan_input(const PlanInput& config, uint32_t ranks);
/// The same, and there are the hops that evaluators without lists of connections want.
Result<void> check_pair_plan_input(const PlanInput& config, uint32_t ranks);
/// The failure of a node whose ranks `a` and `b` are not both real or both emulated.
tl::unexpected<Error> mixed_node(uint32_t a, uint32_t b);

}  // namespace understudy
