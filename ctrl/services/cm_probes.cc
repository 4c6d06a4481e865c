#include "ctrl/services/cm_probes.h"

#include <utility>

namespace understudy {

void CmProbes::ask(const IpAddress& local, const IpAddress& remote,
                   std::function<void()> answered) {
  const NodeNic* node = control_.shard().node_table().find(local);
  if (node == nullptr || stopped_) return;
  Probe probe;
  probe.ends = {local, remote};
  probe.answered = std::move(answered);
  control_.reach(node->id, local, remote,
                 [this, probe = std::move(probe)] { reachable_.push_back(probe); });
}

void CmProbes::poll(Time now) {
  for (Probe& probe : std::exchange(reachable_, {})) {
    if (stopped_) return;
    CmConnect request;
    request.ends = probe.ends;
    request.service_id = kNobodysService;
    request.qpn = probe.qpn = control_.take_qpn();
    request.ack_timeout = 0;  // no packet of a connection can be under way: no time-wait
    if (probe.qpn == 0) continue;
    if (const auto id = agent_.connect(now, request)) {
      probe.until = now + kCmProbePatience;
      asked_.emplace(*id, std::move(probe));
    } else {
      control_.return_qpn(probe.qpn);
    }
  }
  for (auto& [id, probe] : asked_) {
    if (now >= probe.until) take_back(now, id, probe);
  }
}

void CmProbes::take_back(Time now, CmId id, Probe& probe) {
  probe.until = Time::never();
  probe.answered = nullptr;
  agent_.reject(now, id, RejReason::kConsumer);
}

bool CmProbes::on_event(Time now, const CmEvent& event) {
  const auto it = asked_.find(event.id);
  if (it == asked_.end()) return false;
  Probe& probe = it->second;
  if (event.kind == CmEventKind::kReleased) {
    control_.return_qpn(probe.qpn);
    asked_.erase(it);
    return true;
  }
  if (event.kind != CmEventKind::kReply && event.kind != CmEventKind::kRejected) return true;
  const auto answered = std::move(probe.answered);
  take_back(now, event.id, probe);
  if (answered) answered();
  return true;
}

void CmProbes::stop(Time now) {
  stopped_ = true;
  for (auto& [id, probe] : asked_) take_back(now, id, probe);
}

}  // namespace understudy
