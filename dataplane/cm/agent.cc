// The agent's table, its timers, and what its consumer asks for.
#include "dataplane/cm/agent.h"

#include <algorithm>

namespace understudy {
namespace {

template <size_t N>
void fill(std::array<uint8_t, N>& field, std::span<const uint8_t> bytes) {
  std::copy_n(bytes.begin(), std::min(bytes.size(), N), field.begin());
}

template <typename M>
CmMad answer_of(const CmConnection& c, M message) {
  message.local_comm_id = c.id;
  message.remote_comm_id = c.remote_id;
  return {c.tid, 0, std::move(message)};
}

}  // namespace

bool CmAgent::announce(Time now, CmId id, Duration delay) {
  Connection* c = by_id(id);
  if (c == nullptr || c->state != CmState::kReqReceived) return false;
  c->answer_by = now + delay;
  set_timer(*c, c->answer_by + c->wait * (c->retries + 1));
  if (delay > cm_time(c->response_timeout)) send_mra(now, *c);
  return true;
}

bool CmAgent::accept(Time now, CmId id, const CmAccept& accept) {
  Connection* c = by_id(id);
  if (c == nullptr || c->state != CmState::kReqReceived) return false;
  CmRep rep;
  rep.qpn = accept.qpn;
  rep.starting_psn = accept.psn.value();
  rep.responder_resources = accept.responder_resources;
  rep.initiator_depth = accept.initiator_depth;
  rep.target_ack_delay = accept.target_ack_delay;
  rep.failover = 1;  // not supported
  rep.flow_control = accept.flow_control;
  rep.rnr_retry_count = accept.rnr_retry;
  rep.ca_guid = config_.ca_guid;
  fill(rep.private_data, accept.private_data);
  c->local_qpn = accept.qpn;
  by_local_qpn_[accept.qpn] = id;
  c->state = CmState::kRepSent;
  await(now, *c, answer_of(*c, rep));
  return true;
}

bool CmAgent::reject(Time now, CmId id, RejReason reason, std::span<const uint8_t> private_data) {
  Connection* c = by_id(id);
  if (c == nullptr) return false;
  if (c->state == CmState::kReqReceived) {
    send_rej(*c, CmSubject::kReq, reason, private_data);
    erase(id);
    return true;
  }
  if (c->state == CmState::kReqSent) {
    send_rej(*c, CmSubject::kReq, RejReason::kTimeout);
  } else if (c->state == CmState::kRepReceived) {
    send_rej(*c, CmSubject::kRep, reason, private_data);
  } else {
    return false;
  }
  enter_time_wait(now, *c);
  return true;
}

std::optional<CmId> CmAgent::connect(Time now, const CmConnect& request) {
  if (connections_.size() >= config_.max_connections) return std::nullopt;
  Connection& c = add(request.ends, request.id == 0 ? fresh_id() : request.id);
  c.active = true;
  c.state = CmState::kReqSent;
  c.local_qpn = request.qpn;
  c.ack_timeout = request.ack_timeout;
  c.tid = fresh_tid();
  c.retries = config_.max_retries;
  // The peer's time to answer, and a packet's life time there and back: the latter is half of the
  // time that the queue pair waits for an ACK.
  c.wait =
      bounded_wait(cm_time(config_.response_timeout) + cm_time(request.ack_timeout), c.retries);
  by_local_qpn_[request.qpn] = c.id;
  CmReq req;
  req.local_comm_id = c.id;
  req.service_id = request.service_id;
  req.ca_guid = config_.ca_guid;
  req.qpn = request.qpn;
  req.responder_resources = request.responder_resources;
  req.initiator_depth = request.initiator_depth;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = config_.response_timeout;
  req.starting_psn = request.psn.value();
  req.flow_control = request.flow_control;
  req.retry_count = request.retry_count;
  req.path_mtu = mtu_code(request.mtu);
  req.rnr_retry_count = request.rnr_retry;
  req.max_cm_retries = config_.max_retries;
  req.primary.local_lid = req.primary.remote_lid = kRoceLid;
  req.primary.local_gid = request.ends.local;
  req.primary.remote_gid = request.ends.remote;
  req.primary.hop_limit = 64;
  req.primary.ack_timeout = request.ack_timeout;
  req.primary.traffic_class = request.traffic_class;
  fill(req.private_data, request.private_data);
  await(now, c, {c.tid, 0, req});
  return c.id;
}

bool CmAgent::confirm(Time now, CmId id) {
  Connection* c = by_id(id);
  if (c == nullptr || c->state != CmState::kRepReceived) return false;
  const CmMad rtu = answer_of(*c, CmRtu{});
  c->last = format_mad(rtu);  // again for each REP that comes again
  send(c->ends, rtu);
  establish(now, *c);
  return true;
}

bool CmAgent::disconnect(Time now, CmId id) {
  Connection* c = by_id(id);
  if (c == nullptr || (c->state != CmState::kEstablished && c->state != CmState::kRepSent)) {
    return false;
  }
  CmDreq dreq;
  dreq.remote_qpn = c->remote_qpn;
  c->tid = fresh_tid();
  c->state = CmState::kDreqSent;
  c->wait = std::min(c->wait, config_.longest_dreq_wait);
  await(now, *c, answer_of(*c, dreq));
  return true;
}

void CmAgent::close(Time now) {
  listeners_.clear();
  std::vector<CmId> ids;
  for (const auto& [id, c] : connections_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());  // in one order, however they are kept
  for (const CmId id : ids) {
    if (!disconnect(now, id)) reject(now, id, RejReason::kConsumer);
  }
}

bool CmAgent::is_needed(Time now, Duration patience) const {
  return std::any_of(connections_.begin(), connections_.end(), [&](const auto& entry) {
    const Connection& c = entry.second;
    return c.state == CmState::kDreqSent || (c.drep_sent && now < *c.drep_sent + patience);
  });
}

void CmAgent::on_data(Time now, Qpn local_qpn) {
  const auto it = by_local_qpn_.find(local_qpn);
  Connection* c = it == by_local_qpn_.end() ? nullptr : by_id(it->second);
  if (c != nullptr && c->state == CmState::kRepSent) establish(now, *c);
}

void CmAgent::on_time(Time now) {
  while (deadline() <= now) {
    Connection& c = *by_id(timers_.begin()->second);
    on_timer(c.deadline, c);
  }
}

void CmAgent::on_timer(Time now, Connection& c) {
  const bool repeats =
      c.state == CmState::kReqSent || c.state == CmState::kRepSent || c.state == CmState::kDreqSent;
  if (repeats && c.retries_left > 0 && now < c.give_up) {
    --c.retries_left;
    ++counters_.repeated;
    ++counters_.sent;
    sends_.push_back({c.ends, c.last});
    return set_timer(c, std::min(now + c.wait, c.give_up));
  }
  if (c.state == CmState::kTimeWait) {
    emit(CmEventKind::kReleased, c);
    return erase(c.id);
  }
  ++counters_.timeouts;
  if (c.state == CmState::kDreqSent) {
    emit(CmEventKind::kDisconnected, c);
    return enter_time_wait(now, c);
  }
  emit(CmEventKind::kFailed, c);
  if (c.state == CmState::kReqReceived) {  // the consumer did not make up its mind
    send_rej(c, CmSubject::kReq, RejReason::kTimeout);
    return erase(c.id);
  }
  send_rej(c, c.state == CmState::kRepSent ? CmSubject::kRep : CmSubject::kReq,
           RejReason::kTimeout);
  enter_time_wait(now, c);
}

CmConnection* CmAgent::by_id(CmId id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : &it->second;
}

CmId CmAgent::fresh_id() {
  // A run's ids start at a place of their own, so that a peer that remembers the run before does
  // not take one for the other.
  if (last_id_ == 0) last_id_ = static_cast<uint32_t>(config_.seed * 0x9e3779b97f4a7c15ULL >> 32);
  return config_.ids.next(last_id_, [&](CmId id) { return connections_.contains(id); });
}

CmConnection& CmAgent::add(const CmEnds& ends, CmId id) {
  Connection& c = connections_[id];
  c.id = id;
  c.ends = ends;
  return c;
}

void CmAgent::erase(CmId id) {
  const auto it = connections_.find(id);
  const Connection& c = it->second;
  timers_.erase({c.deadline, id});
  // A number may stand for a newer connection by now.
  const auto drop = [id](auto& map, const auto& key) {
    const auto at = map.find(key);
    if (at != map.end() && at->second == id) map.erase(at);
  };
  drop(by_remote_id_, name_of(c));
  drop(by_remote_qpn_, std::pair(c.remote_guid, c.remote_qpn));
  drop(by_local_qpn_, c.local_qpn);
  connections_.erase(it);
}

void CmAgent::set_timer(Connection& c, Time at) {
  timers_.erase({c.deadline, c.id});
  c.deadline = at;
  if (!at.is_never()) timers_.insert({at, c.id});
}

/// Sends a message that is repeated until its answer comes.
void CmAgent::await(Time now, Connection& c, const CmMad& mad) {
  c.last = format_mad(mad);
  c.retries_left = c.retries;
  c.give_up = now + config_.longest_wait;
  send(c.ends, mad);
  set_timer(c, now + c.wait);
}

/// Says that the answer to a REQ takes its time: until the moment that was announced, or else as
/// long again as the peer waits anyway.
void CmAgent::send_mra(Time now, const Connection& c) {
  CmMra mra;
  mra.local_comm_id = c.id;
  mra.remote_comm_id = c.remote_id;
  mra.subject = CmSubject::kReq;
  const Duration left = c.answer_by > now ? c.answer_by - now : Duration();
  mra.service_timeout = std::max(cm_code(left), c.response_timeout);
  send(c.ends, {c.tid, 0, mra});
}

void CmAgent::establish(Time, Connection& c) {
  c.state = CmState::kEstablished;
  set_timer(c, Time::never());
  ++counters_.established;
  emit(CmEventKind::kEstablished, c);
}

void CmAgent::enter_time_wait(Time now, Connection& c) {
  c.state = CmState::kTimeWait;
  const auto at = by_remote_qpn_.find({c.remote_guid, c.remote_qpn});
  if (at != by_remote_qpn_.end() && at->second == c.id) by_remote_qpn_.erase(at);
  set_timer(c, now + std::min(cm_time(c.ack_timeout), config_.longest_time_wait));
}

void CmAgent::send_rej(Connection& c, CmSubject subject, RejReason reason,
                       std::span<const uint8_t> private_data) {
  CmRej rej;
  rej.subject = subject;
  rej.reason = reason;
  if (reason == RejReason::kTimeout) {
    // A peer whose answer never came knows us by our GUID only.
    for (size_t i = 0; i < 8; ++i) {
      rej.info[i] = static_cast<uint8_t>(config_.ca_guid >> (56 - 8 * i));
    }
    rej.info_length = 8;
  }
  fill(rej.private_data, private_data);
  ++counters_.rejected;
  send(c.ends, answer_of(c, rej));
}

void CmAgent::send(const CmEnds& ends, const CmMad& mad) {
  ++counters_.sent;
  sends_.push_back({ends, format_mad(mad)});
}

void CmAgent::emit(CmEventKind kind, const Connection& c, CmMessage message) {
  events_.push_back({kind, c.id, c.ends, std::move(message)});
}

}  // namespace understudy
