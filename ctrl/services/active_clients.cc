#include "ctrl/services/active_clients.h"

#include <algorithm>

#include "ctrl/peers/perftest/perftest_caller.h"
#include "ctrl/peers/rdma_core/rping_caller.h"

namespace understudy {
namespace {

struct Ends {
  IpAddress from, to;
  size_t port = 0;  ///< of the configuration
};

/// Addresses of one family on a rail that both nodes share; the configuration has seen to it.
Ends ends_of(const Config& config, const ClientConfig& client) {
  for (size_t i = 0; i < config.ports.size(); ++i) {
    const PortConfig& port = config.ports[i];
    const auto& nics = config.nodes[client.node].nics;
    if (port.node != client.server || port.nic >= nics.size()) continue;
    const NicConfig& ours = nics[port.nic];
    const NicConfig& theirs = config.nodes[client.server].nics[port.nic];
    if (ours.v4 && theirs.v4) return {*ours.v4, *theirs.v4, i};
    if (ours.v6 && theirs.v6) return {*ours.v6, *theirs.v6, i};
  }
  return {};
}

PerftestClientTest test_of(const ClientConfig& config) {
  PerftestClientTest test;
  test.kind = config.kind;
  test.bytes = config.bytes;
  test.iterations = config.iterations;
  test.queue_pairs = config.queue_pairs;
  return test;
}

}  // namespace

ActiveClients::ActiveClients(const Config& config, PeerHost& host, ServiceEndpoints& endpoints,
                             std::vector<CmControl*> cms)
    : config_(config), host_(host), endpoints_(endpoints), cms_(std::move(cms)) {
  for (const ClientConfig& client : config.clients) {
    Client c;
    c.config = &client;
    c.dial_at = Time::zero() + client.at;
    c.port = ends_of(config, client).port;
    c.report.node = config.nodes[client.node].name;
    c.report.server = ends_of(config, client).to.text();
    c.report.port = client.port;
    c.report.kind = service_kind_name(client.kind);
    c.report.bytes = client.bytes;
    c.report.messages = uint64_t{client.iterations} * client.queue_pairs;
    c.report.queue_pairs = client.queue_pairs;
    clients_.push_back(std::move(c));
  }
}

/// The emulated node, with its server's port and kind.
Service ActiveClients::self_of(const Client& client) const {
  ServiceConfig service;
  service.node = client.config->node;
  service.port = client.config->port;
  service.kind = client.config->kind;
  service.sender = client.config->sender;
  return service_of(config_, service, config_.ports[client.port].nic);
}

void ActiveClients::dial(Client& client) {
  client.state = State::kRunning;
  if (client.config->rdma_cm) {
    dial_cm(client);
  } else {
    dial_tcp(client);
  }
}

void ActiveClients::dial_cm(Client& client) {
  const ClientConfig& config = *client.config;
  const Service self = self_of(client);
  const IpAddress server = ends_of(config_, config).to;
  std::unique_ptr<CmCaller> caller;
  if (config.kind == ServiceKind::kRping) {
    caller = std::make_unique<RpingCaller>(self, server, config.bytes, config.iterations);
  } else {
    caller = std::make_unique<PerftestCaller>(self, server, test_of(config));
  }
  client.caller = cms_[client.port]->dial(config.node, config.port, std::move(caller));
}

void ActiveClients::dial_tcp(Client& client) {
  const ClientConfig& config = *client.config;
  const Ends ends = ends_of(config_, config);
  auto call =
      host_.call_for(config.node, ends.from, {ends.to, config.port},
                     std::make_unique<PerftestClient>(self_of(client), ends.to, test_of(config)));
  if (!call) return end(client, call.error().text);
  calls_[*call] = static_cast<size_t>(&client - clients_.data());
}

void ActiveClients::poll(Time now) {
  now_ = now;
  for (Client& client : clients_) {
    if (client.state == State::kWaiting && now >= client.dial_at) dial(client);
  }
  for (const ServiceEndpoints::EndedTraffic& ended : endpoints_.take_ended_traffic()) {
    if (const auto call = calls_.find(ended.connection); call != calls_.end()) {
      add_traffic(clients_[call->second], ended.result);
      host_.traffic_ended(ended.connection, ended.result);
      continue;
    }
    for (size_t port = 0; port < cms_.size(); ++port) {
      const auto caller = cms_[port]->traffic_ended(now, ended.connection, ended.result);
      for (Client& client : clients_) {
        if (caller != 0 && client.port == port && client.caller == caller) {
          add_traffic(client, ended.result);
        }
      }
    }
  }
}

void ActiveClients::add_traffic(Client& client, const TrafficResult& result) {
  ClientReport& report = client.report;
  report.from = report.completed == 0 ? result.first : std::min(report.from, result.first);
  report.to = report.completed == 0 ? result.last : std::max(report.to, result.last);
  report.completed += result.completed;
}

std::string ActiveClients::on_ended(Time now, const EndedConnection& ended) {
  const auto call = calls_.find(ended.id);
  if (call == calls_.end()) return "";
  Client& client = clients_[call->second];
  calls_.erase(call);
  if (!ended.connected) {
    client.refusal = ended.failure;
    client.state = State::kWaiting;
    client.dial_at = now + kDialAgain;
    return "";
  }
  endpoints_.remove(ended.id);
  end(client, ended.failure);
  return ended.failure;
}

std::string ActiveClients::on_ended(size_t port, const CmControl::EndedCaller& ended) {
  for (Client& client : clients_) {
    if (client.port == port && client.caller == ended.id) end(client, ended.failure);
  }
  return ended.failure;
}

void ActiveClients::end(Client& client, const std::string& error) {
  client.state = State::kDone;
  client.report.error = error;
  client.report.ended = now_;
}

size_t ActiveClients::done() const {
  return static_cast<size_t>(std::ranges::count(clients_, State::kDone, &Client::state));
}

std::vector<ClientReport> ActiveClients::reports() const {
  std::vector<ClientReport> reports;
  for (const Client& client : clients_) {
    reports.push_back(client.report);
    if (client.state == State::kDone) continue;
    const std::string refusal =
        client.caller == 0 ? client.refusal : cms_[client.port]->refusal(client.caller);
    reports.back().error =
        "it was not done when the run ended" + (refusal.empty() ? "" : " (" + refusal + ")");
  }
  return reports;
}

}  // namespace understudy
