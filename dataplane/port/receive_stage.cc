#include "dataplane/port/receive_stage.h"

#include <memory>

#include "dataplane/port/dpdk_buffer.h"

namespace understudy {
namespace {

/// Frames between the one that is read and the one whose headers are asked for.
constexpr uint32_t kPrefetchAhead = 3;

}  // namespace

ReceiveStage::~ReceiveStage() {
  slots_.pop(given_);
  while (slots_.front() != nullptr) slots_.pop();
  free_buffers();
  rte_pktmbuf_free_bulk(buffers_.data(), received_);
}

bool ReceiveStage::receive() {
  free_buffers();
  if (slots_.free_slots() < kRxBurst) return false;
  received_ = port_.receive_buffers(buffers_);
  return received_ != 0;
}

void ReceiveStage::hand_on(Time at, Duration uncertainty) {
  if (CaptureTap* tap = port_.capture()) {
    for (uint32_t i = 0; i < received_; ++i) {
      tap->frame(CaptureDirection::kIn, at, Time::never(), frame_in(buffers_[i]));
    }
  }
  size_t ready = 0;
  for (uint32_t i = 0; i < received_; ++i) {
    if (i + kPrefetchAhead < received_) {
      const uint8_t* ahead = frame_in(buffers_[i + kPrefetchAhead]).data();
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + 64);
    }
    Slot& slot = *slots_.free_slot(ready);
    slot.buffer = buffers_[i];
    slot.frame = frame_in(buffers_[i]);
    slot.at = at;
    slot.uncertainty = uncertainty;
    ReadFrame& read = *std::construct_at(&slot.read);
    read.read(slot.frame);
    if (verify_) read.verify(icrc_memory_);
    if (++ready < kTogether) continue;
    slots_.publish(ready);
    ready = 0;
  }
  slots_.publish(ready);
  received_ = 0;
}

void ReceiveStage::free_buffers() {
  for (const size_t done = slots_.done_with(); freed_ != done;) {
    std::array<rte_mbuf*, kRxBurst> some;
    uint32_t count = 0;
    while (freed_ != done && count < some.size()) some[count++] = slots_.filled(freed_++).buffer;
    rte_pktmbuf_free_bulk(some.data(), count);
  }
}

bool ReceiveStage::next(RxBurst& burst) {
  slots_.pop(given_);
  given_ = 0;
  const Slot* const first = slots_.front();
  if (first == nullptr) return false;
  burst.at = first->at;
  burst.uncertainty = first->uncertainty;
  for (const Slot* slot = first; slot != nullptr && slot->at == first->at;
       slot = given_ < kRxBurst ? slots_.front(given_) : nullptr) {
    frames_[given_] = slot->frame;
    read_[given_++] = &slot->read;
  }
  burst.frames = {frames_.data(), given_};
  burst.read = {read_.data(), given_};
  return true;
}

}  // namespace understudy
