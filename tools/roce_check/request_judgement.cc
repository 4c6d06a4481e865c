// Judging requests as they leave the window: in PSN order, on the transmission that was accepted.
#include <algorithm>

#include "tools/roce_check/request_stream.h"

namespace understudy {

/// The frame that answers a slot for good, 0 if there is none yet. The requester takes responses in
/// PSN order only, as it may have lost any of them behind the capture: later ones come again.
uint64_t RequestStream::answer_of(const Slot& slot) const {
  if (!slot.answer) return slot.answered_frame;
  const auto next =
      std::ranges::find_if(slot.answers, [&](uint64_t frame) { return frame > answered_frame_; });
  return next == slot.answers.end() ? 0 : *next;
}

void RequestStream::retire() {
  while (!window_.empty() && answer_of(window_.front()) != 0) {
    const Slot& front = window_.front();
    judge(front, base_);
    holes_ -= front.known ? 0 : 1;
    retired_messages_ = front.messages;
    window_.pop_front();
    ++base_;
  }
}

/// The transmission the responder took: it takes PSNs in order, so after the one of the PSN before
/// (READ slots share one packet), and before it answered.
const RequestStream::Sent* RequestStream::accepted(const Slot& slot, uint64_t answered) const {
  const uint64_t from = accepted_frame_ + (slot.answer && !slot.read_first ? 0 : 1);
  const auto found = std::ranges::find_if(
      slot.sent, [&](const Sent& s) { return s.frame >= from && s.frame < answered; });
  return found == slot.sent.end() ? nullptr : &*found;
}

/// A retransmission may have crossed the NAK on its way, so a second one before it is fine, too.
bool RequestStream::nak_ignored(const Slot& slot) {
  if (slot.nak_frame == 0) return false;
  return slot.sent.empty() || (slot.sent.back().frame < slot.nak_frame && slot.sent.size() < 2);
}

void RequestStream::judge(const Slot& slot, int64_t psn) {
  if (!slot.known) {
    fault(Check::kOrder, slot.answered_frame, psn, "acknowledged, but never seen: a gap");
    open_.reset();
    return;
  }
  const uint64_t answered = answer_of(slot);
  if (slot.answer) answered_frame_ = answered;
  const Sent* sent = accepted(slot, answered);
  if (sent == nullptr) {
    fault(Check::kOrder, slot.sent.front().frame, psn,
          "answered by frame " + std::to_string(answered) + ", but not sent in order before");
    sent = &slot.sent.front();
  } else {
    accepted_frame_ = sent->frame;
  }
  if (nak_ignored(slot)) {
    fault(Check::kAcks, slot.nak_frame, psn, "NAK without a retransmission");
  }
  judge_message(slot, psn, *sent);
}

void RequestStream::judge_message(const Slot& slot, int64_t psn, const Sent& sent) {
  const OpcodeInfo& info = opcode_info(slot.opcode);
  const bool read = info.kind == OpKind::kReadRequest;
  if (read && !slot.read_first) {
    if (!messages_.empty()) messages_.back().last_at = sent.at;
    return;
  }
  if ((info.start || slot.answer) && open_) {
    fault(Check::kOpcodes, sent.frame, psn,
          std::string(info.name) + " begins before the message before it has ended");
    open_.reset();
  }
  if (slot.answer) {
    messages_.push_back(
        {info.kind, read ? slot.dma_length : 8, false, sent.frame, sent.at, sent.at});
    return;
  }
  if (!info.start && (!open_ || open_->message.kind != info.kind)) {
    fault(Check::kOpcodes, sent.frame, psn,
          std::string(info.name) + " continues no message of its kind");
    open_.reset();
  }
  if (!open_) {
    open_ = OpenMessage{{info.kind, 0, false, sent.frame, sent.at, sent.at}, std::nullopt};
    if (info.reth) open_->declared = slot.dma_length;
  }
  judge_length(slot, psn, sent);
  open_->message.bytes += slot.bytes;
  open_->message.last_at = sent.at;
  open_->message.imm |= info.imm;
  if (!info.end) return;
  if (open_->declared && *open_->declared != open_->message.bytes) {
    fault(Check::kLengths, sent.frame, psn,
          "RETH says " + std::to_string(*open_->declared) + " bytes, the payloads are " +
              std::to_string(open_->message.bytes));
  }
  messages_.push_back(open_->message);
  open_.reset();
}

void RequestStream::judge_length(const Slot& slot, int64_t psn, const Sent& sent) {
  const OpcodeInfo& info = opcode_info(slot.opcode);
  const bool full = slot.bytes == pmtu_;
  const bool fits = info.end ? slot.bytes <= pmtu_ && (info.start || slot.bytes > 0) : full;
  if (fits) return;
  fault(Check::kLengths, sent.frame, psn,
        std::string(info.name) + " of " + std::to_string(slot.bytes) + " bytes at a path MTU of " +
            std::to_string(pmtu_));
}

void RequestStream::finish(bool excused) {
  if (!started_) return;
  size_t asked = window_.size();  // slots up to the last one that wants an answer
  while (asked > 0 && window_[asked - 1].known && !window_[asked - 1].ack_request &&
         !window_[asked - 1].answer) {
    --asked;
  }
  size_t missing = 0;
  int64_t first_missing = 0;
  std::optional<size_t> accepted_messages;
  for (size_t i = 0; i < window_.size(); ++i) {
    const Slot& s = window_[i];
    const int64_t psn = base_ + static_cast<int64_t>(i);
    if (answer_of(s) != 0) {
      judge(s, psn);
      continue;
    }
    if (missing == 0) first_missing = psn;
    missing += i < asked ? 1 : 0;
    ++counts_.unanswered;
    if (!accepted_messages) accepted_messages = messages_.size();
    if (s.known) {
      judge_message(s, psn, s.sent.front());
    } else {
      open_.reset();
    }
    if (nak_ignored(s) && !excused) {
      fault(Check::kAcks, s.nak_frame, psn, "NAK without a retransmission");
    }
  }
  if (missing != 0 && !excused) {
    fault(Check::kAcknowledged, 0, first_missing,
          std::to_string(missing) + " packets from here on have no answer");
  }
  if (open_ && !excused) {
    fault(Check::kComplete, open_->message.first_frame, next_ - 1,
          "the capture ends inside a message");
  }
  if (accepted_messages) messages_.resize(*accepted_messages);
  window_.clear();
  base_ = next_;
  holes_ = 0;
  open_.reset();
}

}  // namespace understudy
