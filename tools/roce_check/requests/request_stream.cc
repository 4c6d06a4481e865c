// The requester's side: packets find their slots.
#include "tools/roce_check/requests/request_stream.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr int64_t kMaxGap = 8192;               // a larger jump is another connection
constexpr size_t kMaxWindow = size_t{1} << 20;  // unanswered PSNs; bounds memory on odd captures
constexpr size_t kMaxOneWay = size_t{1} << 14;  // the same where nobody answers
constexpr size_t kMostDamaged = 4096;           // PSNs with a wrong ICRC that are remembered
constexpr uint32_t kMaxRethLength = 1u << 31;
constexpr int64_t kWholeFlow = 1024;  // nobody retransmits so many packets down to the very first

}  // namespace

uint32_t RequestStream::span_of(const PacketRecord& p) const {
  if (p.info().kind != OpKind::kReadRequest) return 1;
  const uint32_t packets = (std::min(p.dma_length, kMaxRethLength) + pmtu_ - 1) / pmtu_;
  return std::clamp<uint32_t>(packets, 1, kMaxWindow);
}

bool RequestStream::is_new_connection(const PacketRecord& p, int64_t psn) const {
  if (psn - next_ > kMaxGap) return true;
  if (psn < first_) return window_.empty() || first_ - psn > kMaxGap;
  if (psn != first_ || !window_.empty() || !p.info().start) return false;
  return next_ - first_ > kWholeFlow || !is_first_again(p);
}

/// Whether it can be the very first packet of this connection once more, as far as that is known.
bool RequestStream::is_first_again(const PacketRecord& p) const {
  if (retired_.empty() || retired_end_ - static_cast<int64_t>(retired_.size()) != first_) {
    return true;
  }
  const Request& was = retired_.front();
  const bool same_payload = !was.whole || !p.whole || was.payload_crc == p.payload_crc;
  return !was.known || (was.opcode == p.opcode && was.bytes == p.payload_bytes && same_payload);
}

/// Queue pairs that gave up are reset and used again, with PSNs as at first (NCCL's port recovery).
/// A requester that had to send some PSN again goes back no further than that, so what it sends with
/// the connection's first one is a beginning.
bool RequestStream::is_reset(const PacketRecord& p, int64_t psn) const {
  if (psn != first_ || psn >= next_ || !p.info().start) return false;
  if (context_.impaired && is_first_again(p)) return false;  // a copy of the network's
  const bool sent_again = timeouts_ > 0 || (retry_ && retry_->cause == RetryCause::kTimeout);
  return other_way_reset_ || (sent_again && retry_psn_ > first_);
}

void RequestStream::start(const PacketRecord& p) {
  started_ = true;
  other_way_reset_ = false;
  timeouts_ = rnr_naks_ = 0;
  broken_ = false;
  first_ = base_ = next_ = acked_ = cursor_ = p.psn.value();
  window_.clear();
  retired_.clear();
  retired_end_ = base_;
  retired_messages_ = 0;
  holes_ = 0;
  msn_seen_ = false;
  msn_exact_ = false;
  msn_origin_.reset();
  unasked_ = 0;
  unasked_said_ = false;
  newest_ack_.reset();
  credit_limit_.reset();
  retry_.reset();
  retry_psn_ = -1;
  open_.reset();
  cut_ = true;
  if (context_.first_psn) {
    findings_.examined(Rule::kA9_2);
    const int32_t late = p.psn.distance_from(*context_.first_psn);
    if (late > 0 && late <= kMaxGap) {
      first_ = base_ = next_ = acked_ = retired_end_ = context_.first_psn->value();
    } else if (late != 0) {
      context_.from_start = context_.complete;
      suspect(Rule::kA9_2, p.stamp(), next_,
              "begins, but RDMA-CM agreed on PSN " + std::to_string(context_.first_psn->value()));
    }
    context_.first_psn.reset();
  }
}

