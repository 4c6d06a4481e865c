// What the peer's answers mean to a requester: ACK, NAK, RNR NAK, READ responses, ATOMIC ACKs.
#include <algorithm>
#include <cstring>

#include "dataplane/rc/credits.h"
#include "dataplane/rc/requester.h"

namespace understudy {

namespace {

uint8_t kind_of(const RoceView& packet) { return packet.syndrome & kSyndromeKindMask; }

}  // namespace

void Requester::on_response(Time now, const RoceView& packet, const uint8_t* payload) {
  if (failed_) return;
  // Outside [una, sent): an answer to nothing we have in flight (rule A5, "ghost").
  if (packet.psn.distance_from(una_) < 0 || packet.psn.distance_from(sent_) >= 0) {
    return count(base_.counters, RcEvent::kGhostAck);
  }
  if (packet.info().kind == OpKind::kReadResponse || packet.info().atomic_ack) {
    return on_answer(now, packet, payload);
  }
  count(base_.counters, RcEvent::kAckReceived);
  switch (kind_of(packet)) {
    case kSyndromeAck:
      take_credits(packet);
      return on_ack(now, packet.psn);
    case kSyndromeRnrNak:
      return on_rnr_nak(now, packet);
    case kSyndromeNak:
      return on_nak(now, packet);
    default:  // reserved
      return count(base_.counters, RcEvent::kGhostAck);
  }
}

void Requester::take_credits(const RoceView& packet) {
  if (!base_.config.flow_control) return;
  const uint8_t code = packet.syndrome & kSyndromeValueMask;
  credits_limit_ = code != kNoCredits;
  const Psn last(packet.msn + (credits_limit_ ? kCreditsOfCode[code] : 0));
  // What was promised once stays promised.
  if (last.distance_from(Psn(last_ssn_)) > 0) last_ssn_ = last.value();
}

void Requester::on_ack(Time now, Psn psn) {
  const Psn reached = acknowledge_before(now, psn.next());
  if (reached == psn.next()) return;
  // Something behind a READ was acknowledged, so its response was lost: implied NAK (rule A5).
  count(base_.counters, RcEvent::kImpliedNak);
  go_back(now, reached);
}

uint32_t Requester::open_before(Psn psn) const {
  for (uint32_t i = 0; i < count_ && entry(i).psn.distance_from(psn) <= 0; ++i) {
    if (entry(i).open()) return i;
  }
  return count_;
}

Psn Requester::acknowledge_before(Time now, Psn end) {
  const uint32_t open = open_before(end.advance(Psn::kMask));
  const Psn reached = open == count_ ? end : entry(open).psn.advance(entry(open).answered);
  if (reached.distance_from(una_) <= 0) return reached;
  una_ = reached;
  complete_until(una_.advance(Psn::kMask));
  if (cursor_ < count_ && una_.distance_from(entry(cursor_).psn.advance(cursor_packet_)) > 0) {
    restart_from(una_);  // acknowledged past what a go-back was about to repeat
  }
  progress(now);
  return reached;
}

void Requester::complete_until(Psn psn) {
  while (count_ > 0) {
    const Entry& e = entry(0);
    if (psn.distance_from(e.psn.advance(e.packets - 1)) < 0 || e.open()) break;
    finish(WorkStatus::kSuccess);
  }
}

void Requester::progress(Time now) {
  retries_left_ = base_.config.retry_count;
  rnr_left_ = base_.config.rnr_retry;
  retrying_ = false;
  timer_ = Time::never();
  if (asked_.distance_from(una_) > 0) start_timer(now);
}

void Requester::go_back(Time now, Psn psn) {
  // Its cause is older than the retry under way, or than the RNR NAK that is being waited for: what
  // follows that one is sent again anyway, and Linux' driver answers it by a sequence NAK.
  if (retrying_ || now < rnr_until_) return;
  retrying_ = true;
  retry_from(psn);
}

void Requester::on_rnr_nak(Time now, const RoceView& packet) {
  count(base_.counters, RcEvent::kRnrReceived);
  if (now < rnr_until_) return;  // nothing was sent since: a copy of the one before
  const Psn reached = acknowledge_before(now, packet.psn);
  if (base_.config.rnr_retry != 7) {
    if (rnr_left_ == 0) return fail(WorkStatus::kRnrRetryExceeded, 0);
    --rnr_left_;
  }
  restart_from(reached);
  rnr_until_ = now + rnr_delay(packet.syndrome & kSyndromeValueMask);
}

void Requester::on_nak(Time now, const RoceView& packet) {
  count(base_.counters, RcEvent::kNakReceived);
  // A NAK acknowledges everything before its PSN; a READ that is still open there is repeated too.
  const Psn reached = acknowledge_before(now, packet.psn);
  const uint32_t culprit = entry_of(packet.psn);
  switch (static_cast<NakCode>(packet.syndrome & kSyndromeValueMask)) {
    case NakCode::kPsnSequence:
      return go_back(now, reached);
    case NakCode::kRemoteAccess:
      return fail(WorkStatus::kRemoteAccess, culprit);
    case NakCode::kRemoteOperational:
      return fail(WorkStatus::kRemoteOperational, culprit);
    default:
      return fail(WorkStatus::kRemoteInvalidRequest, culprit);
  }
}

/// READ responses and ATOMIC ACKs.
void Requester::on_answer(Time now, const RoceView& packet, const uint8_t* payload) {
  const uint32_t i = entry_of(packet.psn);
  const bool atomic = packet.info().atomic_ack;
  if (i == count_ || !entry(i).wants_answer || atomic != (entry(i).op != WorkOp::kRead)) {
    return count(base_.counters, RcEvent::kGhostAck);
  }
  Entry& e = entry(i);
  const uint32_t index = static_cast<uint32_t>(packet.psn.distance_from(e.psn));
  if (index < e.answered) return;  // a duplicate
  const uint32_t oldest = open_before(e.psn);
  if (oldest != i || index > e.answered) {
    count(base_.counters, RcEvent::kImpliedNak);
    return go_back(now, entry(oldest).psn.advance(entry(oldest).answered));
  }
  const uint64_t offset = uint64_t{index} * base_.config.mtu;
  const uint64_t expected = atomic ? 0 : std::min<uint64_t>(base_.config.mtu, e.length - offset);
  const bool ends = index + 1 == e.packets;
  if (packet.payload_bytes != expected || packet.info().end != ends) {
    return count(base_.counters, RcEvent::kLengthError);
  }
  if (packet.info().aeth) take_credits(packet);
  if (e.fetch.read_to != nullptr) {
    if (atomic) {
      std::memcpy(e.fetch.read_to, &packet.atomic_original, sizeof packet.atomic_original);
    } else if (expected != 0) {
      std::memcpy(e.fetch.read_to + offset, payload, expected);
    }
  }
  ++e.answered;
  una_ = packet.psn.next();
  complete_until(packet.psn);
  progress(now);
}

}  // namespace understudy
