#include "dataplane/engine/network/uplink_scheduler.h"

namespace understudy {

/// Whether what `slot` has leaves by `uplink` and is of no class that is blocked.
bool UplinkScheduler::uses_uplink(uint32_t slot, LinkId uplink, uint8_t blocked) const {
  const QpSlot& q = qps_[slot];
  uint8_t tos;
  uint16_t udp_src;
  uint32_t real = q.real;
  std::optional<uint16_t> tci;
  if (slot == qps_.finished_slot(q.node)) {
    const Packet& p = pool_[scheduler_.first_finished(q.node)];
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
bool UplinkScheduler::cnp_uses_uplink(uint32_t node, LinkId uplink, uint8_t blocked) const {
  const uint32_t slot = cnps_.first(node);
  if (slot == kNoSlot) return false;
  const RoceAddressing& a = qps_[slot].qp->config().addressing;
  std::optional<uint16_t> tci;
  if (a.vlan_tci) tci = static_cast<uint16_t>(config_.cnp.pcp << 13);
  if ((blocked >> fabric_->class_of(config_.cnp.traffic_class, tci) & 1) != 0) return false;
  return fabric_->leaves_by(node, qps_[slot].real, a.udp_src, uplink);
}

/// What switches look at in a packet of a queue pair.
uint32_t UplinkScheduler::show_to_switches(uint32_t packet) {
  Packet& p = pool_[packet];
  p.tos = p.addressing.traffic_class;
  p.udp_src = p.addressing.udp_src;
  p.vlan_tci = p.addressing.vlan_tci;
  return packet;
}

/// Of a NIC with a queue (send/nic_queues.h): the packet that goes next, and the one before it.
std::pair<uint32_t, uint32_t> UplinkScheduler::next_queued(uint32_t node, LinkId uplink,
                                                           uint8_t blocked, Time now) {
  scheduler_.fill_queue(node, now);
  uint32_t before = kNoPacket, packet = scheduler_.queues().first(node);
  for (; packet != kNoPacket; before = packet, packet = scheduler_.behind(packet)) {
    const Packet& p = pool_[packet];
    const bool stopped = (blocked >> fabric_->class_of(p.tos, p.vlan_tci) & 1) != 0;
    if (!stopped && fabric_->leaves_by(node, p.real, p.udp_src, uplink)) break;
  }
  return {packet, before};
}

uint64_t UplinkScheduler::next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) {
  constexpr uint64_t kNone = NetworkTraffic::kNoTurn;
  if (scheduler_.queues().at(node)) {
    const uint32_t packet = next_queued(node, uplink, blocked, now).first;
    return packet == kNoPacket ? kNone : pool_[packet].turn;
  }
  if (cnp_uses_uplink(node, uplink, blocked)) return 0;
  if (turn_of_line(node, kAckLine, uplink, blocked, now) != kNone) return 0;
  scheduler_.requeue(node, 0, now);
  return turn_of_line(node, 0, uplink, blocked, now);
}

uint64_t UplinkScheduler::turn_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked,
                                       Time now) {
  const QpSlot* q = nullptr;
  for (uint32_t slot = scheduler_.line(node, line).first; slot != kNoSlot; slot = q->next[line]) {
    q = &qps_[slot];
    const bool has_some = slot == qps_.finished_slot(node) ||
                          (q->qp != nullptr && pacing_.try_start(slot, line, now));
    if (has_some && uses_uplink(slot, uplink, blocked)) return qps_.rest(slot).turn;
  }
  return NetworkTraffic::kNoTurn;
}

void UplinkScheduler::held(uint32_t node, LinkId uplink, Time now) {
  scheduler_.requeue(node, 0, now);
  const QpSlot* q = nullptr;
  for (uint32_t slot = scheduler_.line(node, 0).first; slot != kNoSlot; slot = q->next[0]) {
    q = &qps_[slot];
    if (q->qp == nullptr || slot == qps_.finished_slot(node)) continue;
    if (!uses_uplink(slot, uplink, 0)) continue;
    q->qp->hold(now);
    scheduler_.arm_timer(slot);
  }
}

uint32_t UplinkScheduler::next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) {
  if (scheduler_.queues().at(node)) {
    const auto [packet, before] = next_queued(node, uplink, blocked, now);
    return packet == kNoPacket ? packet : scheduler_.take_queued(packet, before, now);
  }
  if (cnp_uses_uplink(node, uplink, blocked)) {
    if (const uint32_t cnp = scheduler_.take_cnp(node, now); cnp != kNoPacket)
      return show_to_switches(cnp);
  }
  const uint32_t ack = next_of_line(node, kAckLine, uplink, blocked, now);
  if (ack != kNoPacket) return ack;
  scheduler_.requeue(node, 0, now);
  return next_of_line(node, 0, uplink, blocked, now);
}

uint32_t UplinkScheduler::next_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked,
                                       Time now) {
  ReadyLine& ready = scheduler_.line(node, line);
  uint32_t before = kNoSlot;
  for (uint32_t slot = ready.first, next; slot != kNoSlot; slot = next) {
    QpSlot& q = qps_[slot];
    next = q.next[line];
    const bool finished = slot == qps_.finished_slot(node);
    const bool has_some = finished || (q.qp != nullptr && pacing_.try_start(slot, line, now));
    if (has_some && !uses_uplink(slot, uplink, blocked)) {
      before = slot;
      continue;
    }
    if (has_some && !finished && pool_.available(PacketSide::kOutbound) == 0) {
      scheduler_.starve(node, line);
      return kNoPacket;
    }
    (before == kNoSlot ? ready.first : qps_[before].next[line]) = next;
    if (ready.last == slot) ready.last = before;
    q.queued[line] = false;
    if (!has_some) continue;
    if (finished) return scheduler_.take_finished(node, now);
    const uint32_t id = scheduler_.make_packet(slot, line, now);
    if (pacing_.try_start(slot, line, now)) scheduler_.append(slot, line, now);
    scheduler_.arm_timer(slot);
    return show_to_switches(id);
  }
  return kNoPacket;
}

}  // namespace understudy
