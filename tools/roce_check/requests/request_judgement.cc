// Judging requests as they leave the window: in PSN order, on the transmission that was accepted.
#include <algorithm>

#include "tools/roce_check/requests/request_stream.h"

namespace understudy {
namespace {

constexpr size_t kMostRetired = 4096;  // that duplicates are compared with

}  // namespace

/// What answers a slot for good, frame 0 if nothing does yet. The requester takes responses in PSN
/// order only, as it may have lost any of them behind the capture: later ones come again.
Stamp RequestStream::answer_of(const Slot& slot) const {
  if (!slot.answer) return slot.answered;
  for (size_t i = 0; i < slot.answers.size(); ++i) {
    if (slot.answers[i].frame > answered_at_.frame) return slot.answers[i];
  }
  return {};
}

void RequestStream::retire() {
  while (!window_.empty() && answer_of(window_.front()).frame != 0) {
    judge(window_.front(), base_);
    drop_front();
  }
}

void RequestStream::drop_front() {
  Slot& front = window_.front();
  holes_ -= front.known ? 0 : 1;
  retired_messages_ = front.messages;
  retired_.push_back(front);
  if (retired_.size() > kMostRetired) retired_.pop_front();
  window_.pop_front();
  retired_end_ = ++base_;
}

/// The transmission the responder took: it takes PSNs in order, so after the one of the PSN before
/// (READ slots share one packet), and before it answered; not the one that a NAK refused, but
/// perhaps a repeated one that crossed the NAK on its way.
const Stamp* RequestStream::accepted(const Slot& slot, Stamp answered) const {
  const uint64_t from = accepted_at_.frame + (slot.answer && !slot.read_first ? 0 : 1);
  for (size_t i = 0; i < slot.sent.size(); ++i) {
    const Stamp& s = slot.sent[i];
    const bool refused =
        i == 0 && s.frame < slot.nak.frame && !overtaken(slot) && !context_.impaired;
    if (!refused && s.frame >= from && s.frame < answered.frame) return &s;
  }
  return nullptr;
}

/// A later packet was seen first: a NAK may have asked for this one before it came.
bool RequestStream::overtaken(const Slot& slot) {
  return slot.revealed.frame != 0 && !slot.sent.empty();
}

/// A retransmission may have crossed the NAK on its way, so a second one before it is fine, too.
bool RequestStream::nak_ignored(const Slot& slot) {
  if (slot.nak.frame == 0 || overtaken(slot)) return false;
  return slot.sent.empty() || (slot.sent.back().frame < slot.nak.frame && slot.sent.size() < 2);
}

/// Acknowledged, but in no frame of the capture.
void RequestStream::judge_unseen(const Slot& slot, int64_t psn) {
  if (std::ranges::find(damaged_, low(psn)) != damaged_.end()) {
    findings_.examined(Rule::kA2_3);
    fault(Rule::kA2_3, slot.answered, psn, "acknowledged, but it came with a wrong ICRC only");
  } else if (context_.complete) {
    fault(Rule::kA4_2, slot.answered, psn, "acknowledged, but never seen: a gap",
          Basis::kWholeCapture);
  } else {
    miss(slot.answered);
  }
  msn_exact_ = false;  // nobody knows whether a message ended there
  msn_origin_.reset();
  open_.reset();
  cut_ = true;
}

void RequestStream::judge(const Slot& slot, int64_t psn) {
  if (!slot.known) return judge_unseen(slot, psn);
  findings_.examined(Rule::kA4_2);
  const Stamp answered = answer_of(slot);
  if (slot.answer) answered_at_ = answered;
  const Stamp* sent = accepted(slot, answered);
  if (sent == nullptr) {
    const bool refused = nak_ignored(slot);
    const bool rnr = (slot.nak_syndrome & kSyndromeKindMask) == kSyndromeRnrNak;
    // What was held back behind the capture comes late, after the NAK of the gap that it left.
    const bool held_back = context_.impaired && !(refused && rnr);
    if (!held_back) {
      suspect(refused && rnr ? Rule::kA4_11 : Rule::kA4_2, slot.sent.front(), psn,
              "answered by frame " + std::to_string(answered.frame) +
                  (refused ? ", but not sent again after the NAK of frame " +
                                 std::to_string(slot.nak.frame)
                           : ", but not sent in order before"));
    }
    sent = &slot.sent.front();
  } else {
    accepted_at_ = *sent;
  }
  judge_message(slot, psn, *sent);
}

void RequestStream::judge_message(const Request& slot, int64_t psn, Stamp sent) {
  const OpcodeInfo& info = opcode_info(slot.opcode);
  const bool read = info.kind == OpKind::kReadRequest;
  if (read && !slot.read_first) return;
  if ((info.start || slot.answer) && open_) {
    fault(Rule::kA4_4, sent, psn,
          std::string(info.name) + " begins before the message before it has ended");
    open_.reset();
  }
  if (slot.answer) {
    cut_ = false;
    messages_.add({info.kind, read ? slot.dma_length : 8, false, sent.frame, sent.at});
    return;
  }
  if (!info.start && (!open_ || open_->message.kind != info.kind)) {
    if (!open_ && cut_ && psn == first_ && is_early(sent)) {
      ++counts_.sent_before;
    } else if (!open_ && cut_ && psn == first_) {
      fault(Rule::kComplete, sent, psn, "the capture begins inside a message");
    } else if (open_ || !cut_) {
      fault(Rule::kA4_4, sent, psn, std::string(info.name) + " continues no message of its kind");
    }
    open_.reset();
  }
  cut_ &= !info.start;
  if (!open_) {
    open_ = OpenMessage{{info.kind, 0, false, sent.frame, sent.at}, std::nullopt};
    if (info.reth) open_->declared = slot.dma_length;
  }
  judge_length(slot, psn, sent);
  open_->message.bytes += slot.bytes;
  open_->message.imm |= info.imm;
  if (!info.end) return;
  if (open_->declared && *open_->declared != open_->message.bytes) {
    // Where the immediate comes before the RETH, the length stands in its place.
    const bool swapped = info.start && info.imm && slot.imm != 0 && slot.imm == slot.bytes;
    fault(swapped ? Rule::kA3_2 : Rule::kA4_5, sent, psn,
          "RETH says " + std::to_string(*open_->declared) + " bytes, the payloads are " +
              std::to_string(open_->message.bytes));
  }
  messages_.add(open_->message);
  open_.reset();
}

void RequestStream::judge_length(const Request& slot, int64_t psn, Stamp sent) {
  const OpcodeInfo& info = opcode_info(slot.opcode);
  findings_.examined(Rule::kA1_13);
  const bool full = slot.bytes == pmtu_;
  const bool fits = info.end ? slot.bytes <= pmtu_ && (info.start || slot.bytes > 0) : full;
  if (fits) return;
  fault(Rule::kA4_5, sent, psn,
        std::string(info.name) + " of " + std::to_string(slot.bytes) + " bytes at a path MTU of " +
            std::to_string(pmtu_));
}

/// What is left in the window when the capture ends. True: it is known why.
bool RequestStream::finish_slot(const Slot& slot, int64_t psn, bool excused) {
  if (slot.known) {
    judge_message(slot, psn, slot.sent.front());
  } else {
    open_.reset();
    cut_ = true;
  }
  if (excused) return false;
  if (nak_ignored(slot)) {
    const bool rnr = (slot.nak_syndrome & kSyndromeKindMask) == kSyndromeRnrNak;
    findings_.examined(rnr ? Rule::kA5_7 : Rule::kA5_5);
    suspect(rnr ? Rule::kA5_7 : Rule::kA5_5, slot.nak, psn, "NAK without a retransmission");
  }
  if (!slot.answer || !slot.known || slot.passed.frame == 0 || !slot.answers.empty()) return false;
  findings_.examined(Rule::kA5_4);
  if (slot.sent.back().frame > slot.passed.frame) return false;
  suspect(
      Rule::kA5_4, slot.passed, psn,
      "answers to later requests say that its response was lost, but it was not asked for again");
  return true;
}

/// Answers to later requests went by, and the requester did not mind: it had the response.
bool RequestStream::answer_not_captured(const Slot& slot) const {
  return !context_.complete && slot.known && slot.answer && slot.passed.frame != 0 &&
         slot.sent.back().frame < slot.passed.frame;
}

void RequestStream::finish(bool excused) {
  if (!started_) return;
  settle_retry();
  if (!excused) finish_asking();
  finish_early_answers();
  size_t asked = window_.size();  // slots up to the last one that wants an answer
  while (asked > 0 && window_[asked - 1].known && !window_[asked - 1].ack_request &&
         !window_[asked - 1].answer) {
    --asked;
  }
  size_t missing = 0;
  const Slot* first_missing = nullptr;
  int64_t first_psn = 0;
  std::optional<MessageLog::Mark> accepted_messages;
  for (size_t i = 0; i < window_.size(); ++i) {
    const Slot& s = window_[i];
    const int64_t psn = base_ + static_cast<int64_t>(i);
    if (answer_of(s).frame != 0) {
      judge(s, psn);
      continue;
    }
    if (answer_not_captured(s)) {
      miss(s.sent.front());
      judge_message(s, psn, s.sent.front());
      continue;
    }
    ++counts_.unanswered;
    if (!accepted_messages) accepted_messages = messages_.mark();
    const bool explained = finish_slot(s, psn, excused);
    if (i < asked && !explained && missing++ == 0) {
      first_missing = &s;
      first_psn = psn;
    }
  }
  if (missing != 0 && !excused && !nak_ignored(*first_missing)) {
    finish_missing(*first_missing, first_psn, missing);
  }
  if (open_ && !excused) {
    fault(Rule::kComplete, {open_->message.first_frame, open_->message.first_at}, next_ - 1,
          "the capture ends inside a message");
  }
  if (accepted_messages) messages_.back_to(*accepted_messages);
  window_.clear();
  base_ = next_;
  holes_ = 0;
  open_.reset();
}

/// Answers to what has not been sent up to the end of the capture: it may be missing. But where the
/// responder answered what comes before them later, it cannot have been so far.
void RequestStream::finish_early_answers() {
  for (const PacketRecord& answer : early_) {
    const int64_t psn = extended(answer.psn);
    if (last_response_.frame > answer.frame && newest_ack_ && *newest_ack_ < psn) {
      const bool data = answer.info().kind == OpKind::kReadResponse || answer.info().atomic_ack;
      suspect(data ? Rule::kA5_11 : Rule::kA5_3, answer.stamp(), psn,
              std::string(answer.info().name) + " for a PSN that was not sent");
    } else {
      miss(answer.stamp());
    }
  }
  early_.clear();
}

/// A requester that never sends again has got its answers, by a way that was not captured; or the
/// network has lost the last ones, and its program, which had what it wanted, has closed meanwhile.
void RequestStream::finish_missing(const Slot& first, int64_t psn, size_t missing) {
  if (context_.impaired) return;
  if (!context_.other_way && !context_.complete && first.sent.size() < 2) {
    counts_.not_captured += missing;
    return;
  }
  fault(Rule::kUnanswered, first.sent.empty() ? Stamp{} : first.sent.back(), psn,
        std::to_string(missing) + " packets from here on have no answer");
}

}  // namespace understudy
