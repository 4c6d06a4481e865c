#include "collective_model/iteration/jitter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

/// In (0, 1): the middle of one of 2^53 parts.
double unit(uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53; }

}  // namespace

Duration draw(const Jitter& jitter, uint64_t seed, uint64_t stream, uint64_t number) {
  const uint64_t key = splitmix64(splitmix64(splitmix64(seed) ^ stream) ^ number);
  const double a = unit(splitmix64(key)), b = unit(splitmix64(key + 1));
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(a)) * std::cos(2 * std::numbers::pi * b);
  };
  const auto low = static_cast<double>(jitter.low.ps());
  const auto high = static_cast<double>(jitter.high.ps());
  double drawn = 0;
  switch (jitter.kind) {
    case Jitter::Kind::kUniform:
      drawn = low + (high - low) * a;
      break;
    case Jitter::Kind::kNormal:
      drawn = low + high * normal();
      break;
    case Jitter::Kind::kExponential:
      drawn = -low * std::log(a);
      break;
    case Jitter::Kind::kLognormal:
      drawn = low * std::exp(jitter.sigma * normal());
      break;
  }
  const auto most = static_cast<double>(Jitter::most().ps());
  return Duration::ps(std::llround(std::clamp(drawn, 0.0, most)));
}

}  // namespace understudy
