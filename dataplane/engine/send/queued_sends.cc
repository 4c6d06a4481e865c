// What queue pairs hand to a NIC that takes packets before their time (nic_queues.h), and what leaves
// it.
#include <utility>

#include "dataplane/engine/send/qp_scheduler.h"

namespace understudy {

/// The queue pair in `slot` hands over what may start, behind those that stand in line for want of
/// a free packet. True if its NIC has something to send.
bool QpScheduler::hand_over(uint32_t slot, uint32_t line, Time now) {
  const uint32_t node = qps_[slot].node;
  if (line != kAckLine && delivery_ != kNoSlot && qps_[delivery_].node == node) {
    hand_over(std::exchange(delivery_, kNoSlot), kAckLine, now);
  }
  const bool room = line == kAckLine || queues_.takes(slot);
  if (!qps_[slot].queued[line] && room && pacing_.try_start(slot, line, now)) {
    append(slot, line, now);
  }
  hand_over_line(node, line, now);
  return !queues_.empty(node);
}

void QpScheduler::hand_over_line(uint32_t node, uint32_t line, Time now) {
  ReadyLine& ready = lines_[node * kLines + line];
  while (ready.first != kNoSlot) {
    const Next next = take_from_line(node, line, now);
    if (next.packet == kNoPacket) return;  // there is no room, or nobody who stood there may start
    push_queued(next.packet);
    ready.sending = kNoSlot;
    if (next.slot == kNoSlot) continue;
    hand_over_more(next.slot, line, now);
    arm_timer(next.slot);
  }
}

/// All that the queue pair may start, as far as its NIC takes it.
void QpScheduler::hand_over_more(uint32_t slot, uint32_t line, Time now) {
  const uint32_t node = qps_[slot].node;
  while (queues_.takes(slot) && pacing_.try_start(slot, line, now)) {
    if (pool_.available(PacketSide::kOutbound) == 0) {
      append(slot, line, now);
      return starve(node, line);
    }
    push_queued(make_packet(slot, line, now));
    lines_[node * kLines + line].sending = kNoSlot;
  }
}

void QpScheduler::push_queued(uint32_t packet) {
  queues_.push(packet, turns_ == nullptr ? 0 : turns_->take_turn(pool_[packet].node));
}

void QpScheduler::fill_queue(uint32_t node, Time now) {
  hand_over_line(node, kAckLine, now);
  for (uint32_t cls = 0; cls <= config_.control_class(); ++cls) hand_over_line(node, cls, now);
  while (cnps_.first(node) != kNoSlot) {
    const uint32_t cnp = take_cnp(node, now);
    if (cnp == kNoPacket) return;
    push_queued(cnp);
  }
}

uint32_t QpScheduler::take_queued(uint32_t packet, uint32_t before, Time now) {
  const uint32_t node = pool_[packet].node;
  const uint32_t slot = queues_.take(packet, before, now);
  if (pool_[packet].kind != PacketKind::kToReal) --finished_[node].waiting;
  if (slot == kNoSlot || qps_[slot].qp == nullptr) return packet;
  for (uint32_t cls = 0; cls <= config_.control_class(); ++cls) {
    if (pacing_.try_start(slot, cls, now)) append(slot, cls, now);
    hand_over_line(node, cls, now);
  }
  arm_timer(slot);
  return packet;
}

}  // namespace understudy
