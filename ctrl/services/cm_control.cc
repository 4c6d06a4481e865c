#include "ctrl/services/cm_control.h"

#include <algorithm>

#include "ctrl/compile/shard_config.h"
#include "ctrl/peers/services/make_cm_service.h"
#include "dataplane/cm/rdma_cm.h"

namespace understudy {
namespace {

/// What we let a client have outstanding, whatever it asks for.
constexpr uint8_t kMostOutstandingReads = 16;

CmAgentConfig agent_config(const Config& config, size_t port) {
  CmAgentConfig c;
  c.seed = config.seed + port;
  c.ca_guid = uint64_t{0x027500fffe} << 24 | (port + 1);  // as an EUI-64 of our MAC addresses
  c.max_mtu = config.fabric.mtu;
  c.max_connections = config.limits.queue_pairs;  // each has one
  return c;
}

CmClient client_of(const CmEnds& ends, const CmReq& req) {
  CmClient c;
  c.local = ends.local;
  c.remote = ends.remote;
  c.port = rdma_port(req.service_id, PortSpace::kTcp).value_or(0);
  c.remote_qpn = req.qpn;
  c.local_psn = Psn(req.starting_psn);
  c.mtu = mtu_bytes(req.path_mtu);
  c.timeout = req.primary.ack_timeout;
  c.retry_count = req.retry_count;
  c.rnr_retry = req.rnr_retry_count;
  c.responder_resources = req.responder_resources;
  c.initiator_depth = req.initiator_depth;
  c.traffic_class = req.primary.traffic_class;
  c.flow_control = req.flow_control;
  const auto data = std::span(req.private_data).subspan(kRdmaHeaderBytes);
  c.private_data.assign(data.begin(), data.end());
  return c;
}

}  // namespace

CmControl::CmControl(const Config& config, size_t port, ShardControl& control,
                     ServiceEndpoints& endpoints, Callbacks callbacks)
    : config_(config),
      port_(port),
      control_(control),
      endpoints_(endpoints),
      callbacks_(std::move(callbacks)),
      agent_(agent_config(config, port)),
      probes_(agent_, control) {}

void CmControl::listen() {
  std::set<unsigned> rails;
  for (const NodeNic& nic : control_.shard().node_table().nics()) {
    if (nic.real) rails.insert(nic.nic);
  }
  for (const unsigned rail : rails) listen(rail);
}

void CmControl::listen(unsigned rail) {
  for (const ServiceConfig& s : config_.services) {
    const NodeConfig& node = config_.nodes[s.node];
    if (rail >= node.nics.size()) continue;
    auto listener = std::make_unique<Listener>();
    listener->node = s.node;
    listener->accept_delay = s.accept_delay;
    listener->service = make_cm_service(service_of(config_, s, rail));
    if (listener->service == nullptr) continue;
    const NicConfig& nic = node.nics[rail];
    for (const auto& address : {nic.v4, nic.v6}) {
      if (!address) continue;
      agent_.listen(*address, rdma_service_id(PortSpace::kTcp, s.port));
      by_port_[{*address, s.port}] = listener.get();
    }
    listeners_.push_back(std::move(listener));
  }
}

void CmControl::poll(Time now, size_t most) {
  const auto take = [this](const Notice& n, std::span<const uint8_t> b) { on_notice(n, b); };
  size_t taken = 0;
  while (taken < most && control_.shard().notices().take(take)) ++taken;
  behind_ = taken == most;
  hear(now);
  agent_.on_time(now);
  while (!accepts_.empty() && accepts_.begin()->first <= now) {
    accept(now, accepts_.begin()->second);
    accepts_.erase(accepts_.begin());
  }
  while (found_ == Found::kYes && !redials_.empty() && redials_.begin()->first <= now) {
    const Redial redial = redials_.begin()->second;
    redials_.erase(redials_.begin());
    dial(now, redial.caller, redial.call);
  }
  probes_.poll(now);
  collect(now);
}

/// Takes the messages that came by connections.
void CmControl::hear(Time now) {
  for (const ServiceEndpoints::Heard& heard : endpoints_.take_heard(control_)) {
    const CmId id = static_cast<CmId>(heard.connection);
    const auto connection = connections_.find(id);
    if (connection == connections_.end() || !connection->second.open) continue;
    if (heard.failed) {
      closing_.insert(id);
      if (const CallerId caller = connection->second.caller) {
        callers_.at(caller).machine->give_up("a connection's queue pair failed");
      }
    } else {
      connection->second.machine->on_message(now, connection->second.name, heard.bytes);
    }
  }
}

void CmControl::on_notice(const Notice& notice, std::span<const uint8_t> bytes) {
  if (notice.kind == NoticeKind::kMad) {
    agent_.on_mad(notice.at, {notice.local, notice.remote}, bytes);
  } else if (const auto it = by_qpn_.find(notice.qpn); it != by_qpn_.end()) {
    const auto connection = connections_.find(it->second);
    if (!connection->second.open) return;
    if (notice.kind == NoticeKind::kEstablished) {
      agent_.on_data(notice.at, notice.qpn);
    } else {
      connection->second.machine->on_done(notice.at, connection->second.name);
    }
  }
  collect(notice.at);
}

/// Events make machines speak, whose wishes make events.
void CmControl::collect(Time now) {
  for (bool more = true; more;) {
    more = false;
    for (const CmEvent& event : agent_.take_events()) {
      on_event(now, event);
      more = true;
    }
    for (const auto& listener : listeners_) collect(*listener->service);
    more = serve_callers(now) || more;
    // Who has not got its last message yet would miss it once its queue pair is gone.
    std::vector<CmId> delivered;
    for (const CmId id : closing_) {
      if (endpoints_.all_delivered(key(id))) delivered.push_back(id);
    }
    for (const CmId id : delivered) more = part(now, id) || more;
  }
  flush();
}

void CmControl::flush() {
  for (const CmSend& s : agent_.take_sends()) send(s);
}

void CmControl::collect(CmMachine& machine) {
  for (const EndpointStart& start : machine.take_starts()) endpoints_.start(start);
  for (const CmMachine::Message& message : machine.take_messages()) {
    if (const CmId id = find(machine, message.id)) endpoints_.send(key(id), message.bytes);
  }
  for (const CmMachine::Id name : machine.take_closes()) {
    if (const CmId id = find(machine, name)) closing_.insert(id);
  }
}

CmId CmControl::find(const CmMachine& machine, CmMachine::Id name) const {
  const auto it = by_name_.find({&machine, name});
  return it == by_name_.end() ? 0 : it->second;
}

void CmControl::on_event(Time now, const CmEvent& event) {
  if (probes_.on_event(now, event)) return;
  switch (event.kind) {
    case CmEventKind::kRequest:
      return on_request(now, event);
    case CmEventKind::kReply:
      return on_reply(now, event);
    case CmEventKind::kEstablished: {
      const Connection& c = connections_.at(event.id);
      endpoints_.modify(key(event.id), QpState::kRts);
      return c.machine->on_established(now, c.name);
    }
    case CmEventKind::kRejected: {
      const auto it = connections_.find(event.id);
      if (it != connections_.end() && it->second.caller != 0) return on_rejected_call(now, event);
      const RejReason reason = std::get<CmRej>(event.message).reason;
      return close(now, event.id, std::string("the client rejected: ") + rej_reason_name(reason));
    }
    case CmEventKind::kFailed:
      return close(now, event.id, "the other side does not answer");
    case CmEventKind::kDisconnected:
      hear(now);  // what it said before it closed
      return close(now, event.id, "");
    case CmEventKind::kReleased:
      return release(event.id);
  }
}

void CmControl::on_request(Time now, const CmEvent& event) {
  if (hanging_up_) {
    agent_.reject(now, event.id, RejReason::kNoResources);
    return;
  }
  const auto& req = std::get<CmReq>(event.message);
  const CmClient client = client_of(event.ends, req);
  Listener& listener = *by_port_.at({client.local, client.port});
  Connection connection;
  connection.machine = listener.service.get();
  connection.name = event.id;
  ServiceReport& report = connection.report;
  report.node = config_.nodes[listener.node].name;
  report.port = client.port;
  report.client = client.remote.text();
  report.from = now;
  const auto refuse = [&](RejReason reason, const std::string& text) {
    agent_.reject(now, event.id, reason);
    report.to = now;
    report.error = text;
    callbacks_.say(text);
    callbacks_.ended(report);
  };
  const auto header = parse_rdma_header(req.private_data);
  if (!header || header->dst != client.local) {
    return refuse(RejReason::kConsumer,
                  "the request lacks RDMA-CM's header for " + client.local.text());
  }
  const auto request = listener.service->on_request(now, event.id, client);
  if (!request) return refuse(RejReason::kConsumer, request.error().text);
  report.kind = request->service_kind;
  const auto ready = endpoints_.create(listener.node, key(event.id), *request);
  if (!ready) {
    listener.service->on_closed(now, event.id);
    return refuse(RejReason::kNoQp, ready.error().text);
  }
  Accept answer{event.id, {}};
  answer.what.qpn = connection.qpn = ready->qpn;
  answer.what.psn = request->remote_psn;
  answer.what.responder_resources = std::min(client.initiator_depth, kMostOutstandingReads);
  answer.what.initiator_depth = std::min(client.responder_resources, kMostOutstandingReads);
  answer.what.private_data = listener.service->on_endpoint(now, event.id, *ready);
  by_qpn_[ready->qpn] = event.id;
  by_name_[{connection.machine, connection.name}] = event.id;
  connections_.emplace(event.id, std::move(connection));
  if (listener.accept_delay == Duration()) return accept(now, answer);
  agent_.announce(now, event.id, listener.accept_delay);
  accepts_.emplace(now + listener.accept_delay, std::move(answer));
}

/// A request that was given up meanwhile is not answered any more.
void CmControl::accept(Time now, const Accept& accept) {
  const auto it = connections_.find(accept.id);
  if (it != connections_.end()) it->second.bound = agent_.accept(now, accept.id, accept.what);
}

void CmControl::close(Time now, CmId id, const std::string& error) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || !it->second.open) return;
  Connection& c = it->second;
  c.open = false;
  closing_.erase(id);
  by_name_.erase({c.machine, c.name});
  endpoints_.modify(key(id), QpState::kError);
  if (c.caller != 0) {
    CmCaller& machine = *callers_.at(c.caller).machine;
    if (error.empty()) {
      machine.on_closed(now, c.name);
    } else {
      machine.give_up(error);
    }
    return;
  }
  const std::string failure = c.machine->on_closed(now, c.name);
  c.report.to = now;
  c.report.error = failure.empty() ? error : failure;
  if (!c.report.error.empty()) {
    callbacks_.say(c.report.node + ":" + std::to_string(c.report.port) + ": " + c.report.error);
  }
  callbacks_.ended(c.report);
  if (!c.bound) release(id);
}

