// What the device offers at most.
#pragma once

#include <cstdint>

namespace understudy::soft_nic {

inline constexpr int kMaxQpWork = 16384;
inline constexpr int kMaxPieces = 30;
inline constexpr uint32_t kMaxInline = 1024;
inline constexpr int kMaxCqEntries = 1 << 20;
inline constexpr int kMaxReads = 128;  ///< outstanding READs and ATOMICs of a queue pair

}  // namespace understudy::soft_nic
