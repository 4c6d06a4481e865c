#include "dataplane/rc/requester.h"

#include <algorithm>

namespace understudy {

namespace {

constexpr int64_t kLatestTimeout = 4;
constexpr uint32_t kMaxPsnsQueued = uint32_t{1} << 23;

Opcode opcode_for(WorkOp op, bool first, bool last) {
  using O = Opcode;
  switch (op) {
    case WorkOp::kRead:
      return O::kReadRequest;
    case WorkOp::kCompareSwap:
      return O::kCompareSwap;
    case WorkOp::kFetchAdd:
      return O::kFetchAdd;
    case WorkOp::kSend:
    case WorkOp::kSendImm:
    case WorkOp::kSendInvalidate:
      if (!last) return first ? O::kSendFirst : O::kSendMiddle;
      if (op == WorkOp::kSend) return first ? O::kSendOnly : O::kSendLast;
      if (op == WorkOp::kSendImm) return first ? O::kSendOnlyImm : O::kSendLastImm;
      return first ? O::kSendOnlyInv : O::kSendLastInv;
    case WorkOp::kWrite:
    case WorkOp::kWriteImm:
      break;
  }
  if (!last) return first ? O::kWriteFirst : O::kWriteMiddle;
  if (op == WorkOp::kWrite) return first ? O::kWriteOnly : O::kWriteLast;
  return first ? O::kWriteOnlyImm : O::kWriteLastImm;
}

}  // namespace

Requester::Requester(const QpBase& base) : base_(base) {
  if (room() != 0) ring_ = std::make_unique<Entry[]>(room());
  reset();
}

void Requester::reset() {
  first_ = count_ = cursor_ = done_ = 0;
  cursor_packet_ = 0;
  next_psn_ = una_ = sent_ = asked_ = base_.config.sq_psn;
  next_ssn_ = 1;
  timer_ = Time::never();
  rnr_until_ = Time::zero();
  retries_left_ = base_.config.retry_count;
  rnr_left_ = base_.config.rnr_retry;
  retrying_ = drained_ = failed_ = false;
  // Until the peer has said how many receives it has, one message may find out (IBTA 9.7.7.2).
  credits_limit_ = base_.config.flow_control;
  last_ssn_ = 0;
}

bool Requester::post(const WorkRequest& request) {
  if (failed_ || count_ + done_ >= room()) return false;
  Entry e;
  e.id = request.id;
  e.remote_va = request.remote_va;
  e.rkey = request.rkey;
  e.length = request.length;
  e.imm = request.op == WorkOp::kSendInvalidate ? request.invalidate : request.imm;
  e.op = request.op;
  e.fence = request.fence;
  e.solicited = request.solicited;
  e.psn = next_psn_;
  e.ssn = next_ssn_;
  const bool atomic = request.op == WorkOp::kCompareSwap || request.op == WorkOp::kFetchAdd;
  e.wants_answer = atomic || request.op == WorkOp::kRead;
  e.takes_receive = !e.wants_answer && request.op != WorkOp::kWrite;
  if (e.wants_answer) {
    e.fetch = {request.read_to, request.compare_add, request.swap};
  } else {
    e.payload = request.payload;
  }
  if (e.wants_answer && (base_.config.max_rd_atomic == 0 || base_.config.unreliable)) return false;
  if (base_.config.unreliable && request.op == WorkOp::kSendInvalidate) return false;
  if (!atomic && request.length > kMaxMessageBytes) return false;
  e.packets = atomic
                  ? 1
                  : static_cast<uint32_t>(std::max<uint64_t>(
                        1, (uint64_t{request.length} + base_.config.mtu - 1) / base_.config.mtu));
  // Beyond half of the PSNs old and new could not be told apart (IBTA 9.7.1).
  if (((next_psn_.value() - una_.value()) & Psn::kMask) + e.packets > kMaxPsnsQueued) return false;
  entry(count_) = e;
  next_psn_ = next_psn_.advance(e.packets);
  next_ssn_ = (next_ssn_ + 1) & Psn::kMask;
  ++count_;
  return true;
}

uint32_t Requester::answers_in_flight() const {
  uint32_t n = 0;
  for (uint32_t i = 0; i < cursor_; ++i) n += entry(i).open() ? 1 : 0;
  return n;
}

bool Requester::limited(const Entry& e) const {
  return credits_limit_ && e.takes_receive && Psn(e.ssn).distance_from(Psn(last_ssn_)) > 0;
}

bool Requester::may_send() const {
  if (cursor_ >= count_ || failed_) return false;
  const Entry& e = entry(cursor_);
  if (drained_ && e.psn.distance_from(sent_) >= 0) return false;
  if (limited(e)) {
    // The oldest packet may still go, to learn of new credits. A WRITE with immediate takes its
    // receive at its end only, so it goes as a whole.
    const bool in_write = e.op == WorkOp::kWriteImm && cursor_packet_ > 0;
    if (una_ != e.psn.advance(cursor_packet_) && !in_write) return false;
  }
  if (!e.wants_answer && !e.fence) return true;
  const uint32_t open = answers_in_flight();
  if (e.fence && open > 0) return false;
  return !e.wants_answer || open < base_.config.max_rd_atomic;
}

/// A READ, or what is missing of one: it asks again with a new RETH (rule A5.6). Or an ATOMIC.
void Requester::fill_request(const Entry& e, RoceFields& f) const {
  const uint32_t skip = e.answered * base_.config.mtu;
  f.opcode = opcode_for(e.op, true, true);
  f.psn = e.psn.advance(e.answered);
  f.va = e.remote_va + skip;
  f.ack_request = true;
  if (e.op == WorkOp::kRead) {
    f.dma_length = e.length - skip;
  } else {
    f.swap_add = e.op == WorkOp::kCompareSwap ? e.fetch.swap : e.fetch.compare_add;
    f.compare = e.op == WorkOp::kCompareSwap ? e.fetch.compare_add : 0;
  }
}

void Requester::fill(const Entry& e, OutPacket& out) const {
  RoceFields& f = out.fields;
  const bool first = cursor_packet_ == 0;
  const bool last = cursor_packet_ + 1 == e.packets;
  const uint32_t offset = cursor_packet_ * base_.config.mtu;
  f.opcode = opcode_for(e.op, first, last);
  f.psn = e.psn.advance(cursor_packet_);
  f.va = e.remote_va;
  f.dma_length = e.length;
  f.imm = e.imm;
  f.solicited = last && e.solicited && e.takes_receive;
  if (base_.config.unreliable) {
    f.opcode = static_cast<Opcode>(static_cast<uint8_t>(f.opcode) + kUnreliable);
  } else {
    const uint32_t every = base_.config.ask_every;
    f.ack_request = last || limited(e) || cursor_packet_ % every == every - 1;
  }
  out.payload_bytes = std::min(base_.config.mtu, e.length - offset);
  out.payload = e.payload.advanced(offset);
}

bool Requester::pull(Time now, OutPacket& out, uint64_t& id) {
  const Entry& e = entry(cursor_);
  out.clear();
  RoceFields& f = out.fields;
  f.rkey = e.rkey;
  const bool last = e.wants_answer || cursor_packet_ + 1 == e.packets;
  if (e.wants_answer) {
    fill_request(e, f);
  } else {
    fill(e, out);
  }
  const Psn end = e.wants_answer ? e.psn.advance(e.packets) : f.psn.next();
  if (f.psn.distance_from(sent_) >= 0) {
    sent_ = end;
  } else {
    count(base_.counters, RcEvent::kRetransmit);
  }
  if (f.ack_request) {
    asked_ = end;
    start_timer(now);
  }
  id = e.id;
  if (last) {
    ++cursor_;
    cursor_packet_ = 0;
  } else {
    ++cursor_packet_;
  }
  if (base_.config.unreliable) {
    una_ = sent_;
    if (last) finish(WorkStatus::kSuccess);
    if (last) timer_ = now;  // its program hears of it from there
  }
  return last;
}

Duration Requester::timeout() const {
  return Duration::ns(4096) * (int64_t{1} << (base_.config.timeout & 31));
}

Time Requester::deadline() const {
  if (base_.config.unreliable) return timer_;
  if (count_ == 0 || failed_) return Time::never();
  const Time rnr = cursor_ < count_ && rnr_until_ > Time::zero() ? rnr_until_ : Time::never();
  return std::min(timer_, rnr);
}

/// Packets that follow put the timeout off, but not for ever: it comes within one to four times the
/// configured time after what is not acknowledged was sent (rule A5.8).
void Requester::start_timer(Time now) {
  if (base_.config.timeout == 0) return;
  if (timer_.is_never()) asked_at_ = now;
  timer_ = std::min(now + timeout(), asked_at_ + timeout() * kLatestTimeout);
}

void Requester::on_timer(Time now) {
  if (base_.config.unreliable) {
    timer_ = Time::never();
    return;
  }
  if (failed_ || count_ == 0) return;
  if (rnr_until_ > Time::zero() && now >= rnr_until_) rnr_until_ = Time::zero();
  if (now < timer_) return;
  count(base_.counters, RcEvent::kTimeout);
  retrying_ = true;
  retry_from(una_);
}

/// Sequence NAKs, implied ones and timeouts spend the same count (IBTA 9.7.7.1).
void Requester::retry_from(Psn psn) {
  if (retries_left_ == 0) return fail(WorkStatus::kRetryExceeded, 0);
  --retries_left_;
  restart_from(psn);
}

void Requester::restart_from(Psn psn) {
  timer_ = Time::never();  // starts with what is sent again
  asked_ = una_;
  cursor_packet_ = 0;
  cursor_ = entry_of(psn);
  if (cursor_ < count_ && !entry(cursor_).wants_answer) {
    cursor_packet_ = static_cast<uint32_t>(psn.distance_from(entry(cursor_).psn));
  }
}

uint32_t Requester::entry_of(Psn psn) const {
  uint32_t i = 0;
  while (i < count_ && psn.distance_from(entry(i).psn) >= static_cast<int32_t>(entry(i).packets)) {
    ++i;
  }
  return i;
}

void Requester::fail(WorkStatus status, uint32_t culprit) {
  if (failed_) return;
  failed_ = true;
  for (uint32_t i = 0; count_ > 0; ++i) finish(i == culprit ? status : WorkStatus::kFlushed);
  timer_ = Time::never();
}

void Requester::finish(WorkStatus status) {
  entry(0).status = status;
  ++done_;
  first_ = first_ + 1 < room() ? first_ + 1 : 0;
  --count_;
  if (cursor_ > 0) {
    --cursor_;
  } else {
    cursor_packet_ = 0;  // acknowledged while being sent again
  }
}

bool Requester::pop_completion(Completion& out) {
  if (done_ == 0) return false;
  const Entry& oldest = ring_[first_ >= done_ ? first_ - done_ : first_ + room() - done_];
  out = {oldest.id, oldest.status};
  --done_;
  return true;
}

}  // namespace understudy
