// Datagrams: those of the communication manager, to QP1 of every emulated node, and those of UD
// queue pairs. They cross the fabric like any other packet.
#include <cstring>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {
constexpr uint16_t kGsiPkey = 0xffff;  ///< full member of the default partition
}

/// Datagrams are taken from any queue pair of any real node.
bool Shard::from_real_node(const FrameView& view, const NodeNic* to) const {
  const NodeNic* from = config_.nodes.find(view.src);
  return to != nullptr && !to->real && from != nullptr && from->real;
}

void Shard::rx_gsi(const FrameView& view, const RoceView& roce, Time now) {
  if (roce.opcode != static_cast<uint8_t>(Opcode::kUdSendOnly)) {
    return here().counters.drop(Drop::kUnknownQpn);  // no connection has this number
  }
  const NodeNic* node = config_.nodes.find(view.dst);
  if (!from_real_node(view, node)) return here().counters.drop(Drop::kWrongAddress);
  if (!pkey_matches(roce.pkey, kGsiPkey)) return here().counters.drop(Drop::kWrongPkey);
  if (roce.qkey != kGsiQkey) return here().counters.drop(Drop::kWrongQkey);
  learn_mac(view.src, view.src_mac);
  const uint32_t position = config_.nodes.position(*node);
  if (faults_.active()) {
    return rx_through_faults(view, roce, faults_.datagram_slot(position), now);
  }
  const uint32_t id = store_datagram(view, roce, position, now);
  if (id != kNoPacket) come_in(id, now);
}

/// A packet to a slot that no RC queue pair has.
void Shard::rx_datagram(const FrameView& view, const RoceView& roce, uint32_t slot, Time now) {
  const DatagramQp* qp = rest_[slot].datagrams;
  if (qp == nullptr) return here().counters.drop(Drop::kUnknownQpn);
  if (!roce.info().deth) return here().counters.drop(Drop::kBadOpcode);
  if (view.dst != qp->addressing.src ||
      !from_real_node(view, &config_.nodes.nics()[qps_[slot].node])) {
    return here().counters.drop(Drop::kWrongAddress);
  }
  if (!pkey_matches(roce.pkey, qp->pkey)) return here().counters.drop(Drop::kWrongPkey);
  if (roce.qkey != qp->qkey) return here().counters.drop(Drop::kWrongQkey);
  if (roce.payload_bytes > qp->mtu) return here().counters.drop(Drop::kTooLong);
  learn_mac(view.src, view.src_mac);
  if (faults_.active()) return rx_through_faults(view, roce, slot, now);
  const uint32_t id = store(view, roce, slot, now);
  if (id != kNoPacket) come_in(id, now);
}

/// As store() for a datagram to the node at `position`.
uint32_t Shard::store_datagram(const FrameView& view, const RoceView& roce, uint32_t position,
                               Time now) {
  const uint32_t id = take_inbound(PacketKind::kFromReal, view, position, now);
  if (id == kNoPacket) return kNoPacket;
  Packet& p = pool_[id];
  p.qpn = roce.dest_qpn;
  if (p.qpn != kGsiQpn) p.owner = qps_[slot_of(p.qpn)].generation;
  p.view = roce;
  p.addressing.src = view.src;
  p.addressing.dst = view.dst;
  std::memcpy(pool_.buffer(id), view.frame.data() + roce.payload, roce.payload_bytes);
  return id;
}

void Shard::deliver_gsi(uint32_t packet, Time now) {
  const Packet& p = pool_[packet];
  notify({NoticeKind::kMad, kGsiQpn, now, p.addressing.dst, p.addressing.src},
         {pool_.buffer(packet), p.view.payload_bytes});
  pool_.release(packet);
}

