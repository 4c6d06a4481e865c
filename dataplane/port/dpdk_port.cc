// The packet path; opening and closing is in dpdk_open.cc.
// rte_eth_read_clock() is not of DPDK 22.11's stable interface (see meson.build).
#include "dataplane/port/dpdk_port.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>

#include "dataplane/port/dpdk_buffer.h"

namespace understudy {
namespace {

constexpr Duration kPatience = Duration::ms(100);

}  // namespace

std::span<const std::span<const uint8_t>> DpdkPort::rx() {
  if (received_ != 0) rte_pktmbuf_free_bulk(rx_mbufs_.data(), received_);
  received_ = receive_buffers(rx_mbufs_);
  for (uint32_t i = 0; i < received_; ++i) frames_[i] = frame_in(rx_mbufs_[i]);
  return {frames_.data(), received_};
}

uint32_t DpdkPort::receive_buffers(std::span<rte_mbuf*, kRxBurst> buffers) {
  const uint32_t received = rte_eth_rx_burst(id_, 0, buffers.data(), kRxBurst);
  uint32_t n = 0;
  for (uint32_t i = 0; i < received; ++i) {
    rte_mbuf* mbuf = buffers[i];
    // A buffer holds any frame in one piece; some drivers cut frames nevertheless.
    if (mbuf->nb_segs > 1 && rte_pktmbuf_linearize(mbuf) != 0) {
      ++rx_counted_.rx_unreadable;
      rte_pktmbuf_free(mbuf);
      continue;
    }
    buffers[n++] = mbuf;
    rx_counted_.rx_bytes += mbuf->pkt_len;
  }
  rx_counted_.rx_frames += n;
  return n;
}

rte_mbuf* DpdkPort::empty_buffer() {
  rte_mbuf* const mbuf = rte_pktmbuf_alloc(tx_pool_);
  if (mbuf == nullptr) ++tx_counted_.tx_no_buffer;
  return mbuf;
}

bool DpdkPort::have_buffer() {
  if (!takes_more()) return false;
  if (reserved_ == nullptr) reserved_ = empty_buffer();
  return reserved_ != nullptr;
}

uint8_t* DpdkPort::reserve(uint32_t bytes) {
  return have_buffer() ? room_in(reserved_, bytes) : nullptr;
}

uint8_t* DpdkPort::reserve_zeros(uint32_t head, uint32_t zeros, uint32_t tail) {
  if (head > kMostHeadBeforeZeros) return TxSink::reserve_zeros(head, zeros, tail);
  return have_buffer() ? room_with_zeros_in(reserved_, head, zeros, tail) : nullptr;
}

void DpdkPort::commit(uint32_t bytes, Time scheduled) {
  add(reserved_, bytes, scheduled);
  reserved_ = nullptr;
}

void DpdkPort::add(rte_mbuf* buffer, uint32_t bytes, Time scheduled) {
  buffer->data_len = static_cast<uint16_t>(bytes);
  buffer->pkt_len = bytes;
  scheduled_[pending_] = scheduled;
  tx_mbufs_[pending_++] = buffer;
}

/// Until it has been read twice, and if it cannot be, frames leave when they are due.
void DpdkPort::read_device_clock(Time now) {
  uint64_t ticks = 0;
  if (clock_.wants_reading(now) && rte_eth_read_clock(id_, &ticks) == 0) clock_.reading(now, ticks);
}

/// Frames whose time has not come get it.
void DpdkPort::stamp(Time now) {
  for (uint32_t i = 0; i < pending_; ++i) {
    if (scheduled_[i] <= now) continue;
    *RTE_MBUF_DYNFIELD(tx_mbufs_[i], stamp_offset_, uint64_t*) = clock_.at(scheduled_[i]);
    tx_mbufs_[i]->ol_flags |= stamp_flag_;
  }
}

void DpdkPort::flush(Time now) {
  if (stamps_) read_device_clock(now);
  if (pending_ == 0) return;
  if (clock_.known()) stamp(now);
  // The device frees what it takes; a second reference keeps the bytes until they are written down.
  const bool captured = capture() != nullptr;
  if (captured) {
    for (uint32_t i = 0; i < pending_; ++i) rte_mbuf_refcnt_update(tx_mbufs_[i], 1);
    capture()->begin_sending();
  }
  std::array<uint32_t, kTxBurst> bytes;  // not to be read from a buffer that is gone
  for (uint32_t i = 0; i < pending_; ++i) bytes[i] = tx_mbufs_[i]->pkt_len;
  const uint32_t sent = rte_eth_tx_burst(id_, 0, tx_mbufs_.data(), static_cast<uint16_t>(pending_));
  if (captured) {
    capture_sent(now, sent);
    capture()->end_sending();
  }
  tx_counted_.tx_frames += sent;
  for (uint32_t i = 0; i < sent; ++i) tx_counted_.tx_bytes += bytes[i];

  if (sent != 0 || !blocked_) moved_ = now;
  const uint32_t gone = sent < pending_ ? sent + give_up(sent, now) : sent;
  std::copy(tx_mbufs_.begin() + gone, tx_mbufs_.begin() + pending_, tx_mbufs_.begin());
  std::copy(scheduled_.begin() + gone, scheduled_.begin() + pending_, scheduled_.begin());
  pending_ -= gone;
  blocked_ = pending_ != 0;
}

/// The device took only the first `sent` frames. Drops what it will never take; returns how many.
uint32_t DpdkPort::give_up(uint32_t sent, Time now) {
  ++tx_counted_.tx_retried;
  const bool connected = link_up();
  // Some drivers never take a frame that is too long for them: what is behind it must not suffer.
  if (connected && now - moved_ < kPatience) return 0;
  const uint32_t dropped = connected ? 1 : pending_ - sent;
  (connected ? tx_counted_.tx_refused : tx_counted_.tx_link_down) += dropped;
  rte_pktmbuf_free_bulk(tx_mbufs_.data() + sent, dropped);
  moved_ = now;
  return dropped;
}

/// Writes down the first `sent` pending frames and gives the extra references back.
void DpdkPort::capture_sent(Time now, uint32_t sent) {
  for (uint32_t i = 0; i < pending_; ++i) {
    rte_mbuf* mbuf = tx_mbufs_[i];
    if (i < sent) {
      const Time left = std::max(now, scheduled_[i]);  // the device may keep it until then
      capture()->frame(CaptureDirection::kOut, left, scheduled_[i],
                       {rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->pkt_len});
      rte_pktmbuf_free(mbuf);
    } else {
      rte_mbuf_refcnt_update(mbuf, -1);
    }
  }
}

bool DpdkPort::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

PortCounters DpdkPort::counters() const {
  PortCounters all = tx_counted_;
  all.rx_frames = rx_counted_.rx_frames;
  all.rx_bytes = rx_counted_.rx_bytes;
  all.rx_unreadable = rx_counted_.rx_unreadable;
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) == 0) all.rx_missed = stats.imissed + stats.rx_nombuf;
  return all;
}

}  // namespace understudy
