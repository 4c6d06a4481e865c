// The responder's side: ACKs, READ and ATOMIC responses, MSNs. NAKs: request_naks.cc.
#include <algorithm>
#include <array>

#include "tools/roce_check/requests/request_stream.h"

namespace understudy {
namespace {

/// Messages that a credit code allows; code 31 says that credits are not used.
constexpr std::array<int64_t, 31> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

constexpr size_t kMostEarly = 4096;  // answers kept for requests that may not have been captured

}  // namespace

void RequestStream::response(const PacketRecord& p) {
  const bool read = p.info().kind == OpKind::kReadResponse;
  const bool atomic = p.info().atomic_ack;
  ++counts_.responses;
  const int64_t psn = extended(p.psn);
  if (out_of_range(p, psn)) return;
  last_response_ = p.stamp();
  const uint8_t kind = p.syndrome & kSyndromeKindMask;
  const bool is_ack = !p.info().aeth || kind == kSyndromeAck;
  if (broken_ && !context_.impaired) {
    fault(Rule::kA4_21, p.stamp(), psn, std::string(p.info().name) + " after a fatal NAK");
  }
  if (psn < base_) ++counts_.repeated_responses;
  if (p.info().aeth) check_msn(p, psn, !is_ack);
  if (read) {
    acknowledge(psn - 1, p.stamp());
    read_response(p, psn);
  } else if (atomic) {
    acknowledge(psn - 1, p.stamp());
    atomic_response(p, psn);
  } else if (is_ack) {
    ack(p, psn);
  } else {
    nak(p, psn);
  }
  if (!newest_ack_ || psn > *newest_ack_) newest_ack_ = is_ack ? psn : psn - 1;
  retire();
}

/// Answers to nothing that the capture has shown. True: there is nothing to do with it.
bool RequestStream::out_of_range(const PacketRecord& p, int64_t psn) {
  const bool data = p.info().kind == OpKind::kReadResponse || p.info().atomic_ack;
  const Rule rule = data ? Rule::kA5_11 : Rule::kA5_3;
  findings_.examined(rule);
  const bool known_start = context_.complete && context_.from_start;
  const bool asks = p.info().kind == OpKind::kAck && !data && p.syndrome == kSyndromeNak;
  if (started_ && asks && extend_front(psn, p.stamp())) return false;
  if (!started_ || psn < first_) {
    if (known_start) {
      fault(rule, p.stamp(), psn, std::string(p.info().name) + " for a PSN that was not sent");
    } else {
      miss(p.stamp());
    }
    return true;
  }
  if (psn < next_) return false;
  if (context_.complete) {
    fault(rule, p.stamp(), psn, std::string(p.info().name) + " for a PSN that was not sent");
  } else if (early_.size() < kMostEarly) {
    early_.push_back(p);
  }
  return true;
}

/// An ACK covers all SENDs and WRITEs up to its PSN; a READ needs its data.
void RequestStream::acknowledge(int64_t psn, Stamp stamp) {
  for (acked_ = std::max(acked_, base_); acked_ <= psn; ++acked_) {
    Slot& s = *slot(acked_);
    if (s.answer) {
      if (s.answers.empty()) s.passed = stamp;
      continue;
    }
    s.answered = stamp;
    if (s.known && s.ack_request) times_.ack.add(stamp.at - s.sent.back().at);
  }
}

void RequestStream::ack(const PacketRecord& p, int64_t psn) {
  ++counts_.acks;
  findings_.examined(Rule::kA4_10);
  if (newest_ack_ && psn < *newest_ack_ && !context_.impaired) {
    // What a duplicate is answered with, or an ACK that was overtaken by a newer one.
    const bool duplicate =
        last_duplicate_.frame != 0 && psn < cursor_ && last_duplicate_.frame == last_request_.frame;
    fault(duplicate ? Rule::kA4_17 : Rule::kA4_10, p.stamp(), psn,
          "ACK, but PSN " + std::to_string(low(*newest_ack_)) + " has been acknowledged before");
  } else if (last_duplicate_.frame != 0) {
    findings_.examined(Rule::kA4_17);
  }
  const uint8_t code = p.syndrome & kSyndromeValueMask;
  if (code == kNoCredits) {
    credit_limit_.reset();
  } else if (msn_exact_) {
    credit_limit_ = std::max(credit_limit_.value_or(0), msn_ + kCredits[code]);
  }
  acknowledge(psn, p.stamp());
}

/// An answer after one to a later request, without having been asked for again.
void RequestStream::check_late(const Slot& slot, const PacketRecord& p, int64_t psn) {
  findings_.examined(Rule::kA4_14);
  if (slot.passed.frame == 0 || context_.impaired || slot.sent.empty()) return;
  if (slot.sent.back().frame > slot.passed.frame || !slot.answers.empty()) return;
  suspect(Rule::kA4_14, p.stamp(), psn,
          "frame " + std::to_string(slot.passed.frame) + " answered a later request before");
}

/// The request that a READ or ATOMIC response answers; null where there is none of this kind.
/// `repeated`: it has been answered before.
RequestStream::Request* RequestStream::asked(const PacketRecord& p, int64_t psn, OpKind kind,
                                             const char* name, bool& repeated) {
  const int64_t from = retired_end_ - static_cast<int64_t>(retired_.size());
  Slot* const waiting = slot(psn);
  Request* s = waiting;
  repeated = waiting == nullptr;
  if (repeated) {
    if (psn < from || psn >= retired_end_) return nullptr;
    s = &retired_[static_cast<size_t>(psn - from)];
  }
  if (!s->known) {  // the request was lost on the way to the capture, or is missing from it
    if (context_.complete) {
      fault(Rule::kA5_11, p.stamp(), psn,
            std::string(name) + " response, but no " + name + " was sent");
    }
    if (waiting != nullptr) waiting->answered = p.stamp();
    return nullptr;
  }
  if (opcode_info(s->opcode).kind == kind) return s;
  fault(Rule::kA5_11, p.stamp(), psn,
        std::string(name) + " response, but the request was no " + name);
  return nullptr;
}

void RequestStream::read_response(const PacketRecord& p, int64_t psn) {
  findings_.examined(Rule::kA4_13);
  bool repeated = false;
  const Request* s = asked(p, psn, OpKind::kReadRequest, "READ", repeated);
  if (s == nullptr) return;
  const bool last = s->dma_length <= pmtu_;
  const OpcodeInfo& info = p.info();
  const Rule rule = repeated ? Rule::kA4_18 : Rule::kA4_13;
  const auto unfit = [&] { return std::string(info.name) + " does not fit the request"; };
  if (info.end != last || (!info.start && s->read_first)) {
    fault(rule, p.stamp(), psn, unfit());
  } else if (info.start && !s->read_start) {
    suspect(rule, p.stamp(), psn, unfit());  // of a request that begins here
  }
  if (p.payload_bytes != s->bytes) {
    fault(rule, p.stamp(), psn,
          std::string(info.name) + " of " + std::to_string(p.payload_bytes) + " bytes, expected " +
              std::to_string(s->bytes));
  }
  if (repeated) return;
  Slot& waiting = *slot(psn);
  check_late(waiting, p, psn);
  if (waiting.read_first && waiting.answers.empty()) {
    times_.read.add(p.at - waiting.sent.back().at);
  }
  waiting.answers.push_back(p.stamp());
}

void RequestStream::atomic_response(const PacketRecord& p, int64_t psn) {
  bool repeated = false;
  Request* s = asked(p, psn, OpKind::kAtomicRequest, "ATOMIC", repeated);
  if (s == nullptr) return;
  findings_.examined(Rule::kA4_16);
  if (s->va % 8 != 0 && !s->value) {
    fault(Rule::kA4_16, p.stamp(), psn, "the ATOMIC's address is no multiple of 8");
  }
  findings_.examined(Rule::kA4_19, s->value ? 1 : 0);
  if (s->value && *s->value != p.va) {
    fault(
        Rule::kA4_19, p.stamp(), psn,
        "ATOMIC answered by " + std::to_string(p.va) + ", before by " + std::to_string(*s->value));
  }
  if (!s->value) s->value = p.va;
  if (repeated) return;
  Slot& waiting = *slot(psn);
  check_late(waiting, p, psn);
  if (waiting.answers.empty()) times_.read.add(p.at - waiting.sent.back().at);
  waiting.answers.push_back(p.stamp());
}

/// Where the capture does not show the connection's first message: responses say how many messages
/// were complete before those that it shows, and all of them must mean the same number.
void RequestStream::check_learned_msn(const PacketRecord& p, int64_t psn, int64_t msn, int64_t sent,
                                      std::optional<int64_t> completed) {
  // Each packet that was not seen may have ended a message.
  const int64_t least = msn - sent - static_cast<int64_t>(holes_);
  if (!msn_origin_) {
    if (completed) msn_origin_ = MsnOrigin{least, msn - *completed, p.frame};
    return;
  }
  MsnOrigin& origin = *msn_origin_;
  const int64_t most = completed ? msn - *completed : origin.most;
  if (least > origin.most || most < origin.least) {
    suspect(Rule::kA4_8, p.stamp(), psn,
            "MSN " + std::to_string(p.msn) + ", but from " +
                std::to_string(low(origin.least + completed.value_or(sent))) + " to " +
                std::to_string(low(origin.most + sent + static_cast<int64_t>(holes_))) +
                " by that of frame " + std::to_string(origin.frame));
    return;
  }
  origin.least = std::max(origin.least, least);
  origin.most = std::min(origin.most, most);
}

/// The MSN counts completed messages; a READ counts when it is accepted. It may run ahead of the
/// PSN that is acknowledged, never behind.
void RequestStream::check_msn(const PacketRecord& p, int64_t psn, bool is_nak) {
  findings_.examined(Rule::kA4_8);
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
    msn_exact_ = context_.from_start && msn >= completed && msn <= sent;
    if (!msn_exact_) {
      check_learned_msn(p, psn, msn, sent, repeated ? std::nullopt : std::optional(completed));
    }
    if (!msn_exact_ && context_.complete && context_.from_start) {
      fault(Rule::kA4_8, p.stamp(), psn,
            "MSN " + std::to_string(p.msn) + " begins, but " + std::to_string(completed) + " to " +
                std::to_string(sent) + " messages are complete");
    }
    msn_ = msn;
    msn_psn_ = covered;
    return;
  }
  const auto what = [&] { return "MSN " + std::to_string(p.msn); };
  if (covered >= msn_psn_ && msn < msn_) {
    fault(Rule::kA4_8, p.stamp(), psn, what() + " after " + std::to_string(low(msn_)));
  } else if (!msn_exact_) {
    check_learned_msn(p, psn, msn, sent, repeated ? std::nullopt : std::optional(completed));
  } else if (holes_ == 0 && (msn > sent || (!repeated && msn < completed))) {
    suspect(Rule::kA4_8, p.stamp(), psn,
            what() + ", but " + std::to_string(completed) + " to " + std::to_string(sent) +
                " messages are complete");
  }
  if (covered >= msn_psn_) {
    msn_psn_ = covered;
    msn_ = std::max(msn_, msn);
  }
}

}  // namespace understudy
