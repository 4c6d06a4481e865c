// Largest counts that a configuration may ask for. A short text must not ask for unbounded memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace understudy {

inline constexpr int64_t kMostNics = 16;
inline constexpr int64_t kMostGpus = 64;
inline constexpr int64_t kMostChannels = 64;  ///< NCCL's MAXCHANNELS
/// Of one configuration, all [[node]] tables together; bounds the memory a short text can ask for.
inline constexpr size_t kMostNodes = 65'536;

}  // namespace understudy
