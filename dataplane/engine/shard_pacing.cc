// Queue pairs under congestion control: which of them may send now, when the others are asked
// again, and what their laws hear.
#include "dataplane/engine/shard.h"

namespace understudy {

/// Whether the queue pair in `slot` has a packet of this class that may start now. Where only its
/// pacing forbids it, it is asked again when that allows it. ACKs and NAKs are never held back.
bool Shard::sends(uint32_t slot, uint32_t line, Time now) {
  QpSlot& q = qps_[slot];
  const NextPacket next = q.qp->next(now, kind_of(line));
  if (q.control == nullptr || next == NextPacket::kNone || next == NextPacket::kAck) {
    return next != NextPacket::kNone;
  }
  if (next == NextPacket::kRequest && !q.control->window_open(q.qp->next_psn())) return false;
  if (q.control->next() <= now) return true;
  if (q.control->pace_alarm().set(q.control->next())) {
    events_.push(q.control->next(), EventKind::kPace, slot);
  }
  return false;
}

/// A packet of the queue pair in `slot` starts.
void Shard::note_start(const Packet& p, uint32_t slot, Time now) {
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return;
  const OpcodeInfo& info = opcode_info(p.out.fields.opcode);
  if (info.kind == OpKind::kAck && !info.atomic_ack) return;
  control->left(now, p.wire_bytes);
  if (info.is_request()) {
    const Psn first = p.out.fields.psn;
    const auto opcode = static_cast<uint8_t>(p.out.fields.opcode);
    const bool is_data = info.kind == OpKind::kSend || info.kind == OpKind::kWrite;
    control->log().left(first, first.advance(psns_of(opcode, p.out.fields.dma_length, slot)), now,
                        p.out.payload_bytes, is_data);
  }
  set_law_alarm(slot);
}

/// A packet of the peer has been handled.
void Shard::note_answer(uint32_t slot, Time now) {
  const QpSlot& q = qps_[slot];
  if (q.control == nullptr) return;
  q.control->acknowledged(now, q.qp->unacknowledged());
  set_law_alarm(slot);
}

/// A CNP of the real node, for the queue pair in `slot`.
void Shard::hear_cnp(uint32_t slot, Time now) {
  ++counters_of(qps_[slot].real).cnp_received;
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return;
  control->on_cnp(now);
  set_law_alarm(slot);
  kick(slot, now);
}

void Shard::set_law_alarm(uint32_t slot) {
  QpControl& control = *qps_[slot].control;
  const Time at = control.deadline();
  if (control.law_alarm().set(at)) events_.push(at, EventKind::kLaw, slot);
}

void Shard::on_pace(uint32_t slot, Time now) {
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return;  // of a queue pair that has gone
  control->pace_alarm().rung(now);
  kick(slot, now);
}

void Shard::on_law(uint32_t slot, Time now) {
  QpControl* control = qps_[slot].control;
  if (control == nullptr) return;
  control->law_alarm().rung(now);
  control->on_timer(now);
  set_law_alarm(slot);
  kick(slot, now);
}

/// The queue pair in `slot` goes; what it came to stays.
void Shard::end_control(uint32_t slot) {
  QpControl*& control = qps_[slot].control;
  if (control == nullptr) return;
  control_users_[control->user()].add(control->counters());
  control = nullptr;
}

}  // namespace understudy