void RequestStream::request(const PacketRecord& p) {
  findings_.examined(Rule::kA4_4);
  findings_.examined(Rule::kA4_5);
  findings_.examined(Rule::kUnanswered);
  if (!started_) start(p);
  int64_t psn = extended(p.psn);
  const bool reset = is_reset(p, psn);
  if (reset || is_new_connection(p, psn)) {
    if (reset) {
      resets_ += other_way_reset_ ? 0 : 1;
      findings_.note(Check::kOrder, name_ + " is reset and begins anew in frame " +
                                        std::to_string(p.frame) + ", with its first PSN");
    }
    finish(broken_ || reset);
    context_.from_start = context_.complete;
    start(p);
    psn = next_;
  }
  if (p.dma_length > kMaxRethLength) {
    fault(Rule::kA4_5, p.stamp(), psn, "RETH length above 2^31");
  }
  extend_front(psn, p.stamp());
  settle_early_answers(psn);
  follow_retries(p, psn);
  ++(psn < next_ ? counts_.retransmissions : counts_.requests);
  if (psn >= next_) {
    check_depth(p, psn);
    check_credit(p, psn);
    check_asking(p, psn);
  } else {
    last_duplicate_ = p.stamp();
  }
  while (next_ < psn) {  // lost before the capture, not captured or never sent: the end will tell
    window_.emplace_back();
    window_.back().messages =
        window_.size() > 1 ? window_[window_.size() - 2].messages : retired_messages_;
    window_.back().revealed = p.stamp();
    ++next_;
    ++holes_;
  }
  const uint32_t span = span_of(p);
  for (uint32_t i = 0; i < span; ++i) place(p, psn + i, i);
  cursor_ = psn + span;
  last_request_ = p.stamp();
  while (window_.size() > (context_.other_way ? kMaxWindow : kMaxOneWay)) give_up_front(p.stamp());
}

/// Too many wait. Where nobody answers in the capture at all, that is all that is known of it.
void RequestStream::give_up_front(Stamp stamp) {
  const Slot& front = window_.front();
  if (context_.other_way) {
    fault(Rule::kUnanswered, stamp, base_, "2^20 later packets have been sent");
  } else {
    ++counts_.unanswered;
    if (!context_.complete && !context_.impaired) ++counts_.not_captured;  // its answer
    if (front.known) {
      const MessageLog::Mark accepted = messages_.mark();
      judge_message(front, base_, front.sent.front());
      messages_.back_to(accepted);
    } else {
      open_.reset();
      cut_ = true;
    }
  }
  drop_front();
}

void RequestStream::damaged(Psn psn) {
  damaged_.push_back(psn.value());
  if (damaged_.size() > kMostDamaged) damaged_.pop_front();
}

bool RequestStream::waits_for(Psn psn) const {
  const int64_t at = started_ ? extended(psn) : next_;
  return at >= base_ && at < next_;
}

/// The first packets of a connection were lost before the capture, or overtaken: they come now, or
/// are asked for. True: the window begins at `psn` now.
bool RequestStream::extend_front(int64_t psn, Stamp stamp) {
  if (psn >= first_ || first_ - psn > kMaxGap || base_ != first_ || window_.empty()) return false;
  while (base_ > psn) {
    window_.emplace_front();
    window_.front().revealed = stamp;
    --base_;
    ++holes_;
  }
  first_ = retired_end_ = acked_ = base_;
  msn_origin_.reset();
  recount(base_);
  return true;
}

RequestStream::Slot* RequestStream::slot(int64_t psn) {
  if (psn < base_ || psn >= next_) return nullptr;
  return &window_[static_cast<size_t>(psn - base_)];
}

/// `index`: the PSN's place in the READ; 0 for other requests.
void RequestStream::place(const PacketRecord& p, int64_t psn, uint32_t index) {
  if (psn < base_) return compare_retired(p, psn, index);
  if (psn >= next_) {
    window_.emplace_back();
    ++next_;
    set(window_.back(), p, index);
    recount(psn);
  } else if (Slot& old = *slot(psn); !old.known) {
    --holes_;
    ++counts_.late;
    set(old, p, index);
    recount(psn);
  } else {
    compare(old, p, psn, index);
    old.read_start |= index == 0;
  }
  slot(psn)->sent.push_back(p.stamp());
}

void RequestStream::set(Request& slot, const PacketRecord& p, uint32_t index) const {
  const OpKind kind = p.info().kind;
  slot.known = true;
  slot.opcode = p.opcode;
  slot.ack_request = p.ack_request;
  slot.answer = kind == OpKind::kReadRequest || kind == OpKind::kAtomicRequest;
  slot.bytes = p.payload_bytes;
  slot.dma_length = p.dma_length;
  slot.va = p.va;
  slot.rkey = p.rkey;
  slot.imm = p.imm;
  slot.frame = p.stamp().frame;
  slot.whole = p.whole;
  slot.payload_crc = p.payload_crc;
  if (kind == OpKind::kReadRequest) {
    const uint64_t before = uint64_t{index} * pmtu_;
    slot.dma_length = before < p.dma_length ? static_cast<uint32_t>(p.dma_length - before) : 0;
    slot.bytes = std::min(slot.dma_length, pmtu_);
    slot.va = p.va + before;
    slot.read_first = slot.read_start = index == 0;
  }
}

