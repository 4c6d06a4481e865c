// QP1 of every emulated node: datagrams of the communication manager cross the fabric like any
// other packet, and are control's business at both ends.
#include <cstring>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {
constexpr uint16_t kGsiPkey = 0xffff;  ///< full member of the default partition
}

void Shard::rx_gsi(const FrameView& view, const RoceView& roce, Time now) {
  if (roce.opcode != static_cast<uint8_t>(Opcode::kUdSendOnly)) {
    return here().counters.drop(Drop::kUnknownQpn);  // no connection has this number
  }
  const NodeNic* node = config_.nodes.find(view.dst);
  const NodeNic* from = config_.nodes.find(view.src);
  if (node == nullptr || node->real || from == nullptr || !from->real) {
    return here().counters.drop(Drop::kWrongAddress);
  }
  if (!pkey_matches(roce.pkey, kGsiPkey)) return here().counters.drop(Drop::kWrongPkey);
  if (roce.qkey != kGsiQkey) return here().counters.drop(Drop::kWrongQkey);
  learn_mac(view.src, view.src_mac);
  const uint32_t position = config_.nodes.position(*node);
  if (faults_.active()) {
    return rx_through_faults(view, roce, faults_.datagram_slot(position), now);
  }
  const uint32_t id = store_datagram(view, roce, position, now);
  if (id != kNoPacket) events_.push(now, EventKind::kLinkArrive, id);
}

/// As store() for QP1 of the node at `position`.
uint32_t Shard::store_datagram(const FrameView& view, const RoceView& roce, uint32_t position,
                               Time now) {
  const uint32_t id = take_inbound(PacketKind::kFromReal, view, position, now);
  if (id == kNoPacket) return kNoPacket;
  Packet& p = pool_[id];
  p.qpn = kGsiQpn;
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

ReplyStatus Shard::send_datagram(const Datagram& datagram, NodeId node, Time now) {
  const NodeNic* from = config_.nodes.find(node, datagram.addressing.src);
  if (from == nullptr) return ReplyStatus::kNoSuchObject;
  const uint32_t position = config_.nodes.position(*from);
  const uint32_t real = real_for(datagram.addressing.dst, position);
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) {
    counters_of(real).drop(Drop::kNoBuffer);
    return ReplyStatus::kTableFull;
  }
  RoceAddressing addressing = datagram.addressing;
  if (addressing.dst_mac == MacAddress{}) addressing.dst_mac = config_.nodes.nics()[real].mac;
  RoceFields fields;
  fields.opcode = Opcode::kUdSendOnly;
  fields.pkey = kGsiPkey;
  fields.dest_qpn = fields.src_qpn = kGsiQpn;
  fields.qkey = kGsiQkey;
  fields.psn = gsi_psn_;
  gsi_psn_ = gsi_psn_.next();
  const auto bytes = static_cast<uint32_t>(datagram.bytes.size());
  Packet& p = pool_[id];
  p.kind = PacketKind::kRaw;
  p.damaged = p.ce = false;
  p.tos = addressing.traffic_class;
  p.udp_src = addressing.udp_src;
  p.vlan_tci = addressing.vlan_tci;
  p.qpn = kGsiQpn;
  p.frame_bytes = roce_frame_bytes(addressing, fields.opcode, bytes);
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.node = position;
  p.real = real;
  uint8_t* frame = pool_.buffer(id);
  std::memcpy(begin_roce(frame, addressing, fields, bytes), datagram.bytes.data(), bytes);
  finish_roce(frame, addressing, fields.opcode, bytes);
  p.addressing = addressing;  // of the frame, for faults
  p.out.fields = fields;
  p.out.payload_bytes = bytes;
  ++counters_of(real).tx_roce;
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
