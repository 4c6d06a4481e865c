#include "dataplane/engine/send/cnp_queue.h"

namespace understudy {

bool CnpQueue::answer_mark(uint32_t slot, Time now) {
  QpSlot& q = qps_[slot];
  ShardCounters& counters = ports_.counters_of(q.real);
  ++counters.ce_delivered;
  if (!config_.cnp.on || !q.qp->connected()) return false;
  QpRest& rest = qps_.rest(slot);
  if (rest.cnp_waits || (rest.cnp_sent && now - rest.last_cnp < config_.cnp.interval)) {
    ++counters.cnp_suppressed;
    return false;
  }
  rest.cnp_waits = true;
  rest.next_cnp = kNoSlot;
  Fifo& list = waiting_[q.node];
  (list.first == kNoSlot ? list.first : qps_.rest(list.last).next_cnp) = slot;
  list.last = slot;
  return true;
}

uint32_t CnpQueue::take(uint32_t node, Time now) {
  Fifo& list = waiting_[node];
  const uint32_t slot = list.first;
  const QpSlot& q = qps_[slot];
  QpRest& rest = qps_.rest(slot);
  list.first = rest.next_cnp;
  rest.cnp_waits = false;
  rest.cnp_sent = true;
  rest.last_cnp = now;
  ++ports_.counters_of(q.real).cnp_sent;
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
  p.link = link_id(node, true, config_.control_class());
  p.head = p.tail = now;
  return id;
}

void CnpQueue::remove(uint32_t slot) {
  QpRest& rest = qps_.rest(slot);
  rest.cnp_sent = false;
  if (!rest.cnp_waits) return;
  rest.cnp_waits = false;
  Fifo& list = waiting_[qps_[slot].node];
  uint32_t before = kNoSlot;
  for (uint32_t at = list.first; at != slot; at = qps_.rest(at).next_cnp) before = at;
  (before == kNoSlot ? list.first : qps_.rest(before).next_cnp) = rest.next_cnp;
  if (list.last == slot) list.last = before;
}

}  // namespace understudy
