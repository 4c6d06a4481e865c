// Random draws of a network: each is a function of the seed, of what is drawn, of the link, the
// class and the packet's number on that link. What unrelated links do, and when, changes none.
#pragma once

#include <cstdint>

#include "dataplane/base/pattern.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

enum class DrawKind : uint8_t {
  kMark,  ///< a switch marks a packet that leaves a queue
  kLoss,  ///< a link loses a packet
};

/// True with this probability, independently for every set of arguments. `number`: of the packet
/// among those of all classes on the link, in their order.
constexpr bool keyed_draw(uint64_t seed, DrawKind kind, LinkId link, unsigned cls, uint64_t number,
                          double probability) {
  const uint64_t what = static_cast<uint64_t>(kind) << 40 | uint64_t{cls} << 32 | link;
  const uint64_t bits = splitmix64(splitmix64(splitmix64(seed) ^ what) + number);
  constexpr unsigned kMantissa = 53;
  return static_cast<double>(bits >> (64 - kMantissa)) * 0x1p-53 < probability;
}

}  // namespace understudy
