#include "dataplane/rc/qp.h"

#include <algorithm>

namespace understudy {

namespace {

constexpr bool wants(TrafficKind asked, TrafficKind has) {
  return (static_cast<uint8_t>(asked) & static_cast<uint8_t>(has)) != 0;
}

/// IBTA 10.3.1, but for what every state may become (RESET, ERROR).
bool may_become(QpState from, QpState to) {
  switch (to) {
    case QpState::kReset:
    case QpState::kError:
      return true;
    case QpState::kInit:
      return from == QpState::kReset || from == QpState::kInit;
    case QpState::kRtr:
      return from == QpState::kInit;
    case QpState::kRts:
      return from == QpState::kRtr || from == QpState::kRts || from == QpState::kSqd;
    case QpState::kSqd:
      return from == QpState::kRts || from == QpState::kSqd;
    case QpState::kSqe:  // of unreliable services only
      return false;
  }
  return false;
}

}  // namespace

Qp::Qp(const QpConfig& config, RegionTable& regions, RcCounters& counters, QpOwner& owner)
    : base_{config, regions, counters},
      owner_(owner),
      responder_(base_),
      state_(config.start),
      requester_(base_) {}

bool Qp::connected() const {
  return state_ == QpState::kRtr || state_ == QpState::kRts || state_ == QpState::kSqd;
}

bool Qp::modify(Time now, QpState to) {
  if (!may_become(state_, to)) return false;
  state_ = to;
  requester_.set_drained(to == QpState::kSqd);
  if (to == QpState::kReset) {
    requester_.reset();
    responder_.reset();
    established_ = false;
    flush_at_ = Time::never();
  } else if (to == QpState::kError) {
    responder_.drop_answers();
    requester_.flush();
    report_completions(now);
  }
  return true;
}

void Qp::set_send_attributes(Psn sq_psn, uint8_t timeout, uint8_t retry_count, uint8_t rnr_retry,
                             uint8_t max_rd_atomic) {
  base_.config.sq_psn = sq_psn;
  base_.config.timeout = timeout;
  base_.config.retry_count = retry_count;
  base_.config.rnr_retry = rnr_retry;
  base_.config.max_rd_atomic = max_rd_atomic;
  requester_.reset();
}

bool Qp::post(const WorkRequest& request) {
  return (state_ == QpState::kRts || state_ == QpState::kSqd) && requester_.post(request);
}

void Qp::on_packet(Time now, const RoceView& packet, const uint8_t* payload) {
  if (!connected()) return count(base_.counters, RcEvent::kWrongState);
  if (packet.info().is_response() && !base_.config.unreliable) {
    requester_.on_response(now, packet, payload);
    return report_completions(now);
  }
  const RequestOutcome outcome = responder_.on_request(packet, payload);
  if (outcome != RequestOutcome::kNotExpected && !established_) {
    established_ = true;
    if (state_ == QpState::kRtr) owner_.on_established(now, *this);
  }
  if (outcome == RequestOutcome::kMessage)
    owner_.on_received(now, *this, responder_.received(packet, payload));
  if (outcome == RequestOutcome::kAtomic) {
    owner_.on_atomic(now, *this, packet.va, packet.swap_add);
  }
  if (outcome == RequestOutcome::kFatal) {
    enter_error();  // but for the NAK, and what must go before it
    requester_.flush();
    report_completions(now);
  }
}

void Qp::on_train(Time now, uint32_t before, uint32_t bytes, const RoceView& last,
                  const uint8_t* payload) {
  const Psn first(last.psn.value() - before);
  if (!connected() || !responder_.take_middles(first, before, bytes)) {
    RoceView one = last;
    one.opcode = static_cast<uint8_t>(Opcode::kWriteMiddle);
    one.ack_request = one.solicited = false;
    one.pad = 0;
    one.payload_bytes = bytes;
    for (uint32_t i = 0; i < before; ++i) {
      one.psn = first.advance(i);
      on_packet(now, one, payload);
    }
  }
  on_packet(now, last, payload);
}

void Qp::on_timer(Time now) {
  if (now >= flush_at_) {
    flush_at_ = Time::never();
    requester_.flush();
  } else {
    requester_.on_timer(now);
  }
  report_completions(now);
}

void Qp::report_completions(Time now) {
  if (requester_.failed() && state_ != QpState::kError) {
    enter_error();
    responder_.drop_answers();
  }
  Completion c;
  while (requester_.pop_completion(c)) owner_.on_completed(now, *this, c.id, c.status);
}

void Qp::enter_error() {
  state_ = QpState::kError;
  count(base_.counters, RcEvent::kQpError);
}

bool Qp::sends_requests(Time now, TrafficKind kind) const {
  const TrafficKind own = base_.config.control ? TrafficKind::kControl : TrafficKind::kData;
  return wants(kind, own) && state_ != QpState::kError && requester_.has_packet(now);
}

NextPacket Qp::next(Time now, TrafficKind kind) const {
  if (wants(kind, TrafficKind::kAcks) && responder_.has_ack()) return NextPacket::kAck;
  if (wants(kind, TrafficKind::kData) && responder_.has_answer()) return NextPacket::kAnswer;
  return sends_requests(now, kind) ? NextPacket::kRequest : NextPacket::kNone;
}

bool Qp::pull(Time now, TrafficKind kind, OutPacket& out, bool& departs, uint64_t& id) {
  departs = false;
  switch (next(now, kind)) {
    case NextPacket::kNone:
      return false;
    case NextPacket::kAck:
      responder_.pull_ack(out);
      break;
    case NextPacket::kAnswer:
      if (!responder_.pull_answer(out)) {
        // Nothing more is taken or sent. Completions are reported from the timer, not from here:
        // their owner may want to post.
        enter_error();
        flush_at_ = now;
      }
      break;
    case NextPacket::kRequest:
      departs = requester_.pull(now, out, id);
      break;
  }
  out.fields.dest_qpn = base_.config.remote_qpn;
  out.fields.pkey = base_.config.pkey;
  out.fields.migration = base_.config.migration;
  return true;
}

}  // namespace understudy
