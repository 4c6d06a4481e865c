#include "dataplane/engine/receive/train_assembler.h"

#include <utility>

#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

bool is_plain_middle(const RoceView& roce) {
  return roce.opcode == static_cast<uint8_t>(Opcode::kWriteMiddle) && !roce.ack_request &&
         roce.pad == 0;
}

}  // namespace

bool TrainAssembler::may_hold(const ReadFrame& read) {
  return read.kind == FrameKind::kRoce && is_plain_middle(read.roce);
}

bool TrainAssembler::may_open(const FrameView& view, const RoceView& roce, uint32_t slot) {
  if (!is_plain_middle(roce) || slot != slot_ || roce.psn != psn_.next()) return false;
  const QpSlot& q = qps_[slot];
  if (q.wants_payload || marked(view.tos)) return false;
  const uint32_t bytes = wire_bytes(static_cast<uint32_t>(view.frame.size()));
  return network_.carries_trains(q.node, config_.class_of(roce), bytes);
}

void TrainAssembler::open(uint32_t packet, const RoceView& roce) {
  Packet& p = pool_[packet];
  p.kind = PacketKind::kTrain;
  p.before = 0;
  p.before_bytes = roce.payload_bytes;
  p.before_wire_bytes = p.wire_bytes;
  train_times(pool_, packet)[0] = {p.head, p.tail};
  open_ = packet;
}

bool TrainAssembler::accepts(const FrameView& view, const RoceView& roce, uint32_t slot) const {
  if (open_ == kNoPacket || slot != slot_ || roce.psn != psn_.next()) return false;
  if (marked(view.tos)) return false;
  const OpcodeInfo& info = roce.info();
  if (info.kind != OpKind::kWrite || info.start) return false;
  return info.end || roce.payload_bytes == pool_[open_].before_bytes;
}

void TrainAssembler::add(const FrameView& view, const RoceView& roce, uint32_t at, Time now) {
  at_ = at;
  Packet& p = pool_[open_];
  const bool plain = is_plain_middle(roce);
  if (!plain) {
    p.view = roce;
    p.frame_bytes = static_cast<uint32_t>(view.frame.size());
    p.wire_bytes = wire_bytes(p.frame_bytes);
  }
  extend(roce.psn, now);
  if (!plain) close(now);
}

/// By a packet like the one before it.
void TrainAssembler::extend(Psn psn, Time now) {
  Packet& p = pool_[open_];
  p.view.psn = psn;
  train_times(pool_, open_)[++p.before] = {now - ports_.here().in.time_for(p.wire_bytes), now};
  psn_ = psn;
  if (p.before + 1 == kMostInTrain) close(now);
}

bool TrainAssembler::accepts_next(std::span<const uint8_t> frame, uint32_t at) const {
  return open_ != kNoPacket && at_ + 1 == at && psn_in(frame) == psn_.next();
}

void TrainAssembler::add_next(uint32_t at, Time now) {
  at_ = at;
  extend(psn_.next(), now);
}

void TrainAssembler::note_last(uint32_t slot, Psn psn, uint32_t at) {
  slot_ = slot;
  psn_ = psn;
  at_ = at;
}

void TrainAssembler::close(Time now) {
  if (open_ != kNoPacket) network_.accept(std::exchange(open_, kNoPacket), now);
}

}  // namespace understudy