/// Begins to close a connection; one that does not stand yet is over at once.
bool CmControl::part(Time now, CmId id) {
  closing_.erase(id);
  if (agent_.disconnect(now, id)) return true;
  if (!agent_.reject(now, id, RejReason::kConsumer)) return false;
  close(now, id, "it was closed before it stood");
  return true;
}

void CmControl::release(CmId id) {
  const auto it = connections_.find(id);
  by_qpn_.erase(it->second.qpn);
  connections_.erase(it);
  endpoints_.remove(key(id));
}

void CmControl::hang_up(Time now) {
  hanging_up_ = true;
  probes_.stop(now);
  accepts_.clear();
  redials_.clear();
  std::vector<CmId> open;
  for (const auto& [id, c] : connections_) {
    if (c.open) open.push_back(id);
  }
  for (const CmId id : open) part(now, id);
  collect(now);
}

bool CmControl::quiet() const {
  return std::none_of(connections_.begin(), connections_.end(),
                      [](const auto& entry) { return entry.second.open; });
}

void CmControl::finish(Time now) {
  for (auto& [id, c] : connections_) {
    if (!c.open || c.caller != 0) continue;
    c.report.to = now;
    callbacks_.ended(c.report);
  }
}

NamedCounts CmControl::counters() const {
  const CmCounters& c = agent_.counters();
  return {{"received", c.received},     {"sent", c.sent},
          {"malformed", c.malformed},   {"unexpected", c.unexpected},
          {"duplicates", c.duplicates}, {"repeated", c.repeated},
          {"timeouts", c.timeouts},     {"rejected", c.rejected},
          {"stale", c.stale},           {"established", c.established}};
}

void CmControl::send(const CmSend& send) {
  const NodeNic* node = control_.shard().node_table().find(send.ends.local);
  if (node == nullptr) return;
  Datagram datagram;
  datagram.addressing.src_mac = node->mac;
  datagram.addressing.vlan_tci = node->vlan_tci;
  datagram.addressing.src = send.ends.local;
  datagram.addressing.dst = send.ends.remote;
  datagram.addressing.udp_src = udp_source_port(config_, kGsiQpn, kGsiQpn);
  datagram.bytes.assign(send.bytes.begin(), send.bytes.end());
  control_.send_datagram(node->id, std::move(datagram));
}

}  // namespace understudy
