// What an emulated rank contributes in `exact` mode: values derived from the seed, the rank and the
// element index alone, so that a verifier that knows the seed can recompute them.
//
// Floating-point elements have a magnitude in [0.5, 2) and the lowest bit of their mantissa set, so
// that a reduction in the wrong order or with a missing term shows in the bits. Whole numbers have
// any bits, but the lowest one set: no product of them is 0. Products of float16 by more than some
// hundred ranks are mostly infinite: they show little.
#pragma once

#include <bit>
#include <cstdint>

#include "dataplane/base/half.h"

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

  /// Of a float64.
  constexpr double double_at(uint64_t i) const {
    const uint64_t h = splitmix64(key_ + i);
    const uint64_t exponent = (1022 + (h >> 62 & 1)) << 52;
    return std::bit_cast<double>((h & kSign) | exponent | (h & 0xfffffffffffff) | 1);
  }
  constexpr Float16 float16_at(uint64_t i) const {
    const uint64_t h = splitmix64(key_ + i);
    return {static_cast<uint16_t>((h >> 63) << 15 | (14 + (h >> 62 & 1)) << 10 | (h & 0x3ff) | 1)};
  }
  constexpr Bfloat16 bfloat16_at(uint64_t i) const {
    const uint64_t h = splitmix64(key_ + i);
    return {static_cast<uint16_t>((h >> 63) << 15 | (126 + (h >> 62 & 1)) << 7 | (h & 0x7f) | 1)};
  }
  template <uint32_t kMantissa>
  constexpr Float8<kMantissa> float8_at(uint64_t i) const {
    const uint64_t h = splitmix64(key_ + i), mask = (1u << kMantissa) - 1;
    const uint64_t exponent = Float8<kMantissa>::kBias - 1 + (h >> 62 & 1);
    return {static_cast<uint8_t>((h >> 63) << 7 | exponent << kMantissa | (h & mask) | 1)};
  }
  /// Its lowest bits are those of a whole number of any size.
  constexpr uint64_t bits_at(uint64_t i) const { return splitmix64(key_ + i) | 1; }

 private:
  static constexpr uint64_t kSign = uint64_t{1} << 63;
  uint64_t key_;
};

}  // namespace understudy
