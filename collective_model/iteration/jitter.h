// Entries that vary from operation to operation: drawn from a distribution, the same for the same
// seed, whatever order they are asked for in.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"

namespace understudy {

struct Jitter {
  enum class Kind : uint8_t {
    kUniform,      ///< from `low` to `high`
    kNormal,       ///< of mean `low` and standard deviation `high`; below 0: 0
    kExponential,  ///< of mean `low`
    kLognormal,    ///< of median `low`; its logarithm has the standard deviation `sigma`
  };
  Kind kind = Kind::kUniform;
  Duration low, high;
  double sigma = 0;

  static constexpr Duration most() { return Duration::s(3600); }  ///< what is longer is cut
};

/// Number `number` of the sequence `stream` of `seed`, rounded to picoseconds. splitmix64 makes two
/// 64-bit words of the three numbers, their upper 53 bits two numbers of (0, 1); the inverse of the
/// exponential distribution and Box and Muller's cosine branch make the rest of them, with the C
/// library's log, exp and cos.
Duration draw(const Jitter& jitter, uint64_t seed, uint64_t stream, uint64_t number);

}  // namespace understudy
