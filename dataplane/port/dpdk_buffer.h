// How a frame stands in one of DPDK's buffers.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "dataplane/engine/state/io.h"

namespace understudy {

inline std::span<const uint8_t> frame_in(const rte_mbuf* buffer) {
  return {rte_pktmbuf_mtod(buffer, const uint8_t*), buffer->pkt_len};
}

/// As TxSink::reserve(); each buffer remembers what is zeros in it. Null: they do not fit.
inline uint8_t* room_in(rte_mbuf* buffer, uint32_t bytes) {
  static_cast<ZerosKept*>(rte_mbuf_to_priv(buffer))->forget();
  rte_pktmbuf_reset_headroom(buffer);
  return bytes <= rte_pktmbuf_tailroom(buffer) ? rte_pktmbuf_mtod(buffer, uint8_t*) : nullptr;
}

inline constexpr uint32_t kMostHeadBeforeZeros = RTE_PKTMBUF_HEADROOM;

/// As TxSink::reserve_zeros(), of a head of at most kMostHeadBeforeZeros. The zeros are in the same
/// place of each buffer, whatever stands before them.
inline uint8_t* room_with_zeros_in(rte_mbuf* buffer, uint32_t head, uint32_t zeros, uint32_t tail) {
  constexpr uint32_t kZerosAt = 2 * RTE_PKTMBUF_HEADROOM;
  if (kZerosAt + zeros + tail > buffer->buf_len) return nullptr;
  auto* const bytes = static_cast<uint8_t*>(buffer->buf_addr);
  static_cast<ZerosKept*>(rte_mbuf_to_priv(buffer))->want(bytes + kZerosAt, zeros);
  buffer->data_off = static_cast<uint16_t>(kZerosAt - head);
  return bytes + kZerosAt - head;
}

}  // namespace understudy
