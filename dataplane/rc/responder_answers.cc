// What a responder still has to say: one pending ACK or NAK, READ responses and ATOMIC ACKs in the
// order of their requests, and the answers to duplicates.
#include <algorithm>

#include "dataplane/rc/credits.h"
#include "dataplane/rc/responder.h"

namespace understudy {

uint8_t Responder::ack_syndrome() const {
  const bool limited = base_.config.flow_control && !endless_ && sink_ == nullptr;
  return kSyndromeAck | (limited ? credit_code(receives_) : kNoCredits);
}

void Responder::acknowledge(Psn psn, uint8_t syndrome) {
  ack_withheld_ = ack_pending_ && (!nak_pending() || ack_withheld_);
  ack_pending_ = true;
  ack_psn_ = psn;
  ack_syndrome_ = syndrome;
  ack_msn_ = msn_;
  ack_before_answers_ = answers_ == 0;
}

/// What it asks for has come before it left, for READ data goes first. The ACK that it stood for is
/// still due.
void Responder::take_nak_back() {
  ack_pending_ = false;
  if (ack_withheld_) acknowledge_again();
}

void Responder::pull_ack(OutPacket& out) {
  out.clear();
  out.fields.opcode = Opcode::kAcknowledge;
  out.fields.psn = ack_psn_;
  out.fields.syndrome = ack_syndrome_;
  out.fields.msn = ack_msn_;
  ack_pending_ = false;
  const uint8_t kind = ack_syndrome_ & kSyndromeKindMask;
  if (kind == kSyndromeAck) count(base_.counters, RcEvent::kAckSent);
  if (kind == kSyndromeNak) count(base_.counters, RcEvent::kNakSent);
}

/// A new request at the limit means that the oldest answer has come to the requester by now: if it
/// still waits here, it is a repeat that was asked for before a late answer came.
bool Responder::room_for_answer() {
  if (answers_ != 0 && answers_ == base_.config.max_dest_rd_atomic &&
      answer(first_answer_).repeat) {
    pop_answer();
  }
  return answers_ < base_.config.max_dest_rd_atomic;
}

/// One of the pool, if need be the one that has been there for the longest time only to be
/// remembered; kNone if all wait for their turn.
uint32_t Responder::take_answer() {
  uint32_t i = pool().take();
  if (i != kNone) return i;
  const uint32_t oldest = pool().idle_longest();
  if (oldest == kNone) return kNone;
  Responder& owner = *answer(oldest).owner;
  owner.lost_reads_ |= answer(oldest).kind == OpKind::kReadRequest;
  owner.forget(oldest);
  return pool().take();
}

/// There is one in the pool.
void Responder::accept(const Answer& request) {
  msn_ = (msn_ + 1) & Psn::kMask;  // a READ counts at acceptance (rule A4, C9-148)
  const uint32_t i = take_answer();
  Answer& accepted = answer(i);
  accepted = request;
  accepted.owner = this;
  accepted.msn = msn_;
  epsn_ = accepted.psn.advance(accepted.packets);
  push_answer(i);
  remember(i);
}

void Responder::remember(uint32_t i) {
  if (remembered_ == most_remembered()) forget(oldest_);
  Answer& a = answer(i);
  a.remembered = true;
  a.older = newest_;
  a.newer = kNone;
  (newest_ == kNone ? oldest_ : answer(newest_).newer) = i;
  newest_ = i;
  ++remembered_;
}

void Responder::forget(uint32_t i) {
  Answer& a = answer(i);
  (a.older == kNone ? oldest_ : answer(a.older).newer) = a.newer;
  (a.newer == kNone ? newest_ : answer(a.newer).older) = a.older;
  --remembered_;
  a.remembered = false;
  if (a.waits) return;
  pool().unset_idle(i);
  pool().give_back(i);
}

/// A new request's: newer than all that waits.
void Responder::push_answer(uint32_t i) {
  Answer& a = answer(i);
  if (ack_pending_ && answers_ == 0) {
    ack_before_answers_ = ack_psn_.distance_from(a.psn) < 0;
  }
  a.waits = true;
  a.behind = kNone;
  (first_answer_ == kNone ? first_answer_ : answer(last_answer_).behind) = i;
  last_answer_ = i;
  ++answers_;
}

void Responder::pop_answer() {
  const uint32_t i = first_answer_;
  first_answer_ = answer(i).behind;
  if (first_answer_ == kNone) last_answer_ = kNone;
  --answers_;
  end_wait(i);
}

void Responder::end_wait(uint32_t i) {
  answer(i).waits = false;
  if (answer(i).remembered) {
    pool().set_idle(i);
  } else {
    pool().give_back(i);
  }
}

void Responder::drop_answers() {
  ack_pending_ = false;
  while (answers_ != 0) pop_answer();
}

void Responder::forget_answers() {
  drop_answers();
  while (remembered_ != 0) forget(oldest_);
  lost_reads_ = false;
}

/// Newest first: after 2^24 PSNs an old one may look like it.
uint32_t Responder::remembered(const RoceView& packet) const {
  for (uint32_t i = newest_; i != kNone; i = answer(i).older) {
    const int32_t skip = packet.psn.distance_from(answer(i).psn);
    if (skip >= 0 && skip < static_cast<int32_t>(answer(i).packets)) return i;
  }
  return kNone;
}

void Responder::duplicate(const RoceView& packet) {
  count(base_.counters, RcEvent::kDuplicateRequest);
  const OpKind kind = packet.info().kind;
  if (kind != OpKind::kReadRequest && kind != OpKind::kAtomicRequest) {
    // Not executed again.
    if (!nak_pending()) return acknowledge_again();
    ack_withheld_ = true;
    return;
  }
  const uint32_t old = remembered(packet);
  if (old == kNone && lost_reads_ && kind == OpKind::kReadRequest) return execute_again(packet);
  if (old == kNone) return count(base_.counters, RcEvent::kDuplicateDropped);
  const Answer& first = answer(old);
  const uint64_t offset =
      static_cast<uint64_t>(packet.psn.distance_from(first.psn)) * base_.config.mtu;
  const bool same =
      first.kind == kind && packet.rkey == first.rkey && packet.va == first.va + offset;
  if (!same || (kind == OpKind::kReadRequest && packet.dma_length > first.length - offset)) {
    return count(base_.counters, RcEvent::kDuplicateDropped);
  }
  repeat(old, packet);
}

/// The newest PSN once more (rule A4, C9-105), but never that of a READ or ATOMIC: its answer may
/// be lost, and rdma_rxe takes a plain ACK of that PSN for it.
void Responder::acknowledge_again() {
  Psn psn = epsn_.advance(Psn::kMask);
  uint32_t msn = msn_;
  for (uint32_t i = newest_; i != kNone; i = answer(i).older) {
    const Answer& last = answer(i);
    const int32_t into = psn.distance_from(last.psn);
    if (into < 0 || into >= static_cast<int32_t>(last.packets)) break;
    psn = last.psn.advance(Psn::kMask);
    msn = (last.msn + Psn::kMask) & Psn::kMask;
  }
  if (ack_pending_ && ack_psn_.distance_from(psn) > 0) return;  // it says as much
  acknowledge(psn, ack_syndrome());
  ack_msn_ = msn;
  ack_before_answers_ = answers_ == 0 || psn.distance_from(answer(first_answer_).psn) < 0;
}

void Responder::repeat(uint32_t old, const RoceView& packet) {
  const Answer& first = answer(old);
  Answer again = first;
  again.sent = 0;
  if (first.kind == OpKind::kReadRequest) {
    again.psn = packet.psn;
    again.va = packet.va;
    again.length = packet.dma_length;
    again.packets = packets_for(packet.dma_length);
  }
  put_repeat(again, first.psn, first.packets);
}

/// A READ that had to be forgotten is executed like a new one, but for what it counts.
void Responder::execute_again(const RoceView& packet) {
  Answer again{};
  again.kind = OpKind::kReadRequest;
  again.owner = this;
  again.psn = packet.psn;
  again.packets = packets_for(packet.dma_length);
  again.va = packet.va;
  again.rkey = packet.rkey;
  again.length = packet.dma_length;
  again.msn = msn_;
  put_repeat(again, again.psn, again.packets);
}

/// What waits for the request with these PSNs is replaced. What waits for others stays, in the
/// order of PSNs: the duplicates that ask for it again may be lost on their way.
void Responder::put_repeat(const Answer& again, Psn first, uint32_t packets) {
  uint32_t before = kNone, at = first_answer_;
  while (at != kNone && answer(at).psn.distance_from(first) < 0) {
    before = at;
    at = answer(at).behind;
  }
  const bool replaces =
      at != kNone && answer(at).psn.distance_from(first) < static_cast<int32_t>(packets);
  // What is remembered stays as it was.
  uint32_t fresh = replaces && !answer(at).remembered ? at : kNone;
  if (fresh == kNone && (replaces || answers_ < base_.config.max_dest_rd_atomic))
    fresh = take_answer();
  if (fresh == kNone) return count(base_.counters, RcEvent::kDuplicateDropped);
  const uint32_t behind = replaces ? answer(at).behind : at;
  answer(fresh) = again;
  answer(fresh).repeat = answer(fresh).waits = true;
  answer(fresh).remembered = false;
  answer(fresh).behind = behind;
  if (fresh != at) {
    (before == kNone ? first_answer_ : answer(before).behind) = fresh;
    if (behind == kNone) last_answer_ = fresh;
    if (replaces) end_wait(at);
  }
  if (replaces) return;
  // A repeat may be older than the ACK that waits, which would make its data look lost.
  if (ack_pending_ && before == kNone && (answers_ == 0 || ack_before_answers_)) {
    ack_before_answers_ = ack_psn_.distance_from(again.psn) < 0;
  }
  ++answers_;
}

bool Responder::pull_answer(OutPacket& out) {
  Answer& next = answer(first_answer_);
  out.clear();
  out.fields.psn = next.psn.advance(next.sent);
  out.fields.msn = next.msn;
  out.fields.syndrome = ack_syndrome();
  if (next.kind == OpKind::kAtomicRequest) {
    out.fields.opcode = Opcode::kAtomicAcknowledge;
    out.fields.atomic_original = next.original;
    pop_answer();
    return true;
  }
  const bool first = next.sent == 0;
  const bool last = next.sent + 1 == next.packets;
  const uint32_t offset = next.sent * base_.config.mtu;
  out.fields.opcode = first ? (last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst)
                            : (last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle);
  out.payload_bytes = std::min(base_.config.mtu, next.length - offset);
  if (out.payload_bytes > 0) {
    const Region* region = accessible(next.rkey, kAccessRemoteRead, next.va, next.length);
    if (region == nullptr) {
      count(base_.counters, RcEvent::kRemoteAccess);
      count(base_.counters, RcEvent::kNakSent);
      out.payload_bytes = 0;
      out.fields.opcode = Opcode::kAcknowledge;
      out.fields.syndrome = kSyndromeNak | static_cast<uint8_t>(NakCode::kRemoteAccess);
      drop_answers();
      return false;
    }
    out.payload = region->contents(next.va - region->va + offset);
  }
  ++next.sent;
  if (last) pop_answer();
  return true;
}

}  // namespace understudy
