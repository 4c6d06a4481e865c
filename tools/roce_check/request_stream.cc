// The requester's side: packets find their slots.
#include "tools/roce_check/request_stream.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr int64_t kMaxGap = 8192;               // a larger jump is another connection
constexpr size_t kMaxWindow = size_t{1} << 20;  // unanswered PSNs; bounds memory on odd captures
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
  return psn == first_ && window_.empty() && p.info().start && next_ - first_ > kWholeFlow;
}

void RequestStream::start(const PacketRecord& p) {
  started_ = true;
  broken_ = false;
  first_ = base_ = next_ = acked_ = p.psn.value();
  window_.clear();
  retired_messages_ = 0;
  holes_ = 0;
  msn_seen_ = false;
  open_.reset();
  if (!p.info().start) {
    fault(Check::kComplete, p.frame, next_, "the capture begins inside a message");
  }
}

void RequestStream::request(const PacketRecord& p) {
  findings_.checked(Check::kOrder);
  findings_.checked(Check::kOpcodes);
  findings_.checked(Check::kLengths);
  findings_.checked(Check::kAcknowledged);
  if (!started_) start(p);
  int64_t psn = extended(p.psn);
  if (is_new_connection(p, psn)) {
    finish(broken_);
    start(p);
    psn = next_;
  }
  if (p.dma_length > kMaxRethLength) {
    fault(Check::kLengths, p.frame, psn, "RETH length above 2^31");
  }
  ++(psn < next_ ? counts_.retransmissions : counts_.requests);
  while (next_ < psn) {  // lost before the capture, or never sent: the end will tell
    window_.emplace_back();
    window_.back().messages =
        window_.size() > 1 ? window_[window_.size() - 2].messages : retired_messages_;
    ++next_;
    ++holes_;
  }
  const uint32_t span = span_of(p);
  for (uint32_t i = 0; i < span; ++i) place(p, psn + i, i);
  while (window_.size() > kMaxWindow) {
    fault(Check::kAcknowledged, p.frame, base_, "2^20 later packets have been sent");
    holes_ -= window_.front().known ? 0 : 1;
    retired_messages_ = window_.front().messages;
    window_.pop_front();
    ++base_;
  }
}

RequestStream::Slot* RequestStream::slot(int64_t psn) {
  if (psn < base_ || psn >= next_) return nullptr;
  return &window_[static_cast<size_t>(psn - base_)];
}

/// `index`: the PSN's place in the READ; 0 for other requests.
void RequestStream::place(const PacketRecord& p, int64_t psn, uint32_t index) {
  if (psn < base_) return;  // has been answered before
  if (psn >= next_) {
    window_.emplace_back();
    ++next_;
    set(window_.back(), p, index);
    recount(psn);
  } else if (Slot& old = *slot(psn); !old.known) {
    --holes_;
    set(old, p, index);
    recount(psn);
  } else {
    compare(old, p, psn, index);
    old.read_start |= index == 0;
  }
  slot(psn)->sent.push_back({p.frame, p.at});
}

void RequestStream::set(Slot& slot, const PacketRecord& p, uint32_t index) const {
  const OpKind kind = p.info().kind;
  slot.known = true;
  slot.opcode = p.opcode;
  slot.ack_request = p.ack_request;
  slot.answer = kind == OpKind::kReadRequest || kind == OpKind::kAtomicRequest;
  slot.bytes = p.payload_bytes;
  slot.dma_length = p.dma_length;
  if (kind == OpKind::kReadRequest) {
    const uint64_t before = uint64_t{index} * pmtu_;
    slot.dma_length = before < p.dma_length ? static_cast<uint32_t>(p.dma_length - before) : 0;
    slot.bytes = std::min(slot.dma_length, pmtu_);
    slot.read_first = slot.read_start = index == 0;
  }
}

/// A retransmission carries what the first transmission carried; a READ asks for what is left
/// (rule A5).
void RequestStream::compare(const Slot& slot, const PacketRecord& p, int64_t psn, uint32_t index) {
  Slot again;
  set(again, p, index);
  if (again.opcode != slot.opcode || again.bytes != slot.bytes ||
      again.dma_length != slot.dma_length) {
    fault(Check::kOrder, p.frame, psn,
          std::string("retransmitted as ") + p.info().name + " of " + std::to_string(again.bytes) +
              " bytes, was " + opcode_info(slot.opcode).name + " of " + std::to_string(slot.bytes));
  }
}

/// Renews the running count of messages from this PSN on.
void RequestStream::recount(int64_t from) {
  uint64_t count = from > base_ ? slot(from - 1)->messages : retired_messages_;
  for (int64_t psn = from; psn < next_; ++psn) {
    Slot& s = *slot(psn);
    const OpcodeInfo& info = opcode_info(s.opcode);
    const bool read = s.known && info.kind == OpKind::kReadRequest;
    count += s.known && (read ? s.read_first : info.end) ? 1 : 0;
    s.messages = count;
  }
}

}  // namespace understudy
