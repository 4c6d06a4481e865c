// The responder's side: ACKs, NAKs, READ and ATOMIC responses (rule A4).
#include <algorithm>

#include "tools/roce_check/request_stream.h"

namespace understudy {

void RequestStream::response(const PacketRecord& p) {
  const bool read = p.info().kind == OpKind::kReadResponse;
  const bool atomic = p.info().atomic_ack;
  const Check check = read || atomic ? Check::kReads : Check::kAcks;
  findings_.checked(check);
  ++counts_.responses;
  if (!started_) {
    findings_.add(check, p.frame, name_ + ": answers, but nothing was asked");
    return;
  }
  const int64_t psn = extended(p.psn);
  if (psn >= next_ || psn < first_) {
    fault(check, p.frame, psn, std::string(p.info().name) + " for a PSN that was not sent");
    return;
  }
  const uint8_t kind = p.syndrome & kSyndromeKindMask;
  const bool is_ack = !p.info().aeth || kind == kSyndromeAck;
  if (psn < base_) ++counts_.repeated_responses;
  if (p.info().aeth) check_msn(p, psn, !is_ack);
  if (read) {
    acknowledge(psn - 1, p.frame);
    read_response(p, psn);
  } else if (atomic) {
    acknowledge(psn - 1, p.frame);
    atomic_response(p, psn);
  } else if (is_ack) {
    ++counts_.acks;
    acknowledge(psn, p.frame);
  } else {
    nak(p, psn);
  }
  retire();
}

/// An ACK covers all SENDs and WRITEs up to its PSN; a READ needs its data.
void RequestStream::acknowledge(int64_t psn, uint64_t frame) {
  for (acked_ = std::max(acked_, base_); acked_ <= psn; ++acked_) {
    Slot& s = *slot(acked_);
    if (!s.answer) s.answered_frame = frame;
  }
}

void RequestStream::nak(const PacketRecord& p, int64_t psn) {
  const uint8_t kind = p.syndrome & kSyndromeKindMask;
  const uint8_t value = p.syndrome & kSyndromeValueMask;
  if (kind != kSyndromeRnrNak && (kind != kSyndromeNak || value > 4)) {
    fault(Check::kAcks, p.frame, psn,
          "AETH syndrome " + std::to_string(p.syndrome) + " is illegal");
    return;
  }
  acknowledge(psn - 1, p.frame);
  if (kind == kSyndromeRnrNak) {
    ++counts_.rnr_naks;
  } else {
    ++counts_.naks[value];
    broken_ |= value != static_cast<uint8_t>(NakCode::kPsnSequence);
    if (value == static_cast<uint8_t>(NakCode::kPsnSequence) && psn + 1 >= next_) {
      fault(Check::kAcks, p.frame, psn, "NAK for a gap, but no later packet was sent");
    }
  }
  if (Slot* s = slot(psn); s != nullptr && !broken_) s->nak_frame = p.frame;
}

void RequestStream::read_response(const PacketRecord& p, int64_t psn) {
  Slot* s = slot(psn);
  if (s == nullptr) return;  // repeated
  if (opcode_info(s->opcode).kind != OpKind::kReadRequest || !s->known) {
    fault(Check::kReads, p.frame, psn, "READ response, but the request was no READ");
    return;
  }
  const bool last = s->dma_length <= pmtu_;
  const bool may_start = s->read_start;
  const bool must_start = s->read_first;
  const OpcodeInfo& info = p.info();
  if (info.end != last || (info.start && !may_start) || (!info.start && must_start)) {
    fault(Check::kReads, p.frame, psn, std::string(info.name) + " does not fit the request");
  }
  if (p.payload_bytes != s->bytes) {
    fault(Check::kLengths, p.frame, psn,
          std::string(info.name) + " of " + std::to_string(p.payload_bytes) + " bytes, expected " +
              std::to_string(s->bytes));
  }
  s->answers.push_back(p.frame);
}

void RequestStream::atomic_response(const PacketRecord& p, int64_t psn) {
  Slot* s = slot(psn);
  if (s == nullptr) return;  // repeated
  if (!s->known || opcode_info(s->opcode).kind != OpKind::kAtomicRequest) {
    fault(Check::kReads, p.frame, psn, "ATOMIC response, but the request was no ATOMIC");
    return;
  }
  s->answers.push_back(p.frame);
}

/// The MSN counts completed messages; a READ counts when it is accepted. It may run ahead of the
/// PSN that is acknowledged, never behind.
void RequestStream::check_msn(const PacketRecord& p, int64_t psn, bool is_nak) {
  const auto step = Psn(p.msn).distance_from(Psn(low(msn_)));
  const int64_t msn = msn_seen_ ? msn_ + step : static_cast<int64_t>(p.msn);
  const auto sent =
      static_cast<int64_t>(window_.empty() ? retired_messages_ : window_.back().messages);
  const int64_t covered = is_nak ? psn - 1 : psn;
  const Slot* s = slot(covered);
  const auto completed = static_cast<int64_t>(s != nullptr ? s->messages : retired_messages_);
  const bool repeated = covered < base_ - 1;
  if (!msn_seen_) {
    msn_seen_ = true;
    msn_exact_ = msn >= completed && msn <= sent;
    msn_ = msn;
    msn_psn_ = psn;
    return;
  }
  const std::string text = "MSN " + std::to_string(p.msn);
  if (psn >= msn_psn_ && msn < msn_) {
    fault(Check::kAcks, p.frame, psn, text + " after " + std::to_string(low(msn_)));
  } else if (msn_exact_ && holes_ == 0 && (msn > sent || (!repeated && msn < completed))) {
    fault(Check::kAcks, p.frame, psn,
          text + ", but " + std::to_string(completed) + " to " + std::to_string(sent) +
              " messages are complete");
  }
  if (psn >= msn_psn_) {
    msn_psn_ = psn;
    msn_ = std::max(msn_, msn);
  }
}

}  // namespace understudy
