#include "ctrl/peers/peer_carrier.h"

#include <utility>

namespace understudy {

void PeerCarrier::add_accepted(const AcceptedConnection& accepted, NodeId node,
                               std::unique_ptr<Peer> peer) {
  Connection& connection = connections_[accepted.id];
  connection.peer = std::move(peer);
  connection.end.node = node;
  connection.end.id = accepted.id;
  connection.end.port = accepted.local_port;
  connection.end.client = accepted.client;
}

void PeerCarrier::add_dialled(ConnectionId id, NodeId node, const SocketAddress& server,
                              std::unique_ptr<Peer> peer) {
  Connection& connection = connections_[id];
  connection.peer = std::move(peer);
  connection.end.node = node;
  connection.end.id = id;
  connection.end.port = server.port;
  connection.end.client = server.address;
  connection.end.dialled = true;
  connection.end.connected = false;
}

PeerCarrier::Connection* PeerCarrier::open(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() || found->second.ended ? nullptr : &found->second;
}

void PeerCarrier::carry(ConnectionId id, Connection& connection) {
  write(id, connection.peer->take_output());
  // An answer given within the callback comes back here for the same connection; it is only marked
  // as ended then, so the reference stays good.
  for (const EndpointRequest& request : connection.peer->take_requests()) {
    callbacks_.endpoint(connection.end.node, id, request);
  }
  for (const EndpointStart& start : connection.peer->take_starts()) callbacks_.start(start);
  if (connection.ended || !push(id)) return;
  if (connection.peer->finished()) end(id, connection);
}

void PeerCarrier::end(ConnectionId id, Connection& connection) {
  if (connection.ended) return;
  connection.ended = true;
  ended_.push_back(id);
  close(id);
}

void PeerCarrier::on_connected(ConnectionId id) {
  Connection* connection = open(id);
  if (connection == nullptr) return;
  connection->end.connected = true;
  connection->peer->on_connected(now());
  carry(id, *connection);
}

void PeerCarrier::on_bytes(ConnectionId id, std::span<const uint8_t> bytes) {
  Connection* connection = open(id);
  if (connection == nullptr) return;
  connection->peer->on_bytes(now(), bytes);
  carry(id, *connection);
}

void PeerCarrier::on_closed(ConnectionId id) {
  Connection* connection = open(id);
  if (connection == nullptr || connection->closed) return;
  connection->closed = true;
  connection->peer->on_closed(now());
  carry(id, *connection);
  end(id, *connection);
}

void PeerCarrier::on_not_connected(ConnectionId id, const std::string& why, bool refused) {
  Connection* connection = open(id);
  if (connection == nullptr) return;
  connection->end.failure = why;
  connection->end.refused = refused;
  end(id, *connection);
}

void PeerCarrier::on_sent(ConnectionId id) {
  Connection* connection = open(id);
  if (connection != nullptr && connection->peer->finished()) end(id, *connection);
}

void PeerCarrier::report_ended() {
  while (!ended_.empty()) {
    const auto found = connections_.find(ended_.front());
    ended_.pop_front();
    if (found == connections_.end()) continue;  // dropped meanwhile
    EndedConnection end = found->second.end;
    if (end.connected) end.failure = found->second.peer->failure();
    end.keep_endpoints = found->second.peer->endpoints_outlive_connection();
    connections_.erase(found);
    callbacks_.ended(end);
  }
}

void PeerCarrier::flush(ConnectionId id) {
  Connection* connection = open(id);
  if (connection != nullptr && connection->end.connected) carry(id, *connection);
}

void PeerCarrier::drop(ConnectionId id) {
  if (open(id) != nullptr) close(id);
  connections_.erase(id);
}

bool PeerCarrier::endpoint_ready(ConnectionId id, const EndpointReady& ready) {
  Connection* connection = open(id);
  if (connection == nullptr) return false;
  connection->peer->on_endpoint(now(), ready);
  carry(id, *connection);
  return true;
}

bool PeerCarrier::endpoint_refused(ConnectionId id, const std::string& reason) {
  Connection* connection = open(id);
  if (connection == nullptr) return false;
  connection->peer->on_refused(now(), reason);
  carry(id, *connection);
  return true;
}

bool PeerCarrier::traffic_ended(ConnectionId id, const TrafficResult& result) {
  Connection* connection = open(id);
  if (connection == nullptr) return false;
  connection->peer->on_traffic(now(), result);
  carry(id, *connection);
  return true;
}

}  // namespace understudy
