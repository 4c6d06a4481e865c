// What a responder still has to say: one pending ACK or NAK, READ responses and ATOMIC ACKs in the
// order of their requests, and the answers to duplicates.
#include <algorithm>

#include "dataplane/rc/credits.h"
#include "dataplane/rc/responder.h"

namespace understudy {

uint8_t Responder::ack_syndrome() const {
  const bool limited = config_.flow_control && !endless_ && sink_ == nullptr;
  return kSyndromeAck | (limited ? credit_code(receives_) : kNoCredits);
}

void Responder::acknowledge(Psn psn, uint8_t syndrome) {
  ack_pending_ = true;
  ack_psn_ = psn;
  ack_syndrome_ = syndrome;
  ack_msn_ = msn_;
  ack_before_answers_ = answers_ == 0;
}

void Responder::pull_ack(OutPacket& out) {
  out.clear();
  out.fields.opcode = Opcode::kAcknowledge;
  out.fields.psn = ack_psn_;
  out.fields.syndrome = ack_syndrome_;
  out.fields.msn = ack_msn_;
  ack_pending_ = false;
  const uint8_t kind = ack_syndrome_ & kSyndromeKindMask;
  if (kind == kSyndromeAck) count(counters_, RcEvent::kAckSent);
  if (kind == kSyndromeNak) count(counters_, RcEvent::kNakSent);
}

/// A new request at the limit means that the oldest answer has come to the requester by now: if it
/// still waits here, it is a repeat that was asked for before a late answer came.
bool Responder::room_for_answer() {
  if (answers_ != 0 && answers_ == config_.max_dest_rd_atomic && queue_[first_answer_].repeat) {
    pop_answer();
  }
  return answers_ < config_.max_dest_rd_atomic;
}

void Responder::accept(const Answer& answer) {
  msn_ = (msn_ + 1) & Psn::kMask;  // a READ counts at acceptance (rule A4, C9-148)
  Answer accepted = answer;
  accepted.msn = msn_;
  epsn_ = answer.psn.advance(answer.packets);
  history_[history_next_] = accepted;
  history_next_ = (history_next_ + 1) % history_.size();
  push_answer(accepted);
}

/// A new request's: newer than all that waits.
void Responder::push_answer(const Answer& answer) {
  if (ack_pending_ && answers_ == 0) {
    ack_before_answers_ = ack_psn_.distance_from(answer.psn) < 0;
  }
  ++answers_;
  waiting(answers_ - 1) = answer;
}

void Responder::pop_answer() {
  first_answer_ = (first_answer_ + 1) % queue_.size();
  --answers_;
}

void Responder::drop_answers() {
  ack_pending_ = false;
  answers_ = 0;
}

/// Newest first: after 2^24 PSNs an old one may look like it.
const Responder::Answer* Responder::remembered(const RoceView& packet) const {
  for (size_t i = 1; i <= history_.size(); ++i) {
    const Answer& old = history_[(history_next_ + history_.size() - i) % history_.size()];
    const int32_t skip = packet.psn.distance_from(old.psn);
    if (old.packets != 0 && skip >= 0 && skip < static_cast<int32_t>(old.packets)) return &old;
  }
  return nullptr;
}

void Responder::duplicate(const RoceView& packet) {
  count(counters_, RcEvent::kDuplicateRequest);
  const OpKind kind = packet.info().kind;
  if (kind != OpKind::kReadRequest && kind != OpKind::kAtomicRequest) {
    // Not executed again.
    if (!ack_pending_ || (ack_syndrome_ & kSyndromeKindMask) == kSyndromeAck) acknowledge_again();
    return;
  }
  const Answer* old = remembered(packet);
  const uint32_t skip =
      old == nullptr ? 0 : static_cast<uint32_t>(packet.psn.distance_from(old->psn));
  const uint64_t offset = uint64_t{skip} * config_.mtu;
  const bool same = old != nullptr && old->kind == kind && packet.rkey == old->rkey &&
                    packet.va == old->va + offset;
  if (!same || (kind == OpKind::kReadRequest && packet.dma_length > old->length - offset)) {
    return count(counters_, RcEvent::kDuplicateDropped);
  }
  repeat(*old, packet);
}

/// The newest PSN once more (rule A4, C9-105), but never that of a READ or ATOMIC: its answer may
/// be lost, and rdma_rxe takes a plain ACK of that PSN for it.
void Responder::acknowledge_again() {
  Psn psn = epsn_.advance(Psn::kMask);
  uint32_t msn = msn_;
  for (size_t i = 1; i <= history_.size(); ++i) {
    const Answer& last = history_[(history_next_ + history_.size() - i) % history_.size()];
    const int32_t into = psn.distance_from(last.psn);
    if (last.packets == 0 || into < 0 || into >= static_cast<int32_t>(last.packets)) break;
    psn = last.psn.advance(Psn::kMask);
    msn = (last.msn + Psn::kMask) & Psn::kMask;
  }
  if (ack_pending_ && ack_psn_.distance_from(psn) > 0) return;  // it says as much
  acknowledge(psn, ack_syndrome());
  ack_msn_ = msn;
  ack_before_answers_ = answers_ == 0 || psn.distance_from(waiting(0).psn) < 0;
}

/// What waits for this request is replaced. What waits for others stays, in the order of PSNs: the
/// duplicates that ask for it again may be lost on their way.
void Responder::repeat(const Answer& old, const RoceView& packet) {
  size_t at = 0;
  while (at < answers_ && waiting(at).psn.distance_from(old.psn) < 0) ++at;
  const bool replaces =
      at < answers_ && waiting(at).psn.distance_from(old.psn) < static_cast<int32_t>(old.packets);
  if (!replaces && answers_ >= config_.max_dest_rd_atomic) {
    return count(counters_, RcEvent::kDuplicateDropped);
  }
  Answer again = old;
  again.repeat = true;
  if (old.kind == OpKind::kReadRequest) {
    again.psn = packet.psn;
    again.va = packet.va;
    again.length = packet.dma_length;
    again.packets = packets_for(packet.dma_length);
  }
  if (!replaces) {
    // A repeat may be older than the ACK that waits, which would make its data look lost.
    if (ack_pending_ && at == 0 && (answers_ == 0 || ack_before_answers_)) {
      ack_before_answers_ = ack_psn_.distance_from(again.psn) < 0;
    }
    ++answers_;
    for (size_t i = answers_ - 1; i > at; --i) waiting(i) = waiting(i - 1);
  }
  waiting(at) = again;
}

bool Responder::pull_answer(OutPacket& out) {
  Answer& answer = queue_[first_answer_];
  out.clear();
  out.fields.psn = answer.psn.advance(answer.sent);
  out.fields.msn = answer.msn;
  out.fields.syndrome = ack_syndrome();
  if (answer.kind == OpKind::kAtomicRequest) {
    out.fields.opcode = Opcode::kAtomicAcknowledge;
    out.fields.atomic_original = answer.original;
    pop_answer();
    return true;
  }
  const bool first = answer.sent == 0;
  const bool last = answer.sent + 1 == answer.packets;
  const uint32_t offset = answer.sent * config_.mtu;
  out.fields.opcode = first ? (last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst)
                            : (last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle);
  out.payload_bytes = std::min(config_.mtu, answer.length - offset);
  if (out.payload_bytes > 0) {
    const Region* region = accessible(answer.rkey, kAccessRemoteRead, answer.va, answer.length);
    if (region == nullptr) {
      count(counters_, RcEvent::kRemoteAccess);
      count(counters_, RcEvent::kNakSent);
      out.payload_bytes = 0;
      out.fields.opcode = Opcode::kAcknowledge;
      out.fields.syndrome = kSyndromeNak | static_cast<uint8_t>(NakCode::kRemoteAccess);
      drop_answers();
      return false;
    }
    out.payload = region->contents(answer.va - region->va + offset);
  }
  ++answer.sent;
  if (last) pop_answer();
  return true;
}

}  // namespace understudy
