#include "dataplane/virtual_time/virtual_link.h"

#include <utility>

namespace understudy {

std::span<const std::span<const uint8_t>> VirtualPort::rx() {
  const Time at = next_arrival();
  size_t n = 0;
  while (n < kRxBurst && !inbox_.empty() && inbox_.front().at == at) {
    burst_[n] = std::move(inbox_.front());
    inbox_.pop_front();
    views_[n] = burst_[n].bytes;
    counters_.rx_bytes += burst_[n].bytes.size();
    ++n;
  }
  counters_.rx_frames += n;
  return {views_.data(), n};
}

uint8_t* VirtualPort::reserve(uint32_t bytes) {
  if (!reserved_) outbox_.emplace_back();
  reserved_ = true;
  outbox_.back().bytes.resize(bytes);
  return outbox_.back().bytes.data();
}

void VirtualPort::commit(uint32_t bytes, Time scheduled) {
  outbox_.back().bytes.resize(bytes);
  outbox_.back().scheduled = scheduled;
  reserved_ = false;
}

void VirtualPort::flush(Time now) {
  if (reserved_) outbox_.pop_back();
  reserved_ = false;
  for (Frame& frame : outbox_) {
    frame.at = now;
    ++counters_.tx_frames;
    counters_.tx_bytes += frame.bytes.size();
    if (capture() != nullptr) {
      capture()->frame(CaptureDirection::kOut, now, frame.scheduled, frame.bytes);
    }
    other_->inbox_.push_back(std::move(frame));
  }
  outbox_.clear();
}

}  // namespace understudy
