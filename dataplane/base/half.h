// float16 and bfloat16 as bits, rounded to the nearest, ties to the even one.
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

}  // namespace understudy
