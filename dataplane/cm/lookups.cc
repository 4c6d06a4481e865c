#include "dataplane/cm/lookups.h"

#include <algorithm>

namespace understudy {

void CmLookups::on_mad(Time now, const CmEnds& ends, std::span<const uint8_t> bytes) {
  on_time(now);
  const auto mad = parse_mad(bytes);
  if (!mad) return;
  if (const auto* request = std::get_if<CmSidrReq>(&mad->message)) {
    on_request(now, ends, mad->transaction_id, *request);
  } else if (const auto* reply = std::get_if<CmSidrRep>(&mad->message)) {
    on_reply(ends, *reply);
  }
}

void CmLookups::on_request(Time now, const CmEnds& ends, uint64_t tid, const CmSidrReq& request) {
  const auto known = asked_.find({ends, request.request_id});
  if (known != asked_.end()) {
    const CmId id = known->second;
    Lookup& lookup = lookups_.at(id);
    if (lookup.tid == tid) {
      if (lookup.state != State::kTold) return;  // the consumer is at it
      sends_.push_back({ends, lookup.last});
      return set_timer(id, lookup, now + repeats_by());
    }
    erase(id);  // the peer uses its number anew
  }
  if (!listeners_.contains({ends.local, request.service_id})) {
    return refuse(ends, tid, request, SidrStatus::kUnsupported);
  }
  if (lookups_.size() >= config_.max_lookups) {
    return refuse(ends, tid, request, SidrStatus::kReject);
  }
  const CmId id = fresh_id();
  Lookup& lookup = add(id, ends, tid, request.service_id);
  lookup.state = State::kAsked;
  lookup.request_id = request.request_id;
  asked_[{ends, request.request_id}] = id;
  set_timer(id, lookup, now + config_.longest_wait);
  events_.push_back({CmLookupEventKind::kAsked, id, ends, request, {}});
}

void CmLookups::on_reply(const CmEnds& ends, const CmSidrRep& reply) {
  const auto at = lookups_.find(reply.request_id);
  if (at == lookups_.end() || at->second.state != State::kAsking || at->second.ends != ends ||
      at->second.service_id != reply.service_id) {
    return;
  }
  events_.push_back({CmLookupEventKind::kAnswered, reply.request_id, ends, {}, reply});
  erase(reply.request_id);
}

void CmLookups::refuse(const CmEnds& ends, uint64_t tid, const CmSidrReq& request,
                       SidrStatus status) {
  CmSidrRep reply;
  reply.request_id = request.request_id;
  reply.service_id = request.service_id;
  reply.status = status;
  sends_.push_back({ends, format_mad({tid, 0, reply})});
}

CmId CmLookups::ask(Time now, const CmLookup& wanted) {
  if (lookups_.size() >= config_.max_lookups) return 0;
  const CmId id = fresh_id();
  CmSidrReq request;
  request.request_id = id;
  request.service_id = wanted.service_id;
  std::copy_n(wanted.private_data.begin(),
              std::min(wanted.private_data.size(), request.private_data.size()),
              request.private_data.begin());
  Lookup& lookup = add(id, wanted.ends, config_.seed << 32 ^ id, wanted.service_id);
  lookup.retries_left = config_.retries;
  lookup.last = format_mad({lookup.tid, 0, request});
  sends_.push_back({lookup.ends, lookup.last});
  set_timer(id, lookup, now + config_.wait);
  return id;
}

bool CmLookups::answer(Time now, CmId id, const CmLookupAnswer& answer) {
  const auto at = lookups_.find(id);
  if (at == lookups_.end() || at->second.state != State::kAsked) return false;
  Lookup& lookup = at->second;
  CmSidrRep reply;
  reply.request_id = lookup.request_id;
  reply.service_id = lookup.service_id;
  reply.status = answer.status;
  if (answer.status == SidrStatus::kSuccess) {
    reply.qpn = answer.qpn;
    reply.qkey = answer.qkey;
  }
  std::copy_n(answer.private_data.begin(),
              std::min(answer.private_data.size(), reply.private_data.size()),
              reply.private_data.begin());
  lookup.state = State::kTold;
  lookup.last = format_mad({lookup.tid, 0, reply});
  sends_.push_back({lookup.ends, lookup.last});
  set_timer(id, lookup, now + repeats_by());
  return true;
}

void CmLookups::forget(Time now, CmId id) {
  const auto at = lookups_.find(id);
  if (at == lookups_.end() || at->second.state == State::kTold) return;
  if (at->second.state == State::kAsking) return erase(id);
  answer(now, id, {SidrStatus::kReject, 0, 0, {}});
}

void CmLookups::on_time(Time now) {
  while (deadline() <= now) {
    const auto [at, id] = *timers_.begin();
    Lookup& lookup = lookups_.at(id);
    if (lookup.state == State::kAsking && lookup.retries_left > 0) {
      --lookup.retries_left;
      sends_.push_back({lookup.ends, lookup.last});
      set_timer(id, lookup, at + config_.wait);
      continue;
    }
    if (lookup.state != State::kTold) {
      events_.push_back({CmLookupEventKind::kFailed, id, lookup.ends, {}, {}});
    }
    erase(id);
  }
}

CmLookups::Lookup& CmLookups::add(CmId id, const CmEnds& ends, uint64_t tid, uint64_t service_id) {
  Lookup& lookup = lookups_[id];
  lookup.ends = ends;
  lookup.tid = tid;
  lookup.service_id = service_id;
  return lookup;
}

void CmLookups::erase(CmId id) {
  const auto at = lookups_.find(id);
  const Lookup& lookup = at->second;
  timers_.erase({lookup.deadline, id});
  if (lookup.state != State::kAsking) asked_.erase({lookup.ends, lookup.request_id});
  lookups_.erase(at);
}

void CmLookups::set_timer(CmId id, Lookup& lookup, Time at) {
  timers_.erase({lookup.deadline, id});
  lookup.deadline = at;
  timers_.insert({at, id});
}

CmId CmLookups::fresh_id() {
  // A run's ids start at a place of their own, as the agent's.
  if (last_id_ == 0) last_id_ = static_cast<uint32_t>(config_.seed * 0xd1342543de82ef95ULL >> 32);
  return config_.ids.next(last_id_, [&](CmId id) { return lookups_.contains(id); });
}

}  // namespace understudy