/// A UD queue pair's message goes back to where it came from.
void Shard::echo_datagram(uint32_t packet, uint32_t slot, Time now) {
  const Packet& p = pool_[packet];
  DatagramQp& qp = *rest_[slot].datagrams;
  if (marked(p.tos) || p.ce) ++counters_of(p.real).ce_delivered;
  RoceAddressing addressing = qp.addressing;
  addressing.dst = p.addressing.src;
  RoceFields fields;
  fields.opcode = Opcode::kUdSendOnly;
  fields.pkey = qp.pkey;
  fields.dest_qpn = p.view.src_qpn;
  fields.src_qpn = qp.qpn;
  fields.qkey = qp.qkey;
  fields.psn = qp.next;
  qp.next = qp.next.next();
  const uint32_t id = make_datagram(qps_[slot].node, addressing, fields,
                                    {pool_.buffer(packet), p.view.payload_bytes});
  pool_.release(packet);
  if (id == kNoPacket) return;
  pool_[id].owner = qps_[slot].generation;
  send_raw(id, now);
}

/// A finished datagram of the NIC at `position`; kNoPacket, and counted, if there is no room. An
/// unset destination MAC is the real NIC's.
uint32_t Shard::make_datagram(uint32_t position, RoceAddressing addressing,
                              const RoceFields& fields, std::span<const uint8_t> bytes) {
  const uint32_t real = real_for(addressing.dst, position);
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) {
    counters_of(real).drop(Drop::kNoBuffer);
    return kNoPacket;
  }
  if (addressing.dst_mac == MacAddress{}) addressing.dst_mac = config_.nodes.nics()[real].mac;
  const auto length = static_cast<uint32_t>(bytes.size());
  Packet& p = pool_[id];
  p.kind = PacketKind::kRaw;
  p.damaged = p.ce = false;
  p.tos = addressing.traffic_class;
  p.udp_src = addressing.udp_src;
  p.vlan_tci = addressing.vlan_tci;
  p.qpn = fields.src_qpn;
  p.frame_bytes = roce_frame_bytes(addressing, fields.opcode, length);
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.node = position;
  p.real = real;
  uint8_t* frame = pool_.buffer(id);
  std::memcpy(begin_roce(frame, addressing, fields, length), bytes.data(), length);
  finish_roce(frame, addressing, fields.opcode, length);
  p.addressing = addressing;  // of the frame, for faults
  p.out.fields = fields;
  p.out.payload_bytes = length;
  ++counters_of(real).tx_roce;
  return id;
}

ReplyStatus Shard::send_datagram(const Datagram& datagram, NodeId node, Time now) {
  const NodeNic* from = config_.nodes.find(node, datagram.addressing.src);
  if (from == nullptr) return ReplyStatus::kNoSuchObject;
  RoceFields fields;
  fields.opcode = Opcode::kUdSendOnly;
  fields.pkey = kGsiPkey;
  fields.dest_qpn = fields.src_qpn = kGsiQpn;
  fields.qkey = kGsiQkey;
  fields.psn = gsi_psn_;
  const uint32_t id =
      make_datagram(config_.nodes.position(*from), datagram.addressing, fields, datagram.bytes);
  if (id == kNoPacket) return ReplyStatus::kTableFull;
  gsi_psn_ = gsi_psn_.next();
  send_raw(id, now);
  return ReplyStatus::kDone;
}

ReplyStatus Shard::reach(const Datagram& datagram, NodeId node) {
  const NodeNic* from = config_.nodes.find(node, datagram.addressing.src);
  if (from == nullptr) return ReplyStatus::kNoSuchObject;
  const uint32_t real = real_for(datagram.addressing.dst, config_.nodes.position(*from));
  if (config_.nodes.nics()[real].mac_known) return ReplyStatus::kDone;
  unresolved_ = {from, datagram.addressing.src, datagram.addressing.dst};
  return ReplyStatus::kUnresolved;
}

void Shard::tell(Time now, const Qp& qp, NoticeKind kind, std::span<const uint8_t> bytes) {
  const QpConfig& c = qp.config();
  notify({kind, c.qpn, now, c.addressing.src, c.addressing.dst}, bytes);
}

void Shard::notify(const Notice& notice, std::span<const uint8_t> bytes) {
  if (!push_notice(notices_, notice, bytes)) ports_.front().counters.drop(Drop::kControlBusy);
}

}  // namespace understudy
