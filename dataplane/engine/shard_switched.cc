// Where a shard has a network with switches: packets enter it, queue pairs send into it when their
// NIC's link is idle, and what comes through goes on as after two links (shard_links.cc).
#include <algorithm>

#include "dataplane/engine/shard.h"

namespace understudy {

void Shard::enter_switched(uint32_t packet, Time now) {
  if (fabric_->waiting() >= most_waiting()) {
    counters_of(pool_[packet].real).drop(Drop::kQueueFull);
    return pool_.release(packet);
  }
  fabric_->enter(packet, now);
}

void Shard::kick_switched(uint32_t slot, Time now) {
  const QpSlot& q = qps_[slot];
  for (const uint32_t line : {kAckLine, 0u}) {
    if (!q.queued[line] && sends(slot, line, now)) make_ready(slot, line, now);
  }
  if (q.queued[kAckLine] || q.queued[0]) fabric_->ready(q.node, now);
  arm_timer(slot);
}

/// Whether what `slot` has leaves by `uplink` and is of no class that is blocked.
bool Shard::goes(uint32_t slot, LinkId uplink, uint8_t blocked) const {
  const QpSlot& q = qps_[slot];
  uint8_t tos;
  uint16_t udp_src;
  uint32_t real = q.real;
  std::optional<uint16_t> tci;
  if (slot == raw_slot(q.node)) {
    const Packet& p = pool_[raw_[q.node].first];
    tos = p.tos;
    udp_src = p.udp_src;
    real = p.real;
    tci = p.vlan_tci;
  } else {
    const RoceAddressing& a = q.qp->config().addressing;
    tos = a.traffic_class;
    udp_src = a.udp_src;
    tci = a.vlan_tci;
  }
  if ((blocked >> fabric_->class_of(tos, tci) & 1) != 0) return false;
  return fabric_->leaves_by(q.node, real, udp_src, uplink);
}

/// The same of the node's oldest CNP.
bool Shard::cnp_goes(uint32_t node, LinkId uplink, uint8_t blocked) const {
  const uint32_t slot = cnps_[node].first;
  if (slot == kNoSlot) return false;
  const RoceAddressing& a = qps_[slot].qp->config().addressing;
  std::optional<uint16_t> tci;
  if (a.vlan_tci) tci = static_cast<uint16_t>(config_.cnp.pcp << 13);
  if ((blocked >> fabric_->class_of(config_.cnp.traffic_class, tci) & 1) != 0) return false;
  return fabric_->leaves_by(node, qps_[slot].real, a.udp_src, uplink);
}

/// What switches look at in a packet of a queue pair.
uint32_t Shard::sent_into_fabric(uint32_t packet) {
  Packet& p = pool_[packet];
  p.tos = p.addressing.traffic_class;
  p.udp_src = p.addressing.udp_src;
  p.vlan_tci = p.addressing.vlan_tci;
  return packet;
}

uint64_t Shard::next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) {
  constexpr uint64_t kNone = NetworkTraffic::kNoTurn;
  if (cnp_goes(node, uplink, blocked)) return 0;
  if (turn_of_line(node, kAckLine, uplink, blocked, now) != kNone) return 0;
  stand_again(node, 0, now);
  return turn_of_line(node, 0, uplink, blocked, now);
}

uint64_t Shard::turn_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked,
                             Time now) {
  const QpSlot* q = nullptr;
  for (uint32_t slot = ready_[node * kLines + line].first; slot != kNoSlot; slot = q->next[line]) {
    q = &qps_[slot];
    const bool has_some = slot == raw_slot(node) || (q->qp != nullptr && sends(slot, line, now));
    if (has_some && goes(slot, uplink, blocked)) return rest_[slot].turn;
  }
  return NetworkTraffic::kNoTurn;
}

uint32_t Shard::next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) {
  if (cnp_goes(node, uplink, blocked)) {
    if (const uint32_t cnp = take_cnp(node, now); cnp != kNoPacket) return sent_into_fabric(cnp);
  }
  const uint32_t ack = next_of_line(node, kAckLine, uplink, blocked, now);
  if (ack != kNoPacket) return ack;
  stand_again(node, 0, now);
  return next_of_line(node, 0, uplink, blocked, now);
}

uint32_t Shard::next_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked,
                             Time now) {
  ReadyList& ready = ready_[node * kLines + line];
  uint32_t before = kNoSlot;
  for (uint32_t slot = ready.first, next; slot != kNoSlot; slot = next) {
    QpSlot& q = qps_[slot];
    next = q.next[line];
    const bool raw = slot == raw_slot(node);
    const bool has_some = raw || (q.qp != nullptr && sends(slot, line, now));
    if (has_some && !goes(slot, uplink, blocked)) {
      before = slot;
      continue;
    }
    if (has_some && !raw && pool_.available(PacketSide::kOutbound) == 0) {
      starve(node * kLines + line);
      return kNoPacket;
    }
    (before == kNoSlot ? ready.first : qps_[before].next[line]) = next;
    if (ready.last == slot) ready.last = before;
    q.queued[line] = false;
    if (!has_some) continue;
    if (raw) return take_raw(node, now);
    const uint32_t id = make_packet(slot, line, now);
    if (sends(slot, line, now)) make_ready(slot, line, now);
    arm_timer(slot);
    return sent_into_fabric(id);
  }
  return kNoPacket;
}

void Shard::came_through(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  if (p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRawIn) return deliver(packet, now);
  // The wire takes its own time; where it is as fast as the model both end together.
  p.due = std::max(p.head, p.tail - port_of(p.real).out.time_for(p.wire_bytes));
  if (faults_.active()) return depart_through_faults(packet);
  port_of(p.real).departures[0].push(packet);
}

void Shard::lost(uint32_t packet, PacketLoss why) {
  ShardCounters& counters = counters_of(pool_[packet].real);
  switch (why) {
    case PacketLoss::kBuffer:
    case PacketLoss::kHeadroom:
      counters.drop(Drop::kQueueFull);
      break;
    case PacketLoss::kLink:
      counters.drop(Drop::kLinkLoss);
      break;
    case PacketLoss::kOutage:
      counters.drop(Drop::kLinkDown);
      break;
  }
  pool_.release(packet);
}

}  // namespace understudy