/// A retransmission carries what the first transmission carried; a READ asks for what is left.
void RequestStream::compare(const Slot& slot, const PacketRecord& p, int64_t psn, uint32_t index) {
  Request again;
  set(again, p, index);
  findings_.examined(Rule::kA5_6);
  std::string what;
  if (again.opcode != slot.opcode || again.bytes != slot.bytes ||
      again.dma_length != slot.dma_length) {
    what = std::string("retransmitted as ") + p.info().name + " of " + std::to_string(again.bytes) +
           " bytes, was " + opcode_info(slot.opcode).name + " of " + std::to_string(slot.bytes);
  } else if (again.va != slot.va || again.rkey != slot.rkey) {
    what = "retransmitted with another address or key";
  } else {
    compare_payload(slot, again, p.stamp(), psn);
    return;
  }
  // How many PSNs a READ takes may have been inferred from packets that are missing.
  const bool inside_read = slot.answer && !slot.read_first;
  inside_read ? suspect(Rule::kA5_6, p.stamp(), psn, what)
              : fault(Rule::kA5_6, p.stamp(), psn, what);
}

/// The same bytes; a program may not change a buffer before its request is complete. Programs that
/// have the other end's answer do so, however (rping and such: what is answered has come), and a
/// late acknowledgement shows it: that is said, and no fault of the connection. False: others.
bool RequestStream::compare_payload(const Request& slot, const Request& again, Stamp stamp,
                                    int64_t psn) {
  if (!slot.whole || !again.whole) return true;
  const bool same = slot.payload_crc == again.payload_crc && slot.imm == again.imm;
  if (same) return true;
  if (slot.imm != again.imm) {
    fault(Rule::kA5_6, stamp, psn, "retransmitted with another immediate");
  } else if (peer_said_.frame > slot.frame) {
    findings_.remark(Rule::kA5_6, stamp,
                     text(psn,
                          "retransmitted with other payload: the other end has sent a message "
                          "since, and the program may have written its buffer anew"));
  } else {
    fault(Rule::kA5_6, stamp, psn, "retransmitted with other payload");
  }
  return false;
}

/// What has been answered before. Of a READ or ATOMIC, its responder may have the context still.
void RequestStream::compare_retired(const PacketRecord& p, int64_t psn, uint32_t index) {
  const int64_t from = retired_end_ - static_cast<int64_t>(retired_.size());
  if (psn < from || psn >= retired_end_) return;
  Request& old = retired_[static_cast<size_t>(psn - from)];
  if (!old.known) return;
  Request again;
  set(again, p, index);
  if (!old.answer) {
    const bool same_kind = again.opcode == old.opcode && again.bytes == old.bytes;
    if (!same_kind) return;  // of another connection under the same number, for all that is known
    findings_.examined(Rule::kA5_6);
    compare_payload(old, again, p.stamp(), psn);
    return;
  }
  findings_.examined(Rule::kA4_18);
  if (again.opcode != old.opcode || again.dma_length != old.dma_length || again.va != old.va ||
      again.rkey != old.rkey) {
    fault(Rule::kA4_18, p.stamp(), psn,
          std::string("a duplicate ") + p.info().name + " of other bytes than the first one asked");
  }
  old.read_start |= index == 0;
}

/// Renews the running count of messages from this PSN on.
void RequestStream::recount(int64_t from) {
  const auto at = [this](int64_t psn) -> Slot& {
    return window_[static_cast<size_t>(psn - base_)];
  };
  uint64_t count = from > base_ ? at(from - 1).messages : retired_messages_;
  for (int64_t psn = from; psn < next_; ++psn) {
    Slot& s = at(psn);
    const OpcodeInfo& info = opcode_info(s.opcode);
    const bool read = s.known && info.kind == OpKind::kReadRequest;
    count += s.known && (read ? s.read_first : info.end) ? 1 : 0;
    s.messages = count;
  }
}

/// Answers that came before their requests: either the requests that end at `psn` were not
/// captured, or this new request is the one, and its answer was an invention.
void RequestStream::settle_early_answers(int64_t psn) {
  if (early_.empty() || psn < next_) return;
  std::vector<PacketRecord> early;
  early.swap(early_);
  int64_t captured = next_;
  for (const PacketRecord& answer : early) {
    const int64_t answered = extended(answer.psn);
    if (answered >= psn) {  // or both it and this packet's first transmission were not captured
      suspect(answer.info().kind == OpKind::kReadResponse || answer.info().atomic_ack ? Rule::kA5_11
                                                                                      : Rule::kA5_3,
              answer.stamp(), answered,
              std::string(answer.info().name) + " for a PSN that was not sent");
    } else {
      captured = std::max(captured, answered + 1);
    }
  }
  while (next_ < captured) {
    window_.emplace_back();
    window_.back().messages =
        window_.size() > 1 ? window_[window_.size() - 2].messages : retired_messages_;
    window_.back().answered = early.back().stamp();
    ++next_;
    ++holes_;
  }
  retire();
}

}  // namespace understudy
