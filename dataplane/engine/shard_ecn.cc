// Explicit congestion notification (rule A6): emulated receivers answer marked packets by CNPs, and
// CNPs of the real node find their queue pair.
#include "dataplane/engine/shard.h"

namespace understudy {

/// A packet has come in for the queue pair in `slot`: was it marked on the wire or in the fabric?
void Shard::look_for_mark(const Packet& packet, uint32_t slot, Time now) {
  if (!packet.ce && !marked(packet.tos)) return;
  QpSlot& q = qps_[slot];
  ShardCounters& counters = counters_of(q.real);
  ++counters.ce_delivered;
  if (!config_.cnp.on || !q.qp->connected()) return;
  QpRest& rest = rest_[slot];
  if (rest.cnp_waits || (rest.cnp_sent && now - rest.last_cnp < config_.cnp.interval)) {
    ++counters.cnp_suppressed;
    return;
  }
  rest.cnp_waits = true;
  rest.next_cnp = kNoSlot;
  ReadyList& list = cnps_[q.node];
  (list.first == kNoSlot ? list.first : rest_[list.last].next_cnp) = slot;
  list.last = slot;
  if (fabric_ != nullptr) return fabric_->ready(q.node, now);
  const uint32_t cls = control_class();
  pull_or_wait(q.node, cls, now);
}

/// The node's oldest CNP that waits, in front of its link; kNoPacket without one, or without a
/// packet for it. The interval to the next one counts from now.
uint32_t Shard::take_cnp(uint32_t node, Time now) {
  ReadyList& list = cnps_[node];
  const uint32_t slot = list.first;
  if (slot == kNoSlot) return kNoPacket;
  if (pool_.available(PacketSide::kOutbound) == 0) {
    starve(node * kLines + control_class());
    return kNoPacket;
  }
  const QpSlot& q = qps_[slot];
  QpRest& rest = rest_[slot];
  list.first = rest.next_cnp;
  rest.cnp_waits = false;
  rest.cnp_sent = true;
  rest.last_cnp = now;
  ++counters_of(q.real).cnp_sent;
  const QpConfig& qp = q.qp->config();
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  Packet& p = pool_[id];
  p.kind = PacketKind::kToReal;
  p.departs = p.damaged = p.ce = false;
  p.out.clear();
  p.out.fields = cnp_fields(qp.remote_qpn, qp.pkey, qp.migration);
  p.out.payload_bytes = kCnpPadBytes;
  p.addressing = qp.addressing;
  p.addressing.traffic_class = config_.cnp.traffic_class;
  if (p.addressing.vlan_tci) {
    *p.addressing.vlan_tci =
        static_cast<uint16_t>((*p.addressing.vlan_tci & 0x1fff) | config_.cnp.pcp << 13);
  }
  p.qpn = qp.qpn;
  p.owner = q.generation;
  p.node = node;
  p.real = q.real;
  p.frame_bytes = roce_frame_bytes(p.addressing, p.out.fields.opcode, p.out.payload_bytes);
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.link = link_id(node, true, control_class());
  p.head = p.tail = now;
  return id;
}

/// The queue pair in `slot` goes: so does its CNP.
void Shard::forget_cnp(uint32_t slot) {
  QpRest& rest = rest_[slot];
  rest.cnp_sent = false;
  if (!rest.cnp_waits) return;
  rest.cnp_waits = false;
  ReadyList& list = cnps_[qps_[slot].node];
  uint32_t before = kNoSlot;
  for (uint32_t at = list.first; at != slot; at = rest_[at].next_cnp) before = at;
  (before == kNoSlot ? list.first : rest_[before].next_cnp) = rest.next_cnp;
  if (list.last == slot) list.last = before;
}

}  // namespace understudy
