// What an emulated rank contributes in `exact` mode: fp32 values derived from the seed, the rank
// and the element index alone, so that a verifier that knows the seed can recompute them.
#pragma once

#include <bit>
#include <cstdint>

namespace understudy {

/// One step of SplitMix64 (Steele, Lea, Flood 2014): a 64-bit mix with good avalanche.
constexpr uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Stream of one rank's contributions; cheap enough to call once per element.
class Pattern {
 public:
  constexpr Pattern(uint64_t seed, uint32_t rank)
      : key_(splitmix64(seed ^ (static_cast<uint64_t>(rank) << 32 | 0x5eed))) {}

  /// Element `i`: in (-2, 2), never 0, never an integer (the lowest mantissa bit is set), so that
  /// a sum in the wrong order or with a missing term shows in the bits.
  constexpr float at(uint64_t i) const {
    const uint64_t h = splitmix64(key_ + i);
    const uint32_t sign = static_cast<uint32_t>(h >> 63) << 31;
    const uint32_t exponent = (126u + static_cast<uint32_t>((h >> 62) & 1)) << 23;  // [0.5, 2)
    const uint32_t mantissa = (static_cast<uint32_t>(h) & 0x7fffff) | 1u;
    return std::bit_cast<float>(sign | exponent | mantissa);
  }

 private:
  uint64_t key_;
};

}  // namespace understudy
