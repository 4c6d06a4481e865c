// Clients of ours that connect by RDMA-CM: their calls, what servers answer, and calling again.
#include <algorithm>

#include "ctrl/services/cm_control.h"
#include "dataplane/base/pattern.h"
#include "dataplane/cm/rdma_cm.h"

namespace understudy {
namespace {

constexpr uint16_t kFirstSourcePort = 0xc000;  ///< of those that nobody is given by name
constexpr uint16_t kSourcePorts = 0x4000;

/// Nobody listens yet; or the server remembers a run before this one, which it forgets now.
bool worth_another_call(RejReason reason) {
  return reason == RejReason::kInvalidServiceId || reason == RejReason::kStaleConnection;
}

std::string rejection_text(RejReason reason) {
  return std::string("the server rejected: ") + rej_reason_name(reason) + " (" +
         std::to_string(static_cast<unsigned>(reason)) + ")";
}

}  // namespace

CmControl::CallerId CmControl::dial(NodeId node, uint16_t port, std::unique_ptr<CmCaller> caller) {
  const auto id = static_cast<CallerId>(callers_.size() + 1);
  Caller& c = callers_[id];
  c.node = node;
  c.port = port;
  c.machine = std::move(caller);
  return id;
}

void CmControl::dial(Time now, CallerId caller_id, const CmCall& call) {
  Caller& caller = callers_.at(caller_id);
  if (found_ != Found::kYes) {
    if (found_ == Found::kNo) {
      control_.reach(caller.node, call.request.local, call.request.remote,
                     [this] { found_ = Found::kYes; });
    }
    found_ = Found::kAsked;
    redials_.emplace(now, Redial{caller_id, call});
    return;
  }
  CmConnect connect;
  connect.id = agent_.take_id();
  EndpointRequest request = call.request;
  request.reserve = true;
  request.reserved = 0;  // a call before this one had another queue pair
  const auto ready = endpoints_.create(caller.node, key(connect.id), request);
  if (!ready) return caller.machine->give_up(ready.error().text);
  Connection connection;
  connection.machine = caller.machine.get();
  connection.name = call.id;
  connection.caller = caller_id;
  connection.call = call;
  connection.call.request.reserved = connection.qpn = ready->qpn;
  connection.call.request.remote_psn =
      Psn(static_cast<uint32_t>(splitmix64(config_.seed ^ key(connect.id)) & Psn::kMask));
  connection.bound = true;
  connect.ends = {request.local, request.remote};
  connect.service_id = rdma_service_id(PortSpace::kTcp, caller.port);
  connect.qpn = ready->qpn;
  connect.psn = connection.call.request.remote_psn;
  connect.mtu = request.mtu;
  connect.traffic_class = request.sender.traffic_class;
  connect.responder_resources = call.responder_resources;
  connect.initiator_depth = call.initiator_depth;
  connect.retry_count = request.retry_count;
  connect.rnr_retry = request.rnr_retry;
  connect.private_data.resize(kRdmaHeaderBytes);
  const auto source = static_cast<uint16_t>(kFirstSourcePort + connect.id % kSourcePorts);
  format_rdma_header({source, request.local, request.remote}, connect.private_data);
  const auto data = caller.machine->on_endpoint(now, call.id, *ready);
  connect.private_data.insert(connect.private_data.end(), data.begin(), data.end());
  if (!agent_.connect(now, connect)) {
    endpoints_.remove(key(connect.id));
    return caller.machine->give_up("there are too many connections");
  }
  by_qpn_[ready->qpn] = connect.id;
  by_name_[{connection.machine, connection.name}] = connect.id;
  connections_.emplace(connect.id, std::move(connection));
}

void CmControl::on_reply(Time now, const CmEvent& event) {
  const auto& rep = std::get<CmRep>(event.message);
  const Connection& connection = connections_.at(event.id);
  const auto refuse = [&](const std::string& text) {
    agent_.reject(now, event.id, RejReason::kConsumer);
    close(now, event.id, text);
  };
  if (connection.call.initiator_depth > 0 && rep.responder_resources == 0) {
    return refuse("the server answers no READ");
  }
  EndpointRequest request = connection.call.request;
  request.remote_qpn = rep.qpn;
  request.local_psn = Psn(rep.starting_psn);
  request.max_rd_atomic = std::min(connection.call.initiator_depth, rep.responder_resources);
  request.rnr_retry = rep.rnr_retry_count;
  request.flow_control = rep.flow_control;
  const auto ready = endpoints_.create(callers_.at(connection.caller).node, key(event.id), request);
  if (!ready) return refuse(ready.error().text);
  agent_.confirm(now, event.id);
  flush();  // the RTU goes before the first data
}

void CmControl::on_rejected_call(Time now, const CmEvent& event) {
  const RejReason reason = std::get<CmRej>(event.message).reason;
  Connection& connection = connections_.at(event.id);
  Caller& caller = callers_.at(connection.caller);
  if (caller.ended || hanging_up_ || !worth_another_call(reason)) {
    return close(now, event.id, rejection_text(reason));
  }
  caller.refusal = rejection_text(reason);
  redials_.emplace(now + kDialAgain, Redial{connection.caller, connection.call});
  connection.open = false;
  by_name_.erase({connection.machine, connection.name});
}

CmControl::CallerId CmControl::traffic_ended(Time now, uint64_t connection,
                                             const TrafficResult& result) {
  const auto it = connections_.find(static_cast<CmId>(connection));
  if (connection != key(static_cast<CmId>(connection)) || it == connections_.end()) return 0;
  const CallerId caller = it->second.caller;
  if (caller != 0) callers_.at(caller).machine->on_traffic(now, result);
  return caller;
}

std::string CmControl::refusal(CallerId id) const {
  const auto it = callers_.find(id);
  return it == callers_.end() || it->second.ended ? "" : it->second.refusal;
}

/// Does what our clients wish; true if something was done.
bool CmControl::serve_callers(Time now) {
  if (hanging_up_) return false;
  bool done = false;
  for (auto& [id, caller] : callers_) {
    collect(*caller.machine);
    for (const CmCall& call : caller.machine->take_calls()) {
      dial(now, id, call);
      done = true;
    }
    if (caller.ended || !caller.machine->finished()) continue;
    end_caller(id, caller);
    done = true;
  }
  return done;
}

void CmControl::end_caller(CallerId id, Caller& caller) {
  caller.ended = true;
  std::erase_if(redials_, [id](const auto& entry) { return entry.second.caller == id; });
  for (const auto& [cm_id, connection] : connections_) {
    if (connection.caller == id && connection.open) closing_.insert(cm_id);
  }
  callbacks_.caller_ended({id, caller.machine->failure()});
}

}  // namespace understudy
