#include "ctrl/peers/perftest/perftest_cm.h"

#include <algorithm>

#include "ctrl/peers/perftest/perftest_kind.h"

namespace understudy {

Result<EndpointRequest> PerftestCmService::on_request(Time, Id id, const CmClient& client) {
  const auto waiting = std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& s) {
    return s.client == client.remote && !s.over && s.peer.awaits_queue_pairs();
  });
  if (waiting != sessions_.end()) {
    auto request = test_queue_pair(*waiting, client);
    if (!request) return request;
    waiting->tests.push_back(id);
    connections_[id] = {waiting, client.remote_qpn};
    return request;
  }
  const auto session = sessions_.emplace(sessions_.end(), service_);
  session->client = client.remote;
  session->channel = id;
  connections_[id] = {session, client.remote_qpn};
  EndpointRequest request = endpoint_for(service_, client);
  request.behaviour = Behaviour::kMessages;
  return request;
}

Result<EndpointRequest> PerftestCmService::test_queue_pair(const Session& session,
                                                           const CmClient& client) const {
  PerftestKey key;  // not told yet; any that contradicts no kind
  key.rkey = 1;
  const auto behaviour = perftest_behaviour(service_, session.peer.kind(), key);
  if (!behaviour) return fail(behaviour.error().text);
  EndpointRequest request = endpoint_for(service_, client);
  request.behaviour = *behaviour;
  request.region_bytes = kPerftestRegionBytes;
  request.memory = service_.memory;
  return request;
}

std::vector<uint8_t> PerftestCmService::on_endpoint(Time, Id id, const EndpointReady& ready) {
  const Connection& connection = connections_.at(id);
  if (connection.session->channel != id)
    connection.session->peer.adopt(connection.client_qpn, ready);
  return {};
}

void PerftestCmService::on_message(Time now, Id id, std::span<const uint8_t> bytes) {
  const auto connection = connections_.find(id);
  if (connection == connections_.end()) return;
  Session& session = *connection->second.session;
  session.peer.on_bytes(now, bytes);
  collect(session);
}

void PerftestCmService::collect(Session& session) {
  if (auto output = session.peer.take_output(); !output.empty()) {
    messages_.push_back({session.channel, std::move(output)});
  }
  const auto starts = session.peer.take_starts();
  starts_.insert(starts_.end(), starts.begin(), starts.end());
  if (!session.peer.finished() || session.over) return;
  session.over = true;
  closes_.insert(closes_.end(), session.tests.begin(), session.tests.end());
  closes_.push_back(session.channel);
}

std::string PerftestCmService::on_closed(Time now, Id id) {
  const auto connection = connections_.find(id);
  if (connection == connections_.end()) return "";
  const auto session = connection->second.session;
  connections_.erase(connection);
  std::erase(session->tests, id);
  if (session->channel != id) return "";
  session->peer.on_closed(now);
  std::string failure = session->peer.failure();
  session->over = true;
  for (const Id test : session->tests) {
    connections_.erase(test);
    closes_.push_back(test);
  }
  sessions_.erase(session);
  return failure;
}

}  // namespace understudy
