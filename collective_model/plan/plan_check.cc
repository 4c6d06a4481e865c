#include "collective_model/plan/plan_check.h"

#include <string>

namespace understudy {

Result<void> check_plan_input(const PlanInput& config, uint32_t ranks) {
  for (const uint32_t rank : config.real) {
    if (rank < ranks) continue;
    return fail("plan: real: rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
  if (!config.entry_delay.empty() && config.entry_delay.size() != ranks) {
    return fail("plan: entry_delay: " + std::to_string(config.entry_delay.size()) + " given for " +
                std::to_string(ranks) + " ranks");
  }
  if (config.wire.mtu == 0) return fail("plan: wire.mtu: must not be 0");
  return {};
}

Result<void> check_pair_plan_input(const PlanInput& config, uint32_t ranks) {
  if (auto fits = check_plan_input(config, ranks); !fits) return fits;
  if (config.pair_hops == nullptr) return fail("plan: pair_hops: missing");
  return {};
}

tl::unexpected<Error> mixed_node(uint32_t a, uint32_t b) {
  return fail("plan: real: ranks " + std::to_string(a) + " and " + std::to_string(b) +
              " share a node, and one of them is not real");
}

}  // namespace understudy
