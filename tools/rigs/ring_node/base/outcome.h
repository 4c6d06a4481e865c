// What operations came to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy {

/// What came out of all operations of one size.
struct SizeOutcome {
  uint64_t bytes = 0;
  std::vector<uint64_t> times_ns;  ///< of the timed iterations
  std::optional<uint64_t> wrong;   ///< elements over all iterations; nothing if not verified
  std::string first_wrong;         ///< the first of these, for the user; empty if there is none
  bool perturbation_seen = true;   ///< false: --perturb changed another result element, or more
};

}  // namespace understudy
