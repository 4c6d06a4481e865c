#include "tools/roce_check/packets/cm_follower.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/text_format.h"
#include "dataplane/cm/rdma_cm.h"

namespace understudy {
namespace {

constexpr uint8_t kClassCm = 7;
constexpr uint16_t kLastRejReason = 35;
/// Linux counts CM times in 1 << (n - 8) ms, which is 5 % less than 4.096 us << n.
constexpr int64_t kTimerPercent = 90;

Duration cm_time(uint8_t code) { return Duration::ns(4096) * (int64_t{1} << (code & 31)); }

std::string numbered(const char* what, uint64_t value) {
  return std::string(what) + " " + std::to_string(value);
}

}  // namespace

void CmFollower::packet(Stamp stamp, const FrameView& view, std::span<const uint8_t> mad) {
  if (mad.size() < 2 || mad[1] != kClassCm) return;  // of another manager
  Datagram d{stamp, view.src, view.dst, 0};
  findings_.examined(Rule::kA9_1);
  const auto parsed = parse_mad(mad);
  if (!parsed) {
    return fault(Rule::kA9_1, d, std::string("no message: ") + mad_error_name(parsed.error()));
  }
  d.transaction = parsed->transaction_id;
  if (parsed->status != 0) fault(Rule::kA9_1, d, numbered("status", parsed->status));
  findings_.examined(Rule::kA9_2);
  if (!std::ranges::equal(format_mad(*parsed), mad)) {
    fault(Rule::kA9_2, d,
          std::string(cm_attribute_name(cm_attribute(parsed->message))) +
              ": reserved bits are not zero");
  }
  std::visit([&](const auto& m) { message(d, m); }, parsed->message);
}

CmFollower::Exchange* CmFollower::find(const Datagram& d, uint32_t local, uint32_t remote) {
  const auto sent = exchanges_.find({d.src, d.dst, local});
  if (sent != exchanges_.end() &&
      (!sent->second.rep || sent->second.rep->local_comm_id == remote)) {
    return &sent->second;
  }
  const auto received = exchanges_.find({d.dst, d.src, remote});
  if (received != exchanges_.end() &&
      (!received->second.rep || received->second.rep->local_comm_id == local)) {
    return &received->second;
  }
  return nullptr;
}

void CmFollower::same_transaction(const Datagram& d, const Datagram& before, const char* what) {
  if (d.transaction == before.transaction) return;
  fault(Rule::kA9_1, d, std::string(what) + " has another transaction id than what it answers");
}

void CmFollower::check_request(const Datagram& d, const CmReq& m) {
  std::string wrong;
  if (mtu_bytes(m.path_mtu) == 0) wrong += numbered(", path MTU code", m.path_mtu);
  if (m.primary.local_gid != d.src) wrong += ", GID " + m.primary.local_gid.text();
  if (m.primary.remote_gid != d.dst) wrong += ", remote GID " + m.primary.remote_gid.text();
  if (m.qpn == 0) wrong += ", queue pair 0";
  if (!wrong.empty()) fault(Rule::kA9_2, d, "REQ" + wrong);
  check_rdma_header(d, "REQ", m.service_id, m.private_data);
}

void CmFollower::check_rdma_header(const Datagram& d, const char* what, uint64_t service_id,
                                   std::span<const uint8_t> private_data) {
  if (!rdma_port(service_id, PortSpace::kTcp) && !rdma_port(service_id, PortSpace::kUdp)) {
    return;  // of no library that we know
  }
  findings_.examined(Rule::kA9_3);
  const auto header = parse_rdma_header(private_data);
  if (!header) {
    fault(Rule::kA9_3, d, std::string(what) + " of RDMA-CM without its header");
  } else if (header->src != d.src || header->dst != d.dst) {
    fault(Rule::kA9_3, d,
          "RDMA-CM's header says " + header->src.text() + " -> " + header->dst.text());
  }
}

void CmFollower::message(const Datagram& d, const CmReq& m) {
  check_request(d, m);
  const Key key{d.src, d.dst, m.local_comm_id};
  const auto old = exchanges_.find(key);
  if (old != exchanges_.end() && old->second.req.qpn == m.qpn &&
      old->second.req.ca_guid == m.ca_guid && !old->second.dreq) {
    return repeated_request(d, m, old->second);
  }
  if (old != exchanges_.end()) close(old->second, true, d.stamp.at);
  Exchange e;
  e.req_at = d;
  e.req = m;
  e.reqs = 1;
  exchanges_[key] = e;
}

void CmFollower::repeated_request(const Datagram& d, const CmReq& m, Exchange& e) {
  const auto bytes = [&](const CmReq& req) { return format_mad({0, 0, req}); };
  findings_.examined(Rule::kA9_6);
  if (bytes(m) != bytes(e.req)) fault(Rule::kA9_6, d, "a REQ was sent again with other contents");
  if (impaired_) return;  // the network made a copy, or its sender did not wait: nobody knows
  ++e.reqs;
  findings_.examined(Rule::kA9_9);
  const Duration waited = d.stamp.at - e.req_at.stamp.at;
  const Duration wanted = cm_time(m.remote_cm_response_timeout);
  if (waited < wanted / 100 * kTimerPercent) {
    fault(Rule::kA9_9, d,
          format_text("a REQ was sent again after %.3f ms, its timer says %.3f ms",
                      waited.microseconds() / 1000, wanted.microseconds() / 1000));
  }
  if (e.reqs > m.max_cm_retries + 1u) {
    fault(Rule::kA9_9, d,
          "the REQ was sent " + std::to_string(e.reqs) + " times, with at most " +
              std::to_string(m.max_cm_retries) + " retries");
  }
  e.req_at = d;
}

void CmFollower::message(const Datagram& d, const CmRep& m) {
  findings_.examined(Rule::kA9_4);
  const auto at = exchanges_.find({d.dst, d.src, m.remote_comm_id});
  if (at == exchanges_.end()) {
    return suspect(Rule::kA9_4, d, numbered("REP to no REQ, id", m.remote_comm_id));
  }
  Exchange& e = at->second;
  if (e.rejected && !impaired_) fault(Rule::kA9_4, d, "REP after a REJ");
  same_transaction(d, e.req_at, "REP");
  if (e.rep) {
    findings_.examined(Rule::kA9_6);
    const auto bytes = [&](const CmRep& rep) { return format_mad({0, 0, rep}); };
    if (bytes(m) != bytes(*e.rep))
      fault(Rule::kA9_6, d, "a REP was sent again with other contents");
    e.rep_at = d;
    return;
  }
  if (m.qpn == 0) fault(Rule::kA9_2, d, "REP, queue pair 0");
  e.rep = m;
  e.rep_at = d;
  e.answered = true;
  check_stale(d, e);
  connect(d, e);
}

/// The queue pair of a connection that stands cannot be in another one.
void CmFollower::check_stale(const Datagram& d, const Exchange& e) {
  findings_.examined(Rule::kA9_11);
  const auto standing = standing_.find({e.req_at.src, e.req_at.dst, e.req.qpn});
  if (standing == standing_.end() || standing->second == e.req.local_comm_id) return;
  suspect(Rule::kA9_11, d,
          numbered("REP to a REQ with the queue pair of a connection that stands,", e.req.qpn));
}

void CmFollower::connect(const Datagram& d, const Exchange& e) {
  CmPair pair;
  pair.frame = d.stamp.frame;
  pair.interface = interface_;
  pair.path_mtu = mtu_bytes(e.req.path_mtu);
  pair.traffic_class = e.req.primary.traffic_class;
  // Each side says with which PSN the other one shall begin.
  pair.active = {d.dst, e.req.qpn, Psn(e.rep->starting_psn), {}};
  pair.passive = {d.src, e.rep->qpn, Psn(e.req.starting_psn), {}};
  QpLimits both;
  both.retries = e.req.retry_count;
  if (e.req.primary.ack_timeout != 0) both.ack_timeout = cm_time(e.req.primary.ack_timeout);
  pair.active.limits = pair.passive.limits = both;
  pair.active.limits.rnr_retries = e.rep->rnr_retry_count;
  pair.passive.limits.rnr_retries = e.req.rnr_retry_count;
  pair.active.limits.depth = e.rep->responder_resources;
  pair.passive.limits.depth = e.rep->initiator_depth;
  pairs_.push_back(pair);
}

void CmFollower::message(const Datagram& d, const CmRtu& m) {
  findings_.examined(Rule::kA9_5);
  const auto at = exchanges_.find({d.src, d.dst, m.local_comm_id});
  if (at == exchanges_.end()) return;  // begun before the capture
  if (!at->second.rep || at->second.rep->local_comm_id != m.remote_comm_id) {
    return suspect(Rule::kA9_5, d, "RTU to no REP");
  }
  same_transaction(d, at->second.rep_at, "RTU");
  at->second.rtu = true;
  standing_[{d.src, d.dst, at->second.req.qpn}] = m.local_comm_id;
}

void CmFollower::message(const Datagram& d, const CmMra& m) {
  findings_.examined(Rule::kA9_8);
  Exchange* e = find(d, m.local_comm_id, m.remote_comm_id);
  if (e == nullptr) return suspect(Rule::kA9_8, d, "MRA about nothing that was sent");
  e->answered = true;
}

void CmFollower::message(const Datagram& d, const CmRej& m) {
  findings_.examined(Rule::kA9_7);
  const auto reason = static_cast<uint16_t>(m.reason);
  if (reason == 0 || reason > kLastRejReason)
    fault(Rule::kA9_7, d, numbered("REJ, reason", reason));
  Exchange* e = find(d, m.local_comm_id, m.remote_comm_id);
  if (e == nullptr) return;  // to something before the capture, or a refusal of ids themselves
  if (m.subject == CmSubject::kRep && !e->rep) {
    suspect(Rule::kA9_7, d, "REJ of a REP that was not sent");
  }
  e->answered = e->rejected = true;
}

void CmFollower::message(const Datagram& d, const CmDreq& m) {
  findings_.examined(Rule::kA9_10);
  Exchange* e = find(d, m.local_comm_id, m.remote_comm_id);
  if (e == nullptr || !e->rep) return;  // connected before the capture began
  const Qpn receiver = d.src == e->req_at.src ? e->rep->qpn : e->req.qpn;
  if (m.remote_qpn != receiver) {
    fault(Rule::kA9_10, d,
          numbered("DREQ, queue pair", m.remote_qpn) + numbered(", it is", receiver));
  }
  // Both sides may ask at once; the newer question is the one whose id is answered.
  e->dreq = true;
  e->dreq_at = d;
  standing_.erase({e->req_at.src, e->req_at.dst, e->req.qpn});
}

void CmFollower::message(const Datagram& d, const CmDrep& m) {
  findings_.examined(Rule::kA9_10);
  Exchange* e = find(d, m.local_comm_id, m.remote_comm_id);
  if (e == nullptr) return;
  if (!e->dreq) return suspect(Rule::kA9_10, d, "DREP to no DREQ");
  if (e->dreq_at.src == d.dst) same_transaction(d, e->dreq_at, "DREP");
  e->drep = true;
}

void CmFollower::message(const Datagram& d, const CmLap& m) {
  findings_.examined(Rule::kA9_12);
  if (Exchange* e = find(d, m.local_comm_id, m.remote_comm_id)) {
    e->lap = true;
    e->lap_at = d.stamp;
  }
}

void CmFollower::message(const Datagram& d, const CmApr& m) {
  findings_.examined(Rule::kA9_12);
  Exchange* e = find(d, m.local_comm_id, m.remote_comm_id);
  if (e == nullptr) return;
  if (!e->lap) return suspect(Rule::kA9_12, d, "APR to no LAP");
  e->apr = true;
}

void CmFollower::message(const Datagram& d, const CmSidrReq& m) {
  findings_.examined(Rule::kA9_13);
  check_rdma_header(d, "SIDR_REQ", m.service_id, m.private_data);
  sidr_[{d.src, d.dst, m.request_id}] = {d, m};
}

void CmFollower::message(const Datagram& d, const CmSidrRep& m) {
  findings_.examined(Rule::kA9_13);
  const auto request = sidr_.find({d.dst, d.src, m.request_id});
  if (request == sidr_.end()) return;  // answered before, or asked before the capture
  same_transaction(d, request->second.first, "SIDR_REP");
  if (m.service_id != request->second.second.service_id) {
    fault(Rule::kA9_13, d, "SIDR_REP about another service than was asked for");
  }
  if (m.status == SidrStatus::kSuccess && m.qpn == 0) {
    fault(Rule::kA9_13, d, "SIDR_REP with success and queue pair 0");
  }
  sidr_.erase(request);
}

void CmFollower::close(Exchange& e, bool open_end, Time end) {
  if (open_end) return;
  const Time due = e.req_at.stamp.at + cm_time(e.req.remote_cm_response_timeout);
  if (!e.answered && due <= end) suspect(Rule::kA9_4, e.req_at, "REQ without an answer");
  if (e.rep && !e.rtu && !e.rejected && !e.dreq) {
    suspect(Rule::kA9_5, e.rep_at, "REP without an RTU");
  }
  if (e.dreq && !e.drep) suspect(Rule::kA9_10, e.dreq_at, "DREQ without a DREP");
  if (e.lap && !e.apr) {
    suspect(Rule::kA9_12, {e.lap_at, e.req_at.src, e.req_at.dst, 0}, "LAP without an APR");
  }
}

void CmFollower::finish(bool open_end, Time end) {
  for (auto& [key, exchange] : exchanges_) close(exchange, open_end, end);
  for (const auto& [key, request] : sidr_) {
    if (!open_end) suspect(Rule::kA9_13, request.first, "SIDR_REQ without an answer");
  }
}

}  // namespace understudy
