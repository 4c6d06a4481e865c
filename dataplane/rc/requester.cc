#include "dataplane/rc/requester.h"

#include <algorithm>
#include <cstring>

namespace understudy {

namespace {

constexpr uint32_t kPacketsPerAck = 64;  // rule A5: AckReq at least this often
constexpr uint32_t kMaxPsnsQueued = uint32_t{1} << 23;

void count(RcCounters& c, RcEvent e) { ++c[static_cast<size_t>(e)]; }

Opcode opcode_for(const WorkRequest& r, bool first, bool last) {
  const bool imm = r.op == WorkOp::kSendImm || r.op == WorkOp::kWriteImm;
  if (r.op == WorkOp::kRead) return Opcode::kReadRequest;
  if (r.op == WorkOp::kSend || r.op == WorkOp::kSendImm) {
    if (first && last) return imm ? Opcode::kSendOnlyImm : Opcode::kSendOnly;
    if (first) return Opcode::kSendFirst;
    if (last) return imm ? Opcode::kSendLastImm : Opcode::kSendLast;
    return Opcode::kSendMiddle;
  }
  if (first && last) return imm ? Opcode::kWriteOnlyImm : Opcode::kWriteOnly;
  if (first) return Opcode::kWriteFirst;
  if (last) return imm ? Opcode::kWriteLastImm : Opcode::kWriteLast;
  return Opcode::kWriteMiddle;
}

}  // namespace

Requester::Requester(const QpConfig& config, RcCounters& counters, uint32_t depth)
    : config_(config),
      counters_(counters),
      ring_(depth),
      next_psn_(config.sq_psn),
      una_(config.sq_psn),
      sent_(config.sq_psn),
      retries_left_(config.retry_count),
      rnr_left_(config.rnr_retry),
      done_(depth) {}

bool Requester::post(const WorkRequest& request) {
  if (failed_ || count_ + done_count_ >= ring_.size()) return false;
  const auto packets = static_cast<uint32_t>(
      std::max<uint64_t>(1, (uint64_t{request.length} + config_.mtu - 1) / config_.mtu));
  // Beyond half of the PSNs old and new could not be told apart (IBTA 9.7.1).
  if (((next_psn_.value() - una_.value()) & Psn::kMask) + packets > kMaxPsnsQueued) return false;
  Entry& e = entry(count_);
  e.request = request;
  e.psn = next_psn_;
  e.packets = packets;
  e.answered = 0;
  next_psn_ = next_psn_.advance(e.packets);
  ++count_;
  return true;
}

uint32_t Requester::reads_in_flight() const {
  uint32_t n = 0;
  for (size_t i = 0; i < cursor_; ++i) n += entry(i).request.op == WorkOp::kRead ? 1 : 0;
  return n;
}

bool Requester::has_packet(Time now) const {
  if (failed_ || cursor_ >= count_ || now < rnr_until_) return false;
  const Entry& e = entry(cursor_);
  return e.request.op != WorkOp::kRead || reads_in_flight() < config_.max_rd_atomic;
}

bool Requester::pull(Time now, OutPacket& out, uint64_t& id) {
  Entry& e = entry(cursor_);
  const WorkRequest& r = e.request;
  out = OutPacket{};
  RoceFields& f = out.fields;
  f.imm = r.imm;
  f.rkey = r.rkey;
  bool last = true;
  if (r.op == WorkOp::kRead) {
    // A repeated READ asks only for the missing tail, with a new RETH (rule A5).
    const uint32_t skip = e.answered * config_.mtu;
    f.opcode = Opcode::kReadRequest;
    f.psn = e.psn.advance(e.answered);
    f.va = r.remote_va + skip;
    f.dma_length = r.length - skip;
    f.ack_request = true;
  } else {
    const bool first = cursor_packet_ == 0;
    last = cursor_packet_ + 1 == e.packets;
    const uint32_t offset = cursor_packet_ * config_.mtu;
    f.opcode = opcode_for(r, first, last);
    f.psn = e.psn.advance(cursor_packet_);
    f.va = r.remote_va;
    f.dma_length = r.length;
    f.ack_request = last || cursor_packet_ % kPacketsPerAck == kPacketsPerAck - 1;
    out.payload_bytes = std::min(config_.mtu, r.length - offset);
    out.payload = r.payload.advanced(offset);
  }
  if (f.psn.distance_from(sent_) >= 0) {
    sent_ = r.op == WorkOp::kRead ? e.psn.advance(e.packets) : f.psn.next();
  } else {
    count(counters_, RcEvent::kRetransmit);
  }
  id = r.id;
  if (last) {
    ++cursor_;
    cursor_packet_ = 0;
  } else {
    ++cursor_packet_;
  }
  if (config_.timeout != 0) timer_ = now + timeout();
  return last;
}

Duration Requester::timeout() const {
  return Duration::ns(4096) * (int64_t{1} << (config_.timeout & 31));
}

Time Requester::deadline() const {
  if (failed_ || count_ == 0) return Time::never();
  const Time rnr = cursor_ < count_ && rnr_until_ > Time::zero() ? rnr_until_ : Time::never();
  return std::min(timer_, rnr);
}

void Requester::progress(Time now) {
  retries_left_ = config_.retry_count;
  rnr_left_ = config_.rnr_retry;
  retrying_ = false;
  timer_ = count_ == 0 || config_.timeout == 0 ? Time::never() : now + timeout();
}

void Requester::finish(WorkStatus status) {
  done_[(done_first_ + done_count_) % done_.size()] = {entry(0).request.id, status};
  ++done_count_;
  first_ = (first_ + 1) % ring_.size();
  --count_;
  if (cursor_ > 0) {
    --cursor_;
  } else {
    cursor_packet_ = 0;  // acknowledged while being sent again
  }
}

void Requester::complete_until(Psn psn) {
  while (count_ > 0) {
    const Entry& e = entry(0);
    if (psn.distance_from(e.psn.advance(e.packets - 1)) < 0) break;
    if (e.request.op == WorkOp::kRead && e.answered < e.packets) break;
    finish(WorkStatus::kSuccess);
  }
}

size_t Requester::open_read_before(Psn psn) const {
  for (size_t i = 0; i < count_ && entry(i).psn.distance_from(psn) <= 0; ++i) {
    if (entry(i).request.op == WorkOp::kRead && entry(i).answered < entry(i).packets) return i;
  }
  return count_;
}

void Requester::on_response(Time now, const RoceView& packet, const uint8_t* payload) {
  if (failed_) return;
  // Outside [una, sent): an answer to nothing we have in flight (rule A5, "ghost").
  if (packet.psn.distance_from(una_) < 0 || packet.psn.distance_from(sent_) >= 0) {
    const bool nak_for_next = (packet.syndrome & kSyndromeKindMask) != kSyndromeAck &&
                              packet.info().kind == OpKind::kAck && packet.psn == sent_;
    if (!nak_for_next) {
      count(counters_, RcEvent::kGhostAck);
      return;
    }
  }
  if (packet.info().kind == OpKind::kReadResponse) {
    on_read_response(now, packet, payload);
    return;
  }
  count(counters_, RcEvent::kAckReceived);
  if ((packet.syndrome & kSyndromeKindMask) == kSyndromeAck) {
    on_ack(now, packet.psn);
  } else {
    on_nak(now, packet);
  }
}

void Requester::on_ack(Time now, Psn psn) {
  const Psn reached = acknowledge_before(now, psn.next());
  if (reached == psn.next()) return;
  // Something behind a READ was acknowledged, so its response was lost: implied NAK (rule A5).
  count(counters_, RcEvent::kImpliedNak);
  go_back(now, reached);
}

Psn Requester::acknowledge_before(Time now, Psn end) {
  const size_t read = open_read_before(end.advance(Psn::kMask));
  const Psn reached = read == count_ ? end : entry(read).psn.advance(entry(read).answered);
  if (reached.distance_from(una_) <= 0) return reached;
  una_ = reached;
  complete_until(una_.advance(Psn::kMask));
  if (cursor_ < count_ && una_.distance_from(entry(cursor_).psn.advance(cursor_packet_)) > 0) {
    restart_from(una_);  // acknowledged past what a go-back was about to repeat
  }
  progress(now);
  return reached;
}

void Requester::go_back(Time now, Psn psn) {
  if (retrying_) return;  // its cause is older than the retry under way
  retrying_ = true;
  restart_from(psn);
  if (config_.timeout != 0) timer_ = now + timeout();
}

void Requester::on_nak(Time now, const RoceView& packet) {
  const bool rnr = (packet.syndrome & kSyndromeKindMask) == kSyndromeRnrNak;
  const uint8_t value = packet.syndrome & kSyndromeValueMask;
  // A NAK acknowledges everything before its PSN; a READ that is still open there is repeated too.
  const Psn reached = acknowledge_before(now, packet.psn);
  if (rnr) {
    count(counters_, RcEvent::kRnrReceived);
    if (config_.rnr_retry != 7) {
      if (rnr_left_ == 0) return fail(WorkStatus::kRnrRetryExceeded);
      --rnr_left_;
    }
    restart_from(reached);
    rnr_until_ = now + rnr_delay(value);
    timer_ = Time::never();
    return;
  }
  count(counters_, RcEvent::kNakReceived);
  switch (static_cast<NakCode>(value)) {
    case NakCode::kPsnSequence:
      return go_back(now, reached);
    case NakCode::kRemoteAccess:
      return fail(WorkStatus::kRemoteAccess);
    case NakCode::kRemoteOperational:
      return fail(WorkStatus::kRemoteOperational);
    default:
      return fail(WorkStatus::kRemoteInvalidRequest);
  }
}

void Requester::on_read_response(Time now, const RoceView& packet, const uint8_t* payload) {
  size_t i = 0;
  while (i < count_) {
    const int32_t at = packet.psn.distance_from(entry(i).psn);
    if (at >= 0 && at < static_cast<int32_t>(entry(i).packets)) break;
    ++i;
  }
  if (i == count_ || entry(i).request.op != WorkOp::kRead) {
    count(counters_, RcEvent::kGhostAck);
    return;
  }
  Entry& e = entry(i);
  const uint32_t index = static_cast<uint32_t>(packet.psn.distance_from(e.psn));
  if (index < e.answered) return;  // a duplicate
  const size_t older = open_read_before(e.psn);
  if (older != i || index > e.answered) {
    count(counters_, RcEvent::kImpliedNak);
    return go_back(now, entry(older).psn.advance(entry(older).answered));
  }
  const uint64_t offset = uint64_t{index} * config_.mtu;
  const uint64_t expected = std::min<uint64_t>(config_.mtu, e.request.length - offset);
  if (packet.payload_bytes != expected) {
    count(counters_, RcEvent::kLengthError);
    return;
  }
  if (e.request.read_to != nullptr && packet.payload_bytes != 0) {
    std::memcpy(e.request.read_to + offset, payload, packet.payload_bytes);
  }
  ++e.answered;
  una_ = packet.psn.next();
  complete_until(packet.psn);
  progress(now);
}

void Requester::restart_from(Psn psn) {
  for (cursor_ = 0; cursor_ < count_; ++cursor_) {
    const Entry& e = entry(cursor_);
    const int32_t at = psn.distance_from(e.psn);
    if (at < static_cast<int32_t>(e.packets)) {
      cursor_packet_ = at > 0 && e.request.op != WorkOp::kRead ? static_cast<uint32_t>(at) : 0;
      return;
    }
  }
  cursor_packet_ = 0;
}

void Requester::on_timer(Time now) {
  if (failed_ || count_ == 0) return;
  if (rnr_until_ > Time::zero() && now >= rnr_until_) {
    rnr_until_ = Time::zero();
    if (config_.timeout != 0) timer_ = now + timeout();
    return;
  }
  if (now < timer_) return;
  count(counters_, RcEvent::kTimeout);
  if (retries_left_ == 0) return fail(WorkStatus::kRetryExceeded);
  --retries_left_;
  retrying_ = true;
  restart_from(una_);
  timer_ = now + timeout();
}

void Requester::fail(WorkStatus first) {
  if (failed_) return;
  failed_ = true;
  count(counters_, RcEvent::kQpError);
  WorkStatus status = first;
  while (count_ > 0) {
    finish(status);
    status = WorkStatus::kFlushed;
  }
  timer_ = Time::never();
}

bool Requester::pop_completion(Completion& out) {
  if (done_count_ == 0) return false;
  out = done_[done_first_];
  done_first_ = (done_first_ + 1) % done_.size();
  --done_count_;
  return true;
}

}  // namespace understudy
