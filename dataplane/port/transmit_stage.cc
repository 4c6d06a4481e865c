#include "dataplane/port/transmit_stage.h"

#include "dataplane/port/dpdk_buffer.h"
#include "dataplane/wire/build.h"

namespace understudy {

Result<void> TransmitStage::prepare() {
  for (Slot& slot : slots_.all()) {
    slot.buffer = port_.empty_buffer();
    if (slot.buffer == nullptr) {
      return fail("port \"" + port_.name() + "\": too few buffers for a thread that sends");
    }
  }
  return {};
}

TransmitStage::~TransmitStage() {
  for (const Slot& slot : slots_.all()) rte_pktmbuf_free(slot.buffer);
}

TransmitStage::Slot* TransmitStage::next_slot() {
  Slot* const slot = slots_.free_slot(committed_);
  if (slot != nullptr) slot->payload = nullptr;
  return slot;
}

uint8_t* TransmitStage::reserve(uint32_t bytes) {
  const Slot* const slot = next_slot();
  return slot == nullptr ? nullptr : room_in(slot->buffer, bytes);
}

uint8_t* TransmitStage::reserve_zeros(uint32_t head, uint32_t zeros, uint32_t tail) {
  if (head > kMostHeadBeforeZeros) return TxSink::reserve_zeros(head, zeros, tail);
  const Slot* const slot = next_slot();
  return slot == nullptr ? nullptr : room_with_zeros_in(slot->buffer, head, zeros, tail);
}

bool TransmitStage::finishes(uint8_t* payload, uint32_t bytes, uint32_t crc) {
  Slot& slot = *slots_.free_slot(committed_);
  slot.payload = payload;
  slot.payload_bytes = bytes;
  slot.crc = crc;
  return true;
}

void TransmitStage::commit(uint32_t bytes, Time scheduled) {
  Slot& slot = *slots_.free_slot(committed_++);
  slot.bytes = bytes;
  slot.scheduled = scheduled;
}

void TransmitStage::flush() {
  slots_.publish(committed_);
  committed_ = 0;
}

bool TransmitStage::take() {
  bool some = false;
  while (port_.takes_more()) {
    Slot* const slot = slots_.front();
    if (slot == nullptr) break;
    // Not sooner: the packet thread finds a buffer in each slot that is free.
    rte_mbuf* const fresh = port_.empty_buffer();
    if (fresh == nullptr) break;
    if (slot->payload != nullptr) finish_payload(slot->payload, slot->payload_bytes, slot->crc);
    port_.add(slot->buffer, slot->bytes, slot->scheduled);
    slot->buffer = fresh;
    slots_.pop();
    some = true;
  }
  return some;
}

}  // namespace understudy
