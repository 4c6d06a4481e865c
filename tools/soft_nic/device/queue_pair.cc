#include "tools/soft_nic/device/queue_pair.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {

namespace {

ibv_wc_status status_of(WorkStatus status) {
  switch (status) {
    case WorkStatus::kSuccess:
      return IBV_WC_SUCCESS;
    case WorkStatus::kRetryExceeded:
      return IBV_WC_RETRY_EXC_ERR;
    case WorkStatus::kRnrRetryExceeded:
      return IBV_WC_RNR_RETRY_EXC_ERR;
    case WorkStatus::kRemoteInvalidRequest:
      return IBV_WC_REM_INV_REQ_ERR;
    case WorkStatus::kRemoteAccess:
      return IBV_WC_REM_ACCESS_ERR;
    case WorkStatus::kRemoteOperational:
      return IBV_WC_REM_OP_ERR;
    case WorkStatus::kFlushed:
      break;
  }
  return IBV_WC_WR_FLUSH_ERR;
}

}  // namespace

QueuePair::QueuePair(Nic& nic, const ibv_qp_init_attr& attributes, uint32_t domain)
    : nic_(nic),
      created_(attributes),
      domain_(domain),
      sends_(attributes.cap.max_send_wr, attributes.cap.max_send_sge,
             attributes.cap.max_inline_data),
      shared_(reinterpret_cast<SharedReceives*>(attributes.srq)) {
  handle_.self = this;
  if (shared_ == nullptr) {
    own_receives_.emplace(attributes.cap.max_recv_wr, attributes.cap.max_recv_sge);
  }
  receive_.pieces.reserve(shared_ != nullptr ? shared_->pieces : attributes.cap.max_recv_sge);
  attributes_.qp_state = IBV_QPS_RESET;
  attributes_.cap = attributes.cap;
}

bool QueuePair::hears(const IpAddress& from, const IpAddress& to) const {
  if (is_datagrams()) {
    return attributes_.qp_state == IBV_QPS_RTR || attributes_.qp_state == IBV_QPS_RTS ||
           attributes_.qp_state == IBV_QPS_SQD;
  }
  if (!rc_ || !rc_->connected()) return false;
  const RoceAddressing& way = rc_->config().addressing;
  return way.dst == from && way.src == to;
}

void QueuePair::on_packet(Time now, const FrameView& view, const RoceView& roce,
                          const uint8_t* payload) {
  if (is_datagrams()) return hear_datagram(view, roce, payload);
  if (roce.info().kind == OpKind::kCnp) return;  // no congestion control is here to hear it
  const bool request = roce.info().is_request();
  const uint64_t refusals = nic_.rc_counters()[static_cast<size_t>(RcEvent::kRemoteAccess)];
  rc_->on_packet(now, roce, payload);
  look_for_end(request, refusals);
}

void QueuePair::on_timer(Time now) {
  rc_->on_timer(now);
  look_for_end(false, 0);
}

/// The transport may have ended the connection.
void QueuePair::look_for_end(bool was_request, uint64_t refusals_before) {
  if (!rc_ || rc_->state() != QpState::kError || attributes_.qp_state == IBV_QPS_ERR) return;
  if (!was_request) return fail(std::nullopt);  // completions say why
  const uint64_t refusals = nic_.rc_counters()[static_cast<size_t>(RcEvent::kRemoteAccess)];
  fail(refusals > refusals_before ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
}

bool QueuePair::has_packet(Time now) const {
  if (!rc_) return attributes_.qp_state == IBV_QPS_RTS && sends_.waiting() > 0;
  switch (rc_->next(now, TrafficKind::kAny)) {
    case NextPacket::kNone:
      return false;
    case NextPacket::kRequest:
      // Nobody paces us: what the peer has not acknowledged must fit where it waits for the peer.
      return rc_->next_psn().distance_from(rc_->unacknowledged()) <
             static_cast<int32_t>(nic_.window());
    default:
      return true;
  }
}

uint32_t QueuePair::build(Time now, uint8_t* out) {
  if (!rc_) return build_datagram(out);
  bool departs = false;
  uint64_t id = 0;
  if (!rc_->pull(now, TrafficKind::kAny, out_, departs, id)) return 0;
  const RoceAddressing& addressing = rc_->config().addressing;
  uint8_t* payload = begin_roce(out, addressing, out_.fields, out_.payload_bytes);
  out_.payload.write({payload, out_.payload_bytes});
  finish_roce(out, addressing, out_.fields.opcode, out_.payload_bytes);
  return roce_frame_bytes(addressing, out_.fields.opcode, out_.payload_bytes);
}

void QueuePair::push(CompletionQueue& cq, const ibv_wc& wc, bool solicited) {
  if (cq.push(wc, solicited)) return;
  ibv_async_event event{};
  event.element.cq = &cq.ibv;
  event.event_type = IBV_EVENT_CQ_ERR;
  Context::of(cq.ibv.context).events.push(event);
}

void QueuePair::complete(const Work& work, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && !work.signaled) return;
  ibv_wc wc{};
  wc.wr_id = work.id;
  wc.status = status;
  wc.opcode = work.opcode;
  wc.byte_len = work.length;
  wc.qp_num = number();
  push(send_cq(), wc, false);
}

