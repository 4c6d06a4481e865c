// What stands in front of a node's own link: its queue pairs, in turn, and its finished frames.
#include <utility>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {

/// Of the free packets so many may be finished frames that wait in front of one node's link.
constexpr uint32_t kRawShare = 64;

}  // namespace

/// A node has something to send. A busy link takes it when it is free.
void Shard::pull_or_wait(uint32_t node, uint32_t cls, Time now) {
  const uint32_t link = link_id(node, true, cls);
  if (links_[link].idle(now)) {
    pull(node, cls, now);
  } else {
    await_free(link);
  }
}

bool Shard::pull(uint32_t node, uint32_t cls, Time now) {
  if (cls == control_class()) {
    if (const uint32_t cnp = take_cnp(node, now); cnp != kNoPacket) {
      arrive(cnp, now);
      return true;
    }
    if (pull_line(node, kAckLine, now)) return true;
  }
  stand_again(node, cls, now);
  return pull_line(node, cls, now);
}

bool Shard::pull_line(uint32_t node, uint32_t line, Time now) {
  ReadyList& ready = ready_[node * kLines + line];
  while (ready.first != kNoSlot) {
    const uint32_t slot = ready.first;
    QpSlot& q = qps_[slot];
    const bool raw = slot == raw_slot(node);
    const bool goes = raw || (q.qp != nullptr && sends(slot, line, now));
    if (goes && !raw && pool_.available(PacketSide::kOutbound) == 0) {
      starve(node * kLines + line);  // it stays in the line
      return false;
    }
    ready.first = q.next[line];
    q.queued[line] = false;
    if (!goes) continue;
    arrive(raw ? take_raw(node, now) : make_packet(slot, line, now), now);
    // Behind an ACK or NAK nothing comes that had to wait for it.
    if (!raw && line != kAckLine) kick(slot, now);
    return true;
  }
  return false;
}

/// The next packet of a queue pair that has one, in front of its node's link.
uint32_t Shard::make_packet(uint32_t slot, uint32_t line, Time now) {
  const QpSlot& q = qps_[slot];
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  Packet& p = pool_[id];
  p.kind = PacketKind::kToReal;
  p.damaged = p.ce = false;
  // What came at this moment may have left an ACK that does not stand in line yet.
  const bool ack_too = line != kAckLine && !config_.separate_control;
  q.qp->pull(now, ack_too ? TrafficKind::kAny : kind_of(line), p.out, p.departs, p.id);
  p.addressing = q.qp->config().addressing;
  p.qpn = q.qp->config().qpn;
  p.owner = q.generation;
  p.node = q.node;
  p.real = q.real;
  p.frame_bytes = roce_frame_bytes(p.addressing, p.out.fields.opcode, p.out.payload_bytes);
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.link = link_id(q.node, true, line == kAckLine ? control_class() : line);
  p.head = p.tail = now;
  if (line != kAckLine) ready_[q.node * kLines + line].sending = slot;
  note_start(p, slot, now);
  return id;
}

/// A finished frame of node `packet.node` goes out as if of a queue pair of its own: in turn with
/// the others, whatever number of them a peer makes the node send. Beyond a share of the packets
/// that are free they are lost.
void Shard::send_raw(uint32_t packet, Time now) {
  const uint32_t node = pool_[packet].node;
  RawQueue& queue = raw_[node];
  const uint32_t link = link_id(node, true, 0);
  if (queue.waiting > pool_.available(PacketSide::kOutbound) / kRawShare) {
    ++links_[link].counters().dropped;
    counters_of(pool_[packet].real).drop(Drop::kQueueFull);
    return pool_.release(packet);
  }
  pool_.links()[packet] = kNoPacket;
  (queue.first == kNoPacket ? queue.first : pool_.links()[queue.last]) = packet;
  queue.last = packet;
  ++queue.waiting;
  make_ready(raw_slot(node), 0, now);
  if (fabric_ != nullptr) return fabric_->ready(node, now);
  pull_or_wait(node, 0, now);
}

uint32_t Shard::take_raw(uint32_t node, Time now) {
  RawQueue& queue = raw_[node];
  const uint32_t id = queue.first;
  queue.first = pool_.links()[id];
  --queue.waiting;
  Packet& p = pool_[id];
  p.link = link_id(node, true, 0);
  p.head = p.tail = p.due = now;
  if (queue.waiting != 0) make_ready(raw_slot(node), 0, now);
  return id;
}

/// Puts a slot behind the others of its node's line, if it does not stand there. One whose packet
/// is on the link waits until that is free: those that come meanwhile are before it.
void Shard::make_ready(uint32_t slot, uint32_t line, Time now) {
  QpSlot& q = qps_[slot];
  ReadyList& ready = ready_[q.node * kLines + line];
  if (q.queued[line] || ready.sending == slot) return;
  q.queued[line] = true;
  q.next[line] = kNoSlot;
  (ready.first == kNoSlot ? ready.first : qps_[ready.last].next[line]) = slot;
  ready.last = slot;
  if (line == kAckLine) return;
  if (fabric_ != nullptr) rest_[slot].turn = fabric_->take_turn();
  if (q.control != nullptr) q.control->ready(now);
}

/// The link is free: who sent last is behind all that wait now.
void Shard::stand_again(uint32_t node, uint32_t line, Time now) {
  const uint32_t slot = std::exchange(ready_[node * kLines + line].sending, kNoSlot);
  if (slot == kNoSlot || qps_[slot].qp == nullptr) return;
  if (sends(slot, line, now)) make_ready(slot, line, now);
}

void Shard::starve(uint32_t list) {
  if (ready_[list].starved) return;
  ready_[list].starved = true;
  ready_[list].next = kNoList;
  (first_starved_ == kNoList ? first_starved_ : ready_[last_starved_].next) = list;
  last_starved_ = list;
}

/// Packets have been sent or delivered since queue pairs found too few of them. Whoever has got one
/// and finds none again is behind all others, so that none takes all that others have freed.
void Shard::feed_starved(Time now) {
  while (first_starved_ != kNoList && pool_.available(PacketSide::kOutbound) != 0) {
    const uint32_t list = first_starved_;
    first_starved_ = ready_[list].next;
    ready_[list].starved = false;
    const uint32_t node = list / kLines, line = list % kLines;
    const uint32_t cls = line == kAckLine ? control_class() : line;
    if (fabric_ != nullptr) {
      fabric_->ready(node, now);
      continue;
    }
    pull_or_wait(node, cls, now);
  }
}

void Shard::kick(uint32_t slot, Time now) {
  if (fabric_ != nullptr) return kick_switched(slot, now);
  kick_line(slot, kAckLine, control_class(), now);
  for (uint32_t cls = 0; cls <= control_class(); ++cls) kick_line(slot, cls, cls, now);
  arm_timer(slot);
}

void Shard::kick_line(uint32_t slot, uint32_t line, uint32_t cls, Time now) {
  QpSlot& q = qps_[slot];
  if (!q.queued[line] && sends(slot, line, now)) make_ready(slot, line, now);
  if (q.queued[line]) pull_or_wait(q.node, cls, now);
}

void Shard::arm_timer(uint32_t slot) {
  const Time deadline = qps_[slot].qp->deadline();
  if (deadline >= qps_[slot].timer) return;
  qps_[slot].timer = deadline;
  events_.push(deadline, EventKind::kTimer, slot);
}

}  // namespace understudy
