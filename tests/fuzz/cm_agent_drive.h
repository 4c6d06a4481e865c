// Any bytes as datagrams, a consumer's wishes and time for a communication manager, and what must
// hold whatever comes.
#pragma once

#include <map>

#include "dataplane/cm/agent.h"
#include "tests/fuzz/input.h"

namespace understudy {

class CmAgentDrive {
 public:
  CmAgentDrive() : agent_(config()) { agent_.listen(ends().local, kService); }

  void run(std::span<const uint8_t> bytes) {
    FuzzInput in(bytes);
    while (!in.done()) {
      step(in);
      observe();
    }
    // Whatever was begun comes to its end, as long as nobody asks for more.
    for (int turn = 0; turn < 200 && agent_.connections() > 0; ++turn) {
      for (auto& [id, c] : seen_) {
        if (c.last == CmEventKind::kEstablished) agent_.disconnect(now_, id);
        if (c.last == CmEventKind::kReply && agent_.reject(now_, id, RejReason::kConsumer)) {
          c.last = CmEventKind::kRejected;
        }
      }
      observe();
      if (!agent_.deadline().is_never()) now_ = std::max(now_, agent_.deadline());
      agent_.on_time(now_);
      observe();
    }
    must(agent_.connections() == 0 && seen_.empty());
  }
  const CmCounters& counters() const { return agent_.counters(); }

 private:
  static constexpr uint64_t kService = 0x01061c06;
  static constexpr uint32_t kMostConnections = 8;

  static CmAgentConfig config() {
    CmAgentConfig c;
    c.max_connections = kMostConnections;
    c.max_retries = 2;
    return c;
  }
  static CmEnds ends() { return {IpAddress::v4(0x0a090002), IpAddress::v4(0x0a090001)}; }

  void step(FuzzInput& in) {
    switch (in.byte() % 8) {
      case 0: {  // any bytes
        const auto bytes = in.take(kMadBytes);
        return agent_.on_mad(now_, ends(), std::vector<uint8_t>(bytes.begin(), bytes.end()));
      }
      case 1:
        now_ += Duration::ms(in.byte() * in.byte());
        return agent_.on_time(now_);
      case 2:
        return wish(in);
      case 3: {
        CmConnect c;
        c.ends = ends();
        c.qpn = 1 + in.byte() % 16;
        c.ack_timeout = in.byte() % 20;
        if (const auto id = agent_.connect(now_, c)) seen_[*id] = {CmEventKind::kReleased, true};
        return;
      }
      case 4:
        return agent_.on_data(now_, 1 + in.byte() % 16);
      default:
        return message(in);
    }
  }

  CmId pick(FuzzInput& in) const {
    if (seen_.empty()) return in.byte();
    auto it = seen_.begin();
    std::advance(it, in.byte() % seen_.size());
    return it->first;
  }

  void wish(FuzzInput& in) {
    const CmId id = pick(in);
    switch (in.byte() % 4) {
      case 0: {
        CmAccept a;
        a.qpn = 1 + in.byte() % 16;
        if (agent_.accept(now_, id, a)) seen_[id].bound = true;
        return;
      }
      case 1:
        if (agent_.reject(now_, id, RejReason::kConsumer)) rejected(id);
        return;
      case 2:
        agent_.confirm(now_, id);
        return;
      default:
        agent_.disconnect(now_, id);
    }
  }

  /// What has no queue pair yet is gone at once; else the queue pair rests.
  void rejected(CmId id) {
    if (seen_[id].bound) {
      seen_[id].last = CmEventKind::kRejected;
    } else {
      seen_.erase(id);
    }
  }

  /// A message that belongs to something: few ids, numbers and times.
  void message(FuzzInput& in) {
    CmMad mad;
    const uint32_t theirs = in.byte() % 8, ours = pick(in);
    const auto with_ids = [&](auto m) {
      m.local_comm_id = theirs;
      m.remote_comm_id = ours;
      return m;
    };
    switch (in.byte() % 9) {
      case 0: {
        CmReq req;
        req.local_comm_id = theirs;
        req.service_id = kService + in.byte() / 250;
        req.qpn = in.byte() % 8;
        req.path_mtu = static_cast<uint8_t>(1 + in.byte() % 6);
        req.local_cm_response_timeout = in.byte() % 24;
        req.primary.ack_timeout = in.byte() % 24;
        req.primary.remote_gid = ends().local;
        req.max_cm_retries = in.byte() % 4;
        mad.message = req;
        break;
      }
      case 1: {
        auto rep = with_ids(CmRep());
        rep.qpn = in.byte() % 8;
        mad.message = rep;
        break;
      }
      case 2: {
        auto mra = with_ids(CmMra());
        mra.subject = static_cast<CmSubject>(in.byte() % 4);
        mra.service_timeout = in.byte() % 24;
        mad.message = mra;
        break;
      }
      case 3: {
        auto rej = with_ids(CmRej());
        rej.reason = static_cast<RejReason>(in.byte() % 40);
        if (in.byte() % 4 == 0) rej.remote_comm_id = 0;
        mad.message = rej;
        break;
      }
      case 4:
        mad.message = with_ids(CmRtu());
        break;
      case 5: {
        auto dreq = with_ids(CmDreq());
        dreq.remote_qpn = 1 + in.byte() % 16;
        mad.message = dreq;
        break;
      }
      case 6:
        mad.message = with_ids(CmDrep());
        break;
      case 7:
        mad.message = with_ids(CmLap());
        break;
      default:
        mad.message = CmSidrReq();
    }
    agent_.on_mad(now_, ends(), format_mad(mad));
  }

  void observe() {
    must(agent_.connections() <= kMostConnections);
    must(agent_.deadline() > now_);
    for (const CmSend& s : agent_.take_sends()) {
      must(s.ends == ends());
      must(parse_mad(s.bytes).has_value());
    }
    for (const CmEvent& e : agent_.take_events()) on_event(e);
  }

  void on_event(const CmEvent& e) {
    using K = CmEventKind;
    const auto known = seen_.find(e.id);
    if (e.kind == K::kRequest) {
      must(known == seen_.end());
      seen_[e.id] = {e.kind, false};
      return;
    }
    must(known != seen_.end());
    K& state = known->second.last;
    switch (e.kind) {
      case K::kRequest:
        return;
      case K::kReply:
        must(state == K::kReleased);  // connect()ed, and nothing since
        break;
      case K::kEstablished:
        must(state == K::kRequest || state == K::kReply);
        break;
      case K::kRejected:
      case K::kFailed:
      case K::kDisconnected:
        must(state != K::kRejected && state != K::kFailed && state != K::kDisconnected);
        break;
      case K::kReleased:
        must(state == K::kRejected || state == K::kFailed || state == K::kDisconnected);
        must(known->second.bound);
        seen_.erase(known);
        return;
    }
    state = e.kind;
    if (state == K::kRejected || state == K::kFailed) rejected(e.id);
  }

  struct Seen {
    CmEventKind last = CmEventKind::kReleased;  ///< event; kReleased: none yet
    bool bound = false;                         ///< accepted or connected: it has a queue pair
  };

  CmAgent agent_;
  std::map<CmId, Seen> seen_;
  Time now_;
};

}  // namespace understudy