void QueuePair::on_completed(Time, Qp&, uint64_t, WorkStatus status) {
  // In posting order, so it is the oldest.
  const Work& work = sends_.oldest();
  if (status == WorkStatus::kSuccess && work.opcode == IBV_WC_RDMA_READ && !work.copied.empty()) {
    scatter(work);
  }
  complete(work, status_of(status));
  sends_.pop();
  if (status == WorkStatus::kSuccess) finish_refused();
}

/// A request that was refused here fails once those before it are done, and ends the connection.
void QueuePair::finish_refused() {
  if (!blocked_ || sends_.waiting() == 0 || sends_.oldest().begun) return;
  complete(sends_.oldest(), sends_.oldest().refused);
  sends_.pop();
  fail(std::nullopt);
}

void QueuePair::on_established(Time, Qp&) { raise(IBV_EVENT_COMM_EST); }

bool QueuePair::take() {
  if (!receives().take(receive_)) return false;
  receiving_ = true;
  receive_status_ = IBV_WC_SUCCESS;
  if (shared_ != nullptr && receives().waiting() < shared_->limit) {
    shared_->limit = 0;
    ibv_async_event event{};
    event.element.srq = &shared_->ibv;
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    Context::of(handle()->context).events.push(event);
  }
  return true;
}

std::optional<NakCode> QueuePair::place(uint32_t offset, std::span<const uint8_t> bytes) {
  if (offset == 0) receive_status_ = IBV_WC_SUCCESS;  // a dropped message may have had it before
  uint64_t skip = offset;
  for (const ibv_sge& piece : receive_.pieces) {
    if (bytes.empty()) break;
    if (skip >= piece.length) {
      skip -= piece.length;
      continue;
    }
    const Region* region = nic_.regions().find(piece.lkey, domain_);
    if (region == nullptr || (region->access & kAccessLocalWrite) == 0 ||
        !region->covers(piece.addr, piece.length)) {
      receive_status_ = IBV_WC_LOC_PROT_ERR;
      return NakCode::kRemoteOperational;
    }
    const size_t part = std::min<size_t>(piece.length - skip, bytes.size());
    std::memcpy(region->bytes + (piece.addr - region->va) + skip, bytes.data(), part);
    bytes = bytes.subspan(part);
    skip = 0;
  }
  if (bytes.empty()) return std::nullopt;
  receive_status_ = IBV_WC_LOC_LEN_ERR;
  return NakCode::kInvalidRequest;
}

void QueuePair::on_received(Time, Qp&, const Received& message) {
  if (message.is_write && !message.has_imm) return;
  ibv_wc wc{};
  wc.opcode = message.is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = message.length;
  wc.src_qp = attributes_.dest_qp_num;
  if (message.has_imm) {
    wc.imm_data = htonl(message.imm);
    wc.wc_flags = IBV_WC_WITH_IMM;
  } else if (message.has_invalidate) {
    wc.invalidated_rkey = message.invalidated;
    wc.wc_flags = IBV_WC_WITH_INV;
  }
  complete_receive(wc, message.solicited);
}

void QueuePair::complete_receive(const ibv_wc& wc, bool solicited) {
  ibv_wc whole = wc;
  whole.wr_id = receive_.id;
  whole.qp_num = number();
  receiving_ = false;
  push(receive_cq(), whole, solicited);
}

void QueuePair::flush_receives() {
  ibv_wc wc{};
  wc.opcode = IBV_WC_RECV;
  if (receiving_) {
    wc.status = receive_status_ != IBV_WC_SUCCESS ? receive_status_ : IBV_WC_WR_FLUSH_ERR;
    complete_receive(wc, false);
  }
  wc.status = IBV_WC_WR_FLUSH_ERR;
  if (shared_ != nullptr) return raise(IBV_EVENT_QP_LAST_WQE_REACHED);  // they are others' too
  while (own_receives_->take(receive_)) complete_receive(wc, false);
}

void QueuePair::fail(std::optional<ibv_event_type> event) {
  if (attributes_.qp_state == IBV_QPS_ERR || attributes_.qp_state == IBV_QPS_RESET) return;
  attributes_.qp_state = handle_.ex.qp_base.state = IBV_QPS_ERR;
  // Where the transport ended it, a NAK may wait there that the peer must get.
  if (rc_ && rc_->state() != QpState::kError) rc_->modify(nic_.now(), QpState::kError);
  while (sends_.waiting() > 0) {
    complete(sends_.oldest(), IBV_WC_WR_FLUSH_ERR);
    sends_.pop();
  }
  blocked_ = false;
  flush_receives();
  if (event) raise(*event);
}

void QueuePair::raise(ibv_event_type type) {
  ibv_async_event event{};
  event.element.qp = handle();
  event.event_type = type;
  ++events_raised;
  Context::of(handle()->context).events.push(event);
}

}  // namespace understudy::soft_nic
