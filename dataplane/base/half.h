// float16, bfloat16 and both kinds of float8 as bits, rounded to the nearest, ties to the even one.
#pragma once

#include <bit>
#include <cstdint>

namespace understudy {

struct Bfloat16 {
  uint16_t bits = 0;
  constexpr float value() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static constexpr Bfloat16 of(float v) {
    const uint32_t x = std::bit_cast<uint32_t>(v);
    if ((x & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>(x >> 16 | 0x40)};
    return {static_cast<uint16_t>((x + 0x7fff + (x >> 16 & 1)) >> 16)};
  }
};

struct Float16 {
  uint16_t bits = 0;
  constexpr float value() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
    if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
    const float small = static_cast<float>(magnitude) * 0x1p-24F;
    return sign == 0 ? small : -small;
  }
  static constexpr Float16 of(float v) {
    const uint32_t x = std::bit_cast<uint32_t>(v);
    const auto sign = static_cast<uint16_t>(x >> 16 & 0x8000);
    const uint32_t magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
    if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // 65520 and more
    if (magnitude >= 0x38800000) {
      const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
      return {static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
    }
    // Below the smallest normal number: whole multiples of 2^-24.
    if (magnitude < 0x33000000) return {sign};
    const uint32_t exponent = magnitude >> 23, mantissa = (magnitude & 0x7fffff) | 0x800000;
    const uint32_t shift = 126 - exponent;  // 14 to 24
    const uint32_t whole = mantissa >> shift, rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t up = rest > half || (rest == half && (whole & 1) != 0) ? 1 : 0;
    return {static_cast<uint16_t>(sign | (whole + up))};
  }
};

/// E4M3 (three bits of mantissa, no infinity) or E5M2 (two). What is too large becomes the largest
/// finite value, as CUDA converts.
template <uint32_t kMantissa>
struct Float8 {
  static constexpr uint32_t kBias = kMantissa == 3 ? 7 : 15;
  static constexpr uint32_t kLargest = kMantissa == 3 ? 0x7e : 0x7b;

  uint8_t bits = 0;
  /// Of a finite one.
  constexpr float value() const {
    const uint32_t exponent = (bits & 0x7fu) >> kMantissa;
    const uint32_t mantissa = bits & ((1u << kMantissa) - 1);
    const auto power = [](uint32_t biased) { return std::bit_cast<float>(biased << 23); };
    const float unit = power(127 - kBias + (exponent == 0 ? 1 : exponent) - kMantissa);
    const float magnitude =
        static_cast<float>(exponent == 0 ? mantissa : mantissa + (1u << kMantissa)) * unit;
    return (bits & 0x80u) != 0 ? -magnitude : magnitude;
  }
  static constexpr Float8 of(float v) {
    constexpr uint32_t kLost = 23 - kMantissa, kRebias = (127 - kBias) << 23;
    const uint32_t x = std::bit_cast<uint32_t>(v), sign = x >> 24 & 0x80,
                   magnitude = x & 0x7fffffff;
    uint32_t rounded = 0;
    if (magnitude >= kRebias + (1u << 23)) {
      rounded = (magnitude + (1u << (kLost - 1)) - 1 + (magnitude >> kLost & 1) - kRebias) >> kLost;
    } else {
      // Whole multiples of the smallest one.
      const float units = std::bit_cast<float>(magnitude) *
                          std::bit_cast<float>((127 + kBias - 1 + kMantissa) << 23);
      rounded = static_cast<uint32_t>(units);
      const float rest = units - static_cast<float>(rounded);
      if (rest > 0.5F || (rest == 0.5F && (rounded & 1) != 0)) ++rounded;
    }
    return {static_cast<uint8_t>(sign | (rounded < kLargest ? rounded : kLargest))};
  }
};
using Float8E4m3 = Float8<3>;
using Float8E5m2 = Float8<2>;

}  // namespace understudy
