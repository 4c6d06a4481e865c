// How net_ib's credits and immediates stand on the wire in each release (docs/nccl 3.1, 3.2): the
// reference rank's own table.
#pragma once

#include <array>
#include <cstdint>

#include "tools/nccl_decode/layout.h"

namespace understudy::nccl_rank {

struct CreditLayout {
  int last;                              ///< release 2.x up to which it holds
  uint32_t bytes;                        ///< of an entry
  uint32_t slots;                        ///< of the FIFO
  uint32_t size_bytes;                   ///< of the size at 8; the address is at 0
  uint32_t rkey, receives, tag, number;  ///< offsets
  uint32_t stride() const { return 8 * bytes; }
};

inline constexpr std::array<CreditLayout, 5> kCreditLayouts = {{{18, 32, 64, 4, 12, 16, 20, 24},
                                                                {19, 32, 256, 4, 12, 16, 20, 24},
                                                                {23, 64, 256, 4, 12, 20, 24, 32},
                                                                {29, 64, 256, 8, 16, 32, 36, 40},
                                                                {30, 64, 256, 8, 16, 48, 52, 56}}};

inline const CreditLayout& credit_layout(nccl_decode::Release release) {
  for (const CreditLayout& layout : kCreditLayouts) {
    if (release.minor <= layout.last) return layout;
  }
  return kCreditLayouts.back();
}

inline constexpr uint32_t kMostFifoBytes = 256 * 512;

/// A size as it is handed to verbs, or comes from there; both ways. Verbs does not swap it.
inline uint32_t immediate(nccl_decode::Release release, uint32_t value) {
  return release.minor >= 29 ? __builtin_bswap32(value) : value;
}

}  // namespace understudy::nccl_rank
