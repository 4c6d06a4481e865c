// Largest counts that a configuration may ask for. A short text must not ask for unbounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace understudy {

inline constexpr int64_t kMostNics = 16;
inline constexpr int64_t kMostGpus = 64;
inline constexpr int64_t kMostChannels = 64;  ///< NCCL's MAXCHANNELS
/// Of one configuration, all [[node]] tables together; bounds the memory a short text can ask for.
inline constexpr size_t kMostNodes = 65'536;

/// TOML's integers have 63 bits, and the parser library reads the largest one for all beyond.
inline constexpr int64_t kLargestSeed = std::numeric_limits<int64_t>::max() - 1;

}  // namespace understudy
