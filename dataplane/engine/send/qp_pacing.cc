#include "dataplane/engine/send/qp_pacing.h"

#include <algorithm>

namespace understudy {

bool QpPacing::try_start(uint32_t slot, uint32_t line, Time now) {
  QpSlot& q = qps_[slot];
  const NextPacket next = q.qp->next(now, kind_of(line));
  if (q.control == nullptr || next == NextPacket::kNone || next == NextPacket::kAck) {
    return next != NextPacket::kNone;
  }
  if (next == NextPacket::kRequest && !q.control->window_open(q.qp->next_psn())) return false;
  if (q.control->next() <= now) return true;
  // At the link's rate a NIC with a queue is handed packets before their time.
  if (hands_ahead(q.node) && !q.control->slower_than(config_.rates[q.node])) return true;
  if (q.control->pace_alarm().set(q.control->next())) {
    events_.push(q.control->next(), EventKind::kPace, slot);
  }
  return false;
}

void QpPacing::note_paced_start(QpControl& control, const Packet& p, uint32_t slot, Time now) {
  const OpcodeInfo& info = opcode_info(p.out.fields.opcode);
  if (info.kind == OpKind::kAck && !info.atomic_ack) return;
  control.left(now, p.wire_bytes);
  if (info.is_request()) {
    const Psn first = p.out.fields.psn;
    const auto opcode = static_cast<uint8_t>(p.out.fields.opcode);
    const bool is_data = info.kind == OpKind::kSend || info.kind == OpKind::kWrite;
    control.log().left(first, first.advance(qps_.psns_of(opcode, p.out.fields.dma_length, slot)),
                       now, p.out.payload_bytes, is_data);
  }
  set_controller_alarm(slot);
}

bool QpPacing::on_cnp(uint32_t slot, Time now) {
  ++ports_.counters_of(qps_[slot].real).cnp_received;
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return false;
  control->on_cnp(now);
  set_controller_alarm(slot);
  return true;
}

void QpPacing::set_controller_alarm(uint32_t slot) {
  QpControl& control = *qps_[slot].control;
  const Time at = control.deadline();
  if (control.controller_alarm().set(at)) events_.push(at, EventKind::kController, slot);
}

bool QpPacing::on_pace_alarm(uint32_t slot, Time now) {
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return false;  // of a queue pair that has gone
  control->pace_alarm().rung(now);
  return true;
}

bool QpPacing::on_controller_alarm(uint32_t slot, Time now) {
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return false;
  control->controller_alarm().rung(now);
  control->on_timer(now);
  set_controller_alarm(slot);
  return true;
}

void QpPacing::remove(uint32_t slot) {
  QpControl*& control = qps_[slot].control;
  if (control == nullptr) return;
  users_[control->user()].add(control->counters());
  control = nullptr;
}

void QpPacing::snapshot(std::vector<ControlCounters>& out) const {
  std::copy(users_.begin(), users_.end(), out.begin());
  for (const QpSlot& q : qps_) {
    if (q.control != nullptr) out[q.control->user()].add(q.control->counters());
  }
}

}  // namespace understudy
