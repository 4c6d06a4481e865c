#include "ctrl/session/active_clients.h"

#include <algorithm>

#include "ctrl/peers/perftest_client.h"

namespace understudy {
namespace {

constexpr Duration kDialAgain = Duration::ms(200);

struct Ends {
  IpAddress from, to;
  const NicConfig* nic = nullptr;
};

/// Addresses of one family on a rail that both nodes share; the configuration has seen to it.
Ends ends_of(const Config& config, const ClientConfig& client) {
  for (const PortConfig& port : config.ports) {
    const auto& nics = config.nodes[client.node].nics;
    if (port.node != client.server || port.nic >= nics.size()) continue;
    const NicConfig& ours = nics[port.nic];
    const NicConfig& theirs = config.nodes[client.server].nics[port.nic];
    if (ours.v4 && theirs.v4) return {*ours.v4, *theirs.v4, &ours};
    if (ours.v6 && theirs.v6) return {*ours.v6, *theirs.v6, &ours};
  }
  return {};
}

}  // namespace

ActiveClients::ActiveClients(const Config& config, const HostNamespace& host,
                             SocketAdapter& sockets, ServiceEndpoints& endpoints)
    : config_(config), host_(host), sockets_(sockets), endpoints_(endpoints) {
  for (const ClientConfig& client : config.clients) {
    Client c;
    c.config = &client;
    c.dial_at = Time::zero() + client.at;
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

void ActiveClients::dial(Client& client) {
  const ClientConfig& config = *client.config;
  const Ends ends = ends_of(config_, config);
  auto fd = host_.connect_tcp(ends.from, ends.to, config.port);
  if (!fd) return end(client, fd.error().text);
  Service self;
  self.node = client.report.node;
  self.v4 = ends.nic->v4;
  self.v6 = ends.nic->v6;
  self.port = config.port;
  self.kind = config.kind;
  self.mtu = config_.fabric.mtu;
  self.seed = config_.seed;
  PerftestClientTest test;
  test.kind = config.kind;
  test.bytes = config.bytes;
  test.iterations = config.iterations;
  test.queue_pairs = config.queue_pairs;
  auto call = sockets_.add_call(*fd, config.node, ends.to, config.port,
                                std::make_unique<PerftestClient>(self, ends.to, test));
  if (!call) return end(client, call.error().text);
  calls_[*call] = static_cast<size_t>(&client - clients_.data());
  client.state = State::kRunning;
}

void ActiveClients::poll(Time now) {
  for (Client& client : clients_) {
    if (client.state == State::kWaiting && now >= client.dial_at) dial(client);
  }
  for (const ServiceEndpoints::EndedTraffic& ended : endpoints_.take_ended_traffic()) {
    if (const auto call = calls_.find(ended.connection); call != calls_.end()) {
      ClientReport& report = clients_[call->second].report;
      const TrafficResult& result = ended.result;
      report.from = report.completed == 0 ? result.first : std::min(report.from, result.first);
      report.to = report.completed == 0 ? result.last : std::max(report.to, result.last);
      report.completed += result.completed;
    }
    sockets_.traffic_ended(ended.connection, ended.result);
  }
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

void ActiveClients::end(Client& client, const std::string& error) {
  client.state = State::kDone;
  client.report.error = error;
}

bool ActiveClients::finished() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const Client& c) { return c.state == State::kDone; });
}

std::vector<ClientReport> ActiveClients::reports() const {
  std::vector<ClientReport> reports;
  for (const Client& client : clients_) {
    reports.push_back(client.report);
    if (client.state == State::kDone) continue;
    reports.back().error = "it was not done when the run ended" +
                           (client.refusal.empty() ? "" : " (" + client.refusal + ")");
  }
  return reports;
}

}  // namespace understudy
