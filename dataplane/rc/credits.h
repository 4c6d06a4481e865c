// End-to-end credits of the AETH: how many messages that take a receive may follow (rule A5.10).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dataplane/wire/opcodes.h"

namespace understudy {

/// Receives that each credit code stands for; code 31 (kNoCredits) is "no limit".
inline constexpr std::array<uint32_t, 31> kCreditsOfCode = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The largest code that promises no more than `receives`.
constexpr uint8_t credit_code(uint64_t receives) {
  const auto above = std::upper_bound(kCreditsOfCode.begin(), kCreditsOfCode.end(), receives);
  return static_cast<uint8_t>(above - kCreditsOfCode.begin() - 1);
}

}  // namespace understudy
