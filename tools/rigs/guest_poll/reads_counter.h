// Whether an RDTSC instruction stands at a place of an x86-64 program's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace guest_poll {

/// "mov %eax,%..." or, of register 2, "mov %edx,%..."
inline bool moves(const uint8_t* at, unsigned from) {
  return at[0] == 0x89 && (at[1] & 0xc0) == 0xc0 && (at[1] >> 3 & 7) == from;
}

/// Whether a call or jump (E8, E9, 0F 8x) before `at` has the two bytes there in its distance, which
/// leads to somewhere between `first` and `end`.
inline bool in_distance(const uint8_t* first, const uint8_t* at, const uint8_t* end) {
  constexpr ptrdiff_t kDistance = sizeof(int32_t);
  for (ptrdiff_t before = 1; before < kDistance && at - first >= before; ++before) {
    const uint8_t* const code = at - before;
    const bool far_jump = code > first && code[-1] == 0x0f && (code[0] & 0xf0) == 0x80;
    if (code[0] != 0xe8 && code[0] != 0xe9 && !far_jump) continue;
    if (end - code < 1 + kDistance) continue;
    int32_t distance = 0;
    std::memcpy(&distance, code + 1, sizeof distance);
    const ptrdiff_t target = code + 1 + kDistance - first + distance;
    if (target >= 0 && target < end - first) return true;
  }
  return false;
}

/// `first` and `end`: of the text. Two bytes alone may be part of something else: a compiler takes
/// the counter's halves out of EAX and EDX not far behind.
inline bool reads_counter(const uint8_t* first, const uint8_t* at, const uint8_t* end) {
  constexpr uint8_t kReadCounter[] = {0x0f, 0x31};
  constexpr size_t kFar = 28;
  constexpr uint8_t kShift[] = {0x48, 0xc1, 0xe2, 0x20}, kOr[] = {0x48, 0x09, 0xd0};
  if (std::memcmp(at, kReadCounter, sizeof kReadCounter) != 0) return false;
  bool low = false, high = false;
  for (const uint8_t* p = at + 2; p < at + kFar && p + sizeof kShift <= end; ++p) {
    low = low || moves(p, 0) || std::memcmp(p, kOr, sizeof kOr) == 0;
    high = high || moves(p, 2) || std::memcmp(p, kShift, sizeof kShift) == 0;
  }
  return low && high && !in_distance(first, at, end);
}

}  // namespace guest_poll
