#include "dataplane/engine/send/qp_scheduler.h"

#include <utility>

namespace understudy {
namespace {

/// Of the free packets so many may be finished frames that wait in front of one node's link.
constexpr uint32_t kFinishedShare = 64;

}  // namespace

QpScheduler::QpScheduler(ShardState& state, QpPacing& pacing, CnpQueue& cnps)
    : config_(state.config),
      pool_(state.pool),
      events_(state.events),
      qps_(state.qps),
      pacing_(pacing),
      cnps_(cnps),
      queues_(state),
      lines_(state.config.nodes.nics().size() * kLines),
      finished_(state.config.nodes.nics().size()) {}

QpScheduler::Next QpScheduler::take(uint32_t node, uint32_t cls, Time now) {
  if (queues_.at(node)) {
    fill_queue(node, now);
    if (queues_.empty(node)) return {};
    return {take_queued(queues_.first(node), kNoPacket, now), kNoSlot};
  }
  if (cls == config_.control_class()) {
    if (const uint32_t cnp = take_cnp(node, now); cnp != kNoPacket) return {cnp, kNoSlot};
    if (const Next ack = take_from_line(node, kAckLine, now); ack.packet != kNoPacket) return ack;
  }
  requeue(node, cls, now);
  return take_from_line(node, cls, now);
}

QpScheduler::Next QpScheduler::take_from_line(uint32_t node, uint32_t line, Time now) {
  ReadyLine& ready = lines_[node * kLines + line];
  while (ready.first != kNoSlot) {
    const uint32_t slot = ready.first;
    QpSlot& q = qps_[slot];
    const bool finished = slot == qps_.finished_slot(node);
    const bool starts = finished || (q.qp != nullptr && pacing_.try_start(slot, line, now));
    if (starts && !finished && pool_.available(PacketSide::kOutbound) == 0) {
      starve(node, line);  // it stays in the line
      return {};
    }
    ready.first = q.next[line];
    q.queued[line] = false;
    if (!starts) continue;
    if (finished) return {take_finished(node, now), kNoSlot};
    // Behind an ACK or NAK nothing comes that had to wait for it.
    return {make_packet(slot, line, now), line == kAckLine ? kNoSlot : slot};
  }
  return {};
}

uint32_t QpScheduler::make_packet(uint32_t slot, uint32_t line, Time now) {
  const QpSlot& q = qps_[slot];
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  Packet& p = pool_[id];
  p.kind = PacketKind::kToReal;
  p.damaged = p.ce = false;
  // What came at this moment may have left an ACK that does not stand in line yet.
  const bool ack_too = line != kAckLine && !config_.separate_control;
  q.qp->pull(now, ack_too ? TrafficKind::kAny : pacing_.kind_of(line), p.out, p.departs, p.id);
  p.addressing = q.qp->config().addressing;
  p.qpn = q.qp->config().qpn;
  p.owner = q.generation;
  p.node = q.node;
  p.real = q.real;
  p.frame_bytes = roce_frame_bytes(p.addressing, p.out.fields.opcode, p.out.payload_bytes);
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.link = link_id(q.node, true, line == kAckLine ? config_.control_class() : line);
  p.head = p.tail = now;
  if (line != kAckLine) lines_[q.node * kLines + line].sending = slot;
  pacing_.note_start(p, slot, now);
  return id;
}

bool QpScheduler::add_finished(uint32_t packet, Time now) {
  const uint32_t node = pool_[packet].node;
  Finished& queue = finished_[node];
  if (queue.waiting > pool_.available(PacketSide::kOutbound) / kFinishedShare) return false;
  pool_.links()[packet] = kNoPacket;
  (queue.first == kNoPacket ? queue.first : pool_.links()[queue.last]) = packet;
  queue.last = packet;
  ++queue.waiting;
  append(qps_.finished_slot(node), 0, now);
  if (queues_.at(node)) hand_over_line(node, 0, now);
  return true;
}

uint32_t QpScheduler::take_finished(uint32_t node, Time now) {
  Finished& queue = finished_[node];
  const uint32_t id = queue.first;
  queue.first = pool_.links()[id];
  if (!queues_.at(node)) --queue.waiting;  // else it waits on in its NIC's queue
  Packet& p = pool_[id];
  p.link = link_id(node, true, 0);
  p.head = p.tail = p.due = now;
  if (queue.first != kNoPacket) append(qps_.finished_slot(node), 0, now);
  return id;
}

uint32_t QpScheduler::take_cnp(uint32_t node, Time now) {
  if (cnps_.first(node) == kNoSlot) return kNoPacket;
  if (pool_.available(PacketSide::kOutbound) == 0) {
    starve(node, config_.control_class());
    return kNoPacket;
  }
  return cnps_.take(node, now);
}

/// Behind the others of its node's line, if it does not stand there. One whose packet is on the
/// link waits until that is free: those that come meanwhile are before it.
void QpScheduler::append(uint32_t slot, uint32_t line, Time now) {
  QpSlot& q = qps_[slot];
  ReadyLine& ready = lines_[q.node * kLines + line];
  if (q.queued[line] || ready.sending == slot) return;
  q.queued[line] = true;
  q.next[line] = kNoSlot;
  (ready.first == kNoSlot ? ready.first : qps_[ready.last].next[line]) = slot;
  ready.last = slot;
  if (line == kAckLine) return;
  if (turns_ != nullptr) qps_.rest(slot).turn = turns_->take_turn(q.node);
  if (q.control != nullptr) q.control->ready(now);
}

void QpScheduler::requeue(uint32_t node, uint32_t line, Time now) {
  const uint32_t slot = std::exchange(lines_[node * kLines + line].sending, kNoSlot);
  if (slot == kNoSlot || qps_[slot].qp == nullptr) return;
  if (pacing_.try_start(slot, line, now)) append(slot, line, now);
}

void QpScheduler::starve(uint32_t node, uint32_t line) {
  const uint32_t list = node * kLines + line;
  if (lines_[list].starved) return;
  lines_[list].starved = true;
  lines_[list].next = kNoLine;
  (first_starved_ == kNoLine ? first_starved_ : lines_[last_starved_].next) = list;
  last_starved_ = list;
}

uint32_t QpScheduler::take_starved() {
  const uint32_t list = first_starved_;
  first_starved_ = lines_[list].next;
  lines_[list].starved = false;
  return list;
}

void QpScheduler::remove(uint32_t slot) {
  queues_.remove(slot);
  QpSlot& q = qps_[slot];
  for (uint32_t line = 0; line < kLines; ++line) {
    ReadyLine& ready = lines_[q.node * kLines + line];
    if (ready.sending == slot) ready.sending = kNoSlot;
    if (!q.queued[line]) continue;
    uint32_t before = kNoSlot;
    for (uint32_t at = ready.first; at != slot; at = qps_[at].next[line]) before = at;
    (before == kNoSlot ? ready.first : qps_[before].next[line]) = q.next[line];
    if (ready.last == slot) ready.last = before;
    q.queued[line] = false;
  }
}

}  // namespace understudy
