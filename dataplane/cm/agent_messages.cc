// What each message of a peer does, by the state of its connection.
#include "dataplane/cm/agent.h"

namespace understudy {
namespace {

constexpr uint8_t kReliableConnection = 0;

uint64_t guid_in(const CmRej& rej) {
  uint64_t guid = 0;
  for (size_t i = 0; i < 8; ++i) guid = guid << 8 | rej.info[i];
  return guid;
}

}  // namespace

void CmAgent::on_mad(Time now, const CmEnds& ends, std::span<const uint8_t> bytes) {
  on_time(now);
  ++counters_.received;
  const auto mad = parse_mad(bytes);
  if (!mad) {
    ++counters_.malformed;
    return;
  }
  std::visit([&](const auto& m) { on_message(now, ends, mad->transaction_id, m); }, mad->message);
}

/// The connection that both sides' ids name; `local_id` is ours.
CmConnection* CmAgent::find(const CmEnds& ends, uint32_t local_id, uint32_t remote_id) {
  Connection* c = by_id(local_id);
  if (c == nullptr || c->ends != ends || c->remote_id != remote_id) return nullptr;
  return c;
}

void CmAgent::on_message(Time now, const CmEnds& ends, uint64_t tid, const CmReq& req) {
  const auto known = by_remote_id_.find({req.ca_guid, req.local_comm_id, ends.local});
  if (known != by_remote_id_.end()) {
    ++counters_.duplicates;
    return on_duplicate_req(now, *by_id(known->second));
  }
  if (const auto fault = fault_of(ends, req)) return refuse(ends, tid, req, *fault);
  const auto holder = by_remote_qpn_.find({req.ca_guid, req.qpn});
  if (holder != by_remote_qpn_.end()) {
    // The peer has forgotten the connection that this queue pair has: it is closed, and the peer
    // may ask again (rule A9.11).
    ++counters_.stale;
    Connection& old = *by_id(holder->second);
    refuse(ends, tid, req, RejReason::kStaleConnection);
    if (disconnect(now, old.id) || old.state == CmState::kDreqSent) return;
    emit(CmEventKind::kFailed, old);
    reject(now, old.id, RejReason::kStaleConnection);
    return;
  }
  if (connections_.size() >= config_.max_connections) {
    return refuse(ends, tid, req, RejReason::kNoResources);
  }
  Connection& c = add(ends, fresh_id());
  c.remote_id = req.local_comm_id;
  c.remote_guid = req.ca_guid;
  c.remote_qpn = req.qpn;
  c.tid = tid;
  c.ack_timeout = req.primary.ack_timeout;
  c.response_timeout = req.remote_cm_response_timeout;
  c.retries = req.max_cm_retries;
  c.wait = bounded_wait(cm_time(req.local_cm_response_timeout) + cm_time(req.primary.ack_timeout),
                        c.retries);
  by_remote_id_[name_of(c)] = c.id;
  by_remote_qpn_[{c.remote_guid, c.remote_qpn}] = c.id;
  set_timer(c, now + c.wait * (c.retries + 1));
  emit(CmEventKind::kRequest, c, req);
}

void CmAgent::on_duplicate_req(Time now, Connection& c) {
  switch (c.state) {
    case CmState::kReqReceived:
      return send_mra(now, c);
    case CmState::kRepSent:
      ++counters_.sent;
      sends_.push_back({c.ends, c.last});
      return;
    case CmState::kTimeWait:
      return send_rej(c, CmSubject::kReq, RejReason::kStaleConnection);
    default:
      return;  // it crossed the answer
  }
}

std::optional<RejReason> CmAgent::fault_of(const CmEnds& ends, const CmReq& req) const {
  if (!listeners_.contains({ends.local, req.service_id})) return RejReason::kInvalidServiceId;
  if (req.transport_type != kReliableConnection) return RejReason::kInvalidTransportType;
  if (req.primary.remote_gid != ends.local) return RejReason::kInvalidGid;
  const uint32_t mtu = mtu_bytes(req.path_mtu);
  if (mtu == 0 || mtu > config_.max_mtu) return RejReason::kInvalidMtu;
  return std::nullopt;
}

void CmAgent::refuse(const CmEnds& ends, uint64_t tid, const CmReq& req, RejReason reason) {
  CmRej rej;
  rej.remote_comm_id = req.local_comm_id;
  rej.subject = CmSubject::kReq;
  rej.reason = reason;
  if (reason == RejReason::kInvalidMtu) {
    rej.info[0] = static_cast<uint8_t>(mtu_code(config_.max_mtu) << 4);
    rej.info_length = 1;
  }
  ++counters_.rejected;
  send(ends, {tid, 0, rej});
}

void CmAgent::on_message(Time now, const CmEnds& ends, uint64_t, const CmMra& mra) {
  Connection* c = by_id(mra.remote_comm_id);
  if (c == nullptr || c->ends != ends) return unexpected();
  const bool fits = (c->state == CmState::kReqSent && mra.subject == CmSubject::kReq) ||
                    (c->state == CmState::kRepSent && mra.subject == CmSubject::kRep);
  if (!fits) return unexpected();
  set_timer(*c, std::min(now + cm_time(mra.service_timeout) + c->wait, c->give_up));
}

/// A REJ names us by our id, or, if it was sent for want of any answer, by its sender's id and
/// GUID.
CmConnection* CmAgent::rejected_by(const CmEnds& ends, const CmRej& rej) {
  if (rej.reason == RejReason::kTimeout && rej.remote_comm_id == 0) {
    const auto it = by_remote_id_.find({guid_in(rej), rej.local_comm_id, ends.local});
    return it == by_remote_id_.end() ? nullptr : by_id(it->second);
  }
  return by_id(rej.remote_comm_id);
}

void CmAgent::on_message(Time now, const CmEnds& ends, uint64_t, const CmRej& rej) {
  Connection* c = rejected_by(ends, rej);
  if (c == nullptr || c->ends != ends) return unexpected();
  switch (c->state) {
    case CmState::kReqReceived:  // the peer has given up before the consumer answered
      emit(CmEventKind::kRejected, *c, rej);
      return erase(c->id);
    case CmState::kReqSent:
      emit(CmEventKind::kRejected, *c, rej);
      emit(CmEventKind::kReleased, *c);
      return erase(c->id);
    case CmState::kRepReceived:
    case CmState::kRepSent:
      emit(CmEventKind::kRejected, *c, rej);
      return enter_time_wait(now, *c);
    case CmState::kEstablished:
    case CmState::kDreqSent:
      emit(CmEventKind::kDisconnected, *c);
      return enter_time_wait(now, *c);
    case CmState::kTimeWait:
      return unexpected();
  }
}

void CmAgent::on_message(Time, const CmEnds& ends, uint64_t tid, const CmRep& rep) {
  Connection* c = by_id(rep.remote_comm_id);
  if (c == nullptr || c->ends != ends || !c->active ||
      (c->remote_id != 0 && c->remote_id != rep.local_comm_id)) {
    unexpected();
    CmRej rej;
    rej.local_comm_id = rep.remote_comm_id;
    rej.remote_comm_id = rep.local_comm_id;
    rej.subject = CmSubject::kRep;
    rej.reason = RejReason::kInvalidCommId;
    ++counters_.rejected;
    return send(ends, {tid, 0, rej});
  }
  if (c->state == CmState::kEstablished) {  // our RTU was lost
    ++counters_.duplicates;
    ++counters_.sent;
    sends_.push_back({c->ends, c->last});
    return;
  }
  if (c->state != CmState::kReqSent) return unexpected();
  c->remote_id = rep.local_comm_id;
  c->remote_guid = rep.ca_guid;
  c->remote_qpn = rep.qpn;
  c->state = CmState::kRepReceived;
  by_remote_qpn_[{c->remote_guid, c->remote_qpn}] = c->id;
  set_timer(*c, Time::never());
  emit(CmEventKind::kReply, *c, rep);
}

void CmAgent::on_message(Time now, const CmEnds& ends, uint64_t, const CmRtu& rtu) {
  Connection* c = find(ends, rtu.remote_comm_id, rtu.local_comm_id);
  if (c == nullptr) return unexpected();
  if (c->state == CmState::kRepSent) return establish(now, *c);
  ++counters_.duplicates;
}

void CmAgent::on_message(Time now, const CmEnds& ends, uint64_t tid, const CmDreq& dreq) {
  Connection* c = find(ends, dreq.remote_comm_id, dreq.local_comm_id);
  if (c != nullptr && c->local_qpn != dreq.remote_qpn) return unexpected();
  const bool stands =
      c != nullptr && (c->state == CmState::kEstablished || c->state == CmState::kRepSent ||
                       c->state == CmState::kDreqSent);
  if (c != nullptr && !stands && c->state != CmState::kTimeWait) return unexpected();
  // Whoever asks may go, also if we have forgotten the connection already.
  CmDrep drep;
  drep.local_comm_id = dreq.remote_comm_id;
  drep.remote_comm_id = dreq.local_comm_id;
  send(ends, {tid, 0, drep});
  if (c != nullptr) c->drep_sent = now;
  if (!stands) {
    ++counters_.duplicates;
    return;
  }
  emit(CmEventKind::kDisconnected, *c, dreq);
  enter_time_wait(now, *c);
}

void CmAgent::on_message(Time now, const CmEnds& ends, uint64_t, const CmDrep& drep) {
  Connection* c = find(ends, drep.remote_comm_id, drep.local_comm_id);
  if (c == nullptr || c->state != CmState::kDreqSent) return unexpected();
  emit(CmEventKind::kDisconnected, *c, drep);
  enter_time_wait(now, *c);
}

/// Alternate paths are not supported; the connection stands as it is (rule A9.12).
void CmAgent::on_message(Time, const CmEnds& ends, uint64_t tid, const CmLap& lap) {
  const Connection* c = find(ends, lap.remote_comm_id, lap.local_comm_id);
  CmApr apr;
  apr.local_comm_id = lap.remote_comm_id;
  apr.remote_comm_id = lap.local_comm_id;
  apr.status = c == nullptr ? AprStatus::kInvalidCommId : AprStatus::kUnsupported;
  send(ends, {tid, 0, apr});
}

void CmAgent::on_message(Time, const CmEnds&, uint64_t, const CmApr&) { unexpected(); }

void CmAgent::on_message(Time, const CmEnds& ends, uint64_t tid, const CmSidrReq& req) {
  CmSidrRep rep;
  rep.request_id = req.request_id;
  rep.service_id = req.service_id;
  rep.status = SidrStatus::kUnsupported;
  send(ends, {tid, 0, rep});
}

void CmAgent::on_message(Time, const CmEnds&, uint64_t, const CmSidrRep&) { unexpected(); }

}  // namespace understudy
