#include "tests/nccl_virtual/memory_peers.h"

#include <utility>

namespace understudy::nccl_rank {

Result<uint16_t> MemoryPeers::listen(const IpAddress& any, uint16_t port, Acceptor acceptor) {
  const auto shared = std::make_shared<Acceptor>(std::move(acceptor));
  for (const IpAddress& address : addresses_) {
    if (address.is_v4() != any.is_v4()) continue;
    const Id id = network_.new_id();
    const SocketAddress at = network_.listen(*this, address, id, port);
    listeners_[id] = {at, shared};
    port = at.port;
  }
  return port;
}

Result<ConnectionId> MemoryPeers::call(const IpAddress& from, const SocketAddress& to,
                                       std::unique_ptr<Peer> peer) {
  const Id stream = network_.new_id();
  Connection& connection = connections_[stream];
  connection.peer = std::move(peer);
  connection.end.id = stream;
  connection.end.port = to.port;
  connection.end.client = to.address;
  connection.end.dialled = true;
  connection.end.connected = false;
  if (network_.listens(to)) {
    network_.dial(*this, from, to, stream);
  } else {
    connection.end.refused = connection.ended = true;
    connection.end.failure = "Connection refused";
  }
  return stream;
}

MemoryPeers::Connection* MemoryPeers::open(Id stream) {
  const auto found = connections_.find(stream);
  return found == connections_.end() || found->second.ended ? nullptr : &found->second;
}

void MemoryPeers::carry(Id stream, Connection& connection) {
  for (;;) {
    network_.send(stream, connection.peer->take_output());
    const auto requests = connection.peer->take_requests();
    if (requests.empty()) break;
    for (const EndpointRequest& request : requests) {
      if (const auto ready = callbacks_.endpoint(stream, request); ready) {
        connection.peer->on_endpoint(now(), *ready);
      } else {
        connection.peer->on_refused(now(), ready.error().text);
      }
    }
  }
  if (!connection.peer->finished()) return;
  network_.close(stream);
  connection.ended = true;
}

void MemoryPeers::flush(ConnectionId id) {
  Connection* connection = open(id);
  if (connection != nullptr && connection->end.connected) carry(id, *connection);
}

void MemoryPeers::drop(ConnectionId id) {
  network_.close(id);
  connections_.erase(id);
}

void MemoryPeers::poll() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (!it->second.ended) {
      ++it;
      continue;
    }
    EndedConnection end = it->second.end;
    if (end.connected) end.failure = it->second.peer->failure();
    it = connections_.erase(it);
    callbacks_.ended(end);
  }
}

void MemoryPeers::on_accepted(Id listener, Id stream, const SocketAddress& from) {
  const Listener& at = listeners_.at(listener);
  auto peer = (*at.acceptor)({stream, at.at.address, from.address, at.at.port, from.port});
  if (peer == nullptr) return network_.close(stream);
  Connection& connection = connections_[stream];
  connection.peer = std::move(peer);
  connection.end.id = stream;
  connection.end.port = at.at.port;
  connection.end.client = from.address;
}

void MemoryPeers::on_connected(Id stream) {
  Connection* connection = open(stream);
  if (connection == nullptr) return;
  connection->end.connected = true;
  connection->peer->on_connected(now());
  carry(stream, *connection);
}

void MemoryPeers::on_bytes(Id stream, std::span<const uint8_t> bytes) {
  Connection* connection = open(stream);
  if (connection == nullptr) return;
  connection->peer->on_bytes(now(), bytes);
  carry(stream, *connection);
}

void MemoryPeers::on_closed(Id stream, const std::string&) {
  Connection* connection = open(stream);
  if (connection == nullptr) return;
  connection->peer->on_closed(now());
  carry(stream, *connection);
  network_.close(stream);
  connection->ended = true;
}

}  // namespace understudy::nccl_rank
