// Integers as they stand on the wire: big-endian, unaligned, not mixable with host integers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace understudy {

/// Big-endian unsigned integer of N bytes in a packed header. T is the host type that holds it.
template <typename T, size_t N>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  constexpr BigEndian(T v) { set(v); }  // NOLINT(google-explicit-constructor): header fields
  constexpr T get() const {
    if constexpr (N == sizeof(T)) {
      if (!std::is_constant_evaluated()) {
        T v;
        std::memcpy(&v, bytes_, N);
        return swapped(v);
      }
    }
    T v = 0;
    for (size_t i = 0; i < N; ++i) v = static_cast<T>(static_cast<T>(v << 8) | bytes_[i]);
    return v;
  }
  constexpr void set(T v) {
    if constexpr (N == sizeof(T)) {
      if (!std::is_constant_evaluated()) {
        v = swapped(v);
        std::memcpy(bytes_, &v, N);
        return;
      }
    }
    for (size_t i = N; i-- > 0;) {
      bytes_[i] = static_cast<uint8_t>(v & 0xff);
      v = static_cast<T>(v >> 8);
    }
  }

 private:
  /// One instruction where the loops below are one for each byte.
  static T swapped(T v) {
    if constexpr (std::endian::native == std::endian::big) {
      return v;
    } else if constexpr (N == 2) {
      return __builtin_bswap16(v);
    } else if constexpr (N == 4) {
      return __builtin_bswap32(v);
    } else {
      return __builtin_bswap64(v);
    }
  }

  uint8_t bytes_[N] = {};
};

// One byte shifts by its own width are avoided by never instantiating N == 1.
using Be16 = BigEndian<uint16_t, 2>;
using Be24 = BigEndian<uint32_t, 3>;
using Be32 = BigEndian<uint32_t, 4>;
using Be64 = BigEndian<uint64_t, 8>;
static_assert(sizeof(Be16) == 2 && sizeof(Be24) == 3 && sizeof(Be32) == 4 && sizeof(Be64) == 8);
static_assert(alignof(Be64) == 1, "headers are unaligned on the wire");

}  // namespace understudy
