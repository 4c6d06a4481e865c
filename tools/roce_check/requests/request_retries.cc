// When and why the requester goes back: waits and counts of rules A5.7 and A5.8, and what it may
// have in flight (A5.2, A5.10).
#include <algorithm>
#include <array>

#include "dataplane/base/text_format.h"

#include "tools/roce_check/requests/request_stream.h"

namespace understudy {
namespace {

/// How much earlier than the rule says a wait may look: stamps of others are made by busy machines.
constexpr Duration kStampSlack = Duration::us(5);
constexpr int64_t kSlackPercent = 1;
/// NICs round the ACK timeout, and RDMA-CM adapts it to the peer's delay by up to one step.
constexpr int64_t kTimeoutSteps = 2;
/// A packet that was on its way when a NAK left is no answer to it.
constexpr Duration kCrossing = Duration::ms(1);
/// Packets without AckReq in a row. Linux' rdma_rxe asks in every 64th and mlx5 by default in every
/// 256th (MLX5_IB_ACK_REQ_FREQ 8); more than that is nobody's.
constexpr uint32_t kMostUnasked = 1024;

/// The RNR timer's codes in microseconds. Its own table: that of our queue pairs is under test,
/// too.
constexpr std::array<int64_t, 32> kRnrMicroseconds = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

bool too_early(Duration waited, Duration wanted) {
  return waited + kStampSlack + wanted * kSlackPercent / 100 < wanted;
}

}  // namespace

/// Called with every request before it finds its slot.
void RequestStream::follow_retries(const PacketRecord& p, int64_t psn) {
  if (retry_) {
    // One packet alone, and then on as before: the network made a copy or changed the order.
    if (psn == retry_->resume && retry_->end != retry_->resume) retry_.reset();
    settle_retry();
  }
  if (broken_ && psn <= next_ && p.at - broken_at_.at > kCrossing) {
    suspect(Rule::kA5_9, p.stamp(), psn,
            std::string(psn < next_ ? "sent again" : "sent") +
                " after the NAK that ends the connection");
  }
  if (psn >= cursor_ || broken_) return;
  const Slot* s = slot(psn);
  if (s == nullptr || s->sent.empty()) {
    if (s == nullptr || s->nak.frame == 0) return;  // nobody knows since when it was due
  }
  Retry retry{RetryCause::kTimeout, Duration(), cursor_, psn + span_of(p)};
  const Time sent = s->sent.empty() ? Time::zero() : s->sent.back().at;
  if (s->nak.frame != 0 && (s->sent.empty() || s->nak.frame > s->sent.back().frame)) {
    const bool rnr = (s->nak_syndrome & kSyndromeKindMask) == kSyndromeRnrNak;
    retry.cause = rnr ? RetryCause::kRnrNak : RetryCause::kSequenceNak;
    retry.delay = p.at - s->nak.at;
    if (rnr) {
      findings_.examined(Rule::kA5_7);
      const Duration wanted = Duration::us(kRnrMicroseconds[s->nak_syndrome & kSyndromeValueMask]);
      if (too_early(retry.delay, wanted) && !context_.impaired) {
        suspect(Rule::kA5_7, p.stamp(), psn,
                format_text("sent again %.1f us after an RNR NAK that asks for %.1f us",
                            retry.delay.microseconds(), wanted.microseconds()));
      }
    }
  } else if (s->passed.frame > s->sent.back().frame) {
    retry.cause = RetryCause::kImpliedNak;
    retry.delay = p.at - s->passed.at;
  } else {
    retry.delay = p.at - sent;
  }
  if (psn != retry_psn_) {
    timeouts_ = rnr_naks_ = 0;
    retry_psn_ = psn;
  }
  retry_ = retry;
  retry_at_ = p.stamp();
}

/// What was taken for a retry is one.
void RequestStream::settle_retry() {
  if (!retry_) return;
  const Retry retry = *retry_;
  retry_.reset();
  times_.retry[static_cast<size_t>(retry.cause)].add(retry.delay);
  if (retry.cause == RetryCause::kRnrNak) {
    if (!context_.limits.rnr_retries || *context_.limits.rnr_retries == 7) return;
    if (++rnr_naks_ > *context_.limits.rnr_retries) {
      suspect(Rule::kA5_7, retry_at_, retry_psn_,
              std::to_string(rnr_naks_) + " retries after RNR NAKs, agreed were " +
                  std::to_string(*context_.limits.rnr_retries));
    }
    return;
  }
  if (retry.cause != RetryCause::kTimeout) return;
  ++timeouts_;
  const QpLimits& limits = context_.limits;
  if (limits.retries || limits.ack_timeout) findings_.examined(Rule::kA5_8);
  if (limits.retries && timeouts_ > *limits.retries) {
    suspect(Rule::kA5_8, retry_at_, retry_psn_,
            std::to_string(timeouts_) + " retries after timeouts, agreed were " +
                std::to_string(*limits.retries));
  }
  if (limits.ack_timeout && !context_.impaired &&
      too_early(retry.delay * kTimeoutSteps, *limits.ack_timeout)) {
    suspect(Rule::kA5_8, retry_at_, retry_psn_,
            format_text("sent again after %.1f us, the ACK timeout is %.1f us",
                        retry.delay.microseconds(), limits.ack_timeout->microseconds()));
  }
}

/// READs and ATOMICs in flight: those that the responder has not answered in the capture are a
/// part of those that the requester waits for.
void RequestStream::check_depth(const PacketRecord& p, int64_t psn) {
  if (!context_.limits.depth) return;
  const OpKind kind = p.info().kind;
  if (kind != OpKind::kReadRequest && kind != OpKind::kAtomicRequest) return;
  findings_.examined(Rule::kA5_2);
  unsigned open = 0;
  for (const Slot& s : window_) {
    const bool begins =
        s.answer && (s.read_first || opcode_info(s.opcode).kind != OpKind::kReadRequest);
    open += s.known && begins && s.answers.empty() ? 1 : 0;
  }
  if (open >= *context_.limits.depth) {
    suspect(Rule::kA5_2, p.stamp(), psn,
            std::to_string(open + 1) + " READs and ATOMICs in flight, agreed were " +
                std::to_string(*context_.limits.depth));
  }
}

/// A requester that asks for no ACK need not get one, and never learns what became of its messages.
void RequestStream::check_asking(const PacketRecord& p, int64_t psn) {
  const OpKind kind = p.info().kind;
  if (kind != OpKind::kSend && kind != OpKind::kWrite) {
    unasked_ = 0;
    return;
  }
  findings_.examined(Rule::kA5_1);
  if (p.ack_request) {
    unasked_ = 0;
    return;
  }
  if (unasked_++ == 0) unasked_since_ = p.stamp();
  if (unasked_ <= kMostUnasked || unasked_said_) return;
  unasked_said_ = true;
  fault(Rule::kA5_1, p.stamp(), psn,
        "no packet since frame " + std::to_string(unasked_since_.frame) + " asks for an ACK");
}

/// The last one must ask, or nobody knows that it has come.
void RequestStream::finish_asking() {
  if (unasked_ == 0 || unasked_said_ || broken_ || context_.impaired) return;
  if (open_ || cut_) return;
  suspect(Rule::kA5_1, last_request_, next_ - 1,
          "the last request asks for no ACK, nor does any since frame " +
              std::to_string(unasked_since_.frame));
}

/// Without a credit a requester may send one message, to learn whether there are new ones.
void RequestStream::check_credit(const PacketRecord& p, int64_t psn) {
  if (!credit_limit_ || !msn_exact_ || holes_ != 0) return;
  const OpcodeInfo& info = p.info();
  const bool needs = (info.kind == OpKind::kSend && info.start) ||
                     (info.kind == OpKind::kWrite && info.start && info.end && info.imm);
  if (!needs || psn != next_) return;
  findings_.examined(Rule::kA5_10);
  const auto number =
      static_cast<int64_t>((window_.empty() ? retired_messages_ : window_.back().messages) + 1);
  if (number > *credit_limit_ + 1) {
    fault(Rule::kA5_10, p.stamp(), psn,
          "message " + std::to_string(number) + ", but the credits end with " +
              std::to_string(*credit_limit_));
  }
}

}  // namespace understudy
