#include "dataplane/engine/send/nic_queues.h"

namespace understudy {

void NicQueues::push(uint32_t packet, uint64_t turn) {
  Packet& p = pool_[packet];
  p.turn = turn;
  Nic& nic = nics_[p.node];
  pool_.links()[packet] = kNoPacket;
  (nic.first == kNoPacket ? nic.first : pool_.links()[nic.last]) = packet;
  nic.last = packet;
  if (p.kind != PacketKind::kToReal) return;
  p.tos = p.addressing.traffic_class;  // what switches look at
  p.udp_src = p.addressing.udp_src;
  p.vlan_tci = p.addressing.vlan_tci;
  Handed& handed = handed_[qps_.slot_of(p.qpn)];
  handed.full = ++handed.packets >= config_.limits[p.node].ahead;
}

uint32_t NicQueues::take(uint32_t packet, uint32_t before, Time now) {
  Packet& p = pool_[packet];
  Nic& nic = nics_[p.node];
  (before == kNoPacket ? nic.first : pool_.links()[before]) = pool_.links()[packet];
  if (nic.last == packet) nic.last = before;
  p.head = p.tail = p.due = now;
  if (p.kind != PacketKind::kToReal) return kNoSlot;
  const uint32_t slot = qps_.slot_of(p.qpn);
  if (qps_[slot].generation != p.owner) return kNoSlot;
  Handed& handed = handed_[slot];
  if (--handed.packets > config_.limits[p.node].again || !handed.full) return kNoSlot;
  handed.full = false;
  return slot;
}

}  // namespace understudy
