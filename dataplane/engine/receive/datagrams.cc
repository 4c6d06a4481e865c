#include "dataplane/engine/receive/datagrams.h"

#include <cstring>

namespace understudy {
namespace {

constexpr uint16_t kGsiPkey = 0xffff;  ///< full member of the default partition

}  // namespace

Datagrams::Datagrams(ShardState& state, InboundPackets& inbound, FaultPath& faults,
                     NetworkSide& network)
    : state_(state),
      config_(state.config),
      pool_(state.pool),
      qps_(state.qps),
      ports_(state.ports),
      injector_(state.faults),
      inbound_(inbound),
      faults_(faults),
      network_(network) {}

/// Datagrams are taken from any queue pair of any real node.
bool Datagrams::is_from_real_node(const FrameView& view, const NodeNic* to) const {
  const NodeNic* from = config_.nodes.find(view.src);
  return to != nullptr && !to->real && from != nullptr && from->real && ports_.is_here(*from);
}

void Datagrams::receive_gsi(const FrameView& view, const RoceView& roce, Time now) {
  if (roce.opcode != static_cast<uint8_t>(Opcode::kUdSendOnly)) {
    return ports_.here().counters.drop(Drop::kUnknownQpn);  // no connection has this number
  }
  const NodeNic* node = config_.nodes.find(view.dst);
  if (!is_from_real_node(view, node)) return ports_.here().counters.drop(Drop::kWrongAddress);
  if (!pkey_matches(roce.pkey, kGsiPkey)) return ports_.here().counters.drop(Drop::kWrongPkey);
  if (roce.qkey != kGsiQkey) return ports_.here().counters.drop(Drop::kWrongQkey);
  ports_.learn_mac(view.src, view.src_mac);
  const uint32_t position = config_.nodes.position(*node);
  if (injector_.active()) {
    return faults_.receive(view, roce, injector_.datagram_slot(position), now);
  }
  const uint32_t id = inbound_.store_datagram(view, roce, position, now);
  if (id != kNoPacket) network_.accept(id, now);
}

void Datagrams::receive(const FrameView& view, const RoceView& roce, uint32_t slot, Time now) {
  const DatagramQp* qp = qps_.rest(slot).datagrams;
  if (qp == nullptr) return ports_.here().counters.drop(Drop::kUnknownQpn);
  if (!roce.info().deth) return ports_.here().counters.drop(Drop::kBadOpcode);
  if (view.dst != qp->addressing.src ||
      !is_from_real_node(view, &config_.nodes.nics()[qps_[slot].node])) {
    return ports_.here().counters.drop(Drop::kWrongAddress);
  }
  if (!pkey_matches(roce.pkey, qp->pkey)) return ports_.here().counters.drop(Drop::kWrongPkey);
  if (roce.qkey != qp->qkey) return ports_.here().counters.drop(Drop::kWrongQkey);
  if (roce.payload_bytes > qp->mtu) return ports_.here().counters.drop(Drop::kTooLong);
  ports_.learn_mac(view.src, view.src_mac);
  if (injector_.active()) return faults_.receive(view, roce, slot, now);
  const uint32_t id = inbound_.store(view, roce, slot, now);
  if (id != kNoPacket) network_.accept(id, now);
}

void Datagrams::deliver_gsi(uint32_t packet, Time now) {
  const Packet& p = pool_[packet];
  state_.notify_from(p.real, {NoticeKind::kMad, kGsiQpn, now, p.addressing.dst, p.addressing.src},
                     {pool_.buffer(packet), p.view.payload_bytes});
  pool_.release(packet);
}

void Datagrams::echo(uint32_t packet, uint32_t slot, Time now) {
  const Packet& p = pool_[packet];
  DatagramQp& qp = *qps_.rest(slot).datagrams;
  if (marked(p.tos) || p.ce) ++ports_.counters_of(p.real).ce_delivered;
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
  const uint32_t id =
      make(qps_[slot].node, addressing, fields, {pool_.buffer(packet), p.view.payload_bytes});
  pool_.release(packet);
  if (id == kNoPacket) return;
  pool_[id].owner = qps_[slot].generation;
  network_.send_finished(id, now);
}

/// A finished datagram of the NIC at `position`; kNoPacket, and counted, if there is no room. An
/// unset destination MAC is the real NIC's.
uint32_t Datagrams::make(uint32_t position, RoceAddressing addressing, const RoceFields& fields,
                         std::span<const uint8_t> bytes) {
  const uint32_t real = ports_.nic_toward(addressing.dst, position);
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) {
    ports_.counters_of(real).drop(Drop::kNoBuffer);
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
  ++ports_.counters_of(real).tx_roce;
  return id;
}

ReplyStatus Datagrams::send(const Datagram& datagram, NodeId node, Time now) {
  const NodeNic* from = config_.nodes.find(node, datagram.addressing.src);
  if (from == nullptr) return ReplyStatus::kNoSuchObject;
  RoceFields fields;
  fields.opcode = Opcode::kUdSendOnly;
  fields.pkey = kGsiPkey;
  fields.dest_qpn = fields.src_qpn = kGsiQpn;
  fields.qkey = kGsiQkey;
  fields.psn = gsi_psn_;
  const uint32_t id =
      make(config_.nodes.position(*from), datagram.addressing, fields, datagram.bytes);
  if (id == kNoPacket) return ReplyStatus::kTableFull;
  gsi_psn_ = gsi_psn_.next();
  network_.send_finished(id, now);
  return ReplyStatus::kDone;
}

}  // namespace understudy
