#include "dataplane/engine/state/inbound_packets.h"

#include <cstring>

namespace understudy {

uint32_t InboundPackets::take(PacketKind kind, const FrameView& view, uint32_t node, Time now) {
  const uint32_t id = pool_.take(PacketSide::kInbound);
  if (id == kNoPacket) {
    ports_.here().counters.drop(Drop::kNoBuffer);
    return kNoPacket;
  }
  Packet& p = pool_[id];
  p.kind = kind;
  p.tos = view.tos;
  p.ce = false;
  p.udp_src = view.udp_src;
  p.vlan_tci = view.vlans == 0 ? std::nullopt : std::optional(view.vlan[0].tci);
  p.frame_bytes = static_cast<uint32_t>(view.frame.size());
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.node = node;
  p.real = ports_.here().nic;
  p.head = now - ports_.here().in.time_for(p.wire_bytes);
  p.tail = now;
  p.uncertainty = state_.arrival_uncertainty;
  p.link = link_id(ports_.here().nic, true, 0);
  return id;
}

uint32_t InboundPackets::store(const FrameView& view, const RoceView& roce, uint32_t slot,
                               Time now) {
  if (marked(view.tos)) ++ports_.here().counters.ce_marked;
  if (roce.dest_qpn == kGsiQpn)
    return store_datagram(view, roce, slot - faults_.datagram_slot(0), now);
  if (qps_[slot].datagrams) return store_datagram(view, roce, qps_[slot].node, now);
  const uint32_t id = take(PacketKind::kFromReal, view, qps_[slot].node, now);
  if (id == kNoPacket) return kNoPacket;
  Packet& p = pool_[id];
  p.qpn = roce.dest_qpn;
  p.owner = qps_[slot].generation;
  p.view = roce;
  p.link = link_id(ports_.here().nic, true, config_.class_of(roce));
  const QpSlot& q = qps_[slot];
  const auto is_small = [&] { return roce.info().start && roce.info().end; };
  if (roce.payload_bytes > 0 && (q.wants_payload || (q.wants_small && is_small()))) {
    std::memcpy(pool_.buffer(id), view.frame.data() + roce.payload, roce.payload_bytes);
  }
  return id;
}

uint32_t InboundPackets::store_datagram(const FrameView& view, const RoceView& roce,
                                        uint32_t position, Time now) {
  const uint32_t id = take(PacketKind::kFromReal, view, position, now);
  if (id == kNoPacket) return kNoPacket;
  Packet& p = pool_[id];
  p.qpn = roce.dest_qpn;
  if (p.qpn != kGsiQpn) p.owner = qps_[qps_.slot_of(p.qpn)].generation;
  p.view = roce;
  p.addressing.src = view.src;
  p.addressing.dst = view.dst;
  std::memcpy(pool_.buffer(id), view.frame.data() + roce.payload, roce.payload_bytes);
  return id;
}

}  // namespace understudy
