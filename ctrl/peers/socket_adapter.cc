#include "ctrl/peers/socket_adapter.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace understudy {
namespace {

constexpr size_t kMostConnections = 65536;
constexpr size_t kEventsAtOnce = 64;
constexpr size_t kReadSize = 4096;

IpAddress address_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return IpAddress::v4(ntohl(v4.sin_addr.s_addr));
  }
  return IpAddress::v6_bytes(reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr.s6_addr);
}

uint16_t port_of(const sockaddr_storage& storage) {
  return ntohs(storage.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
}

}  // namespace

Result<SocketAdapter> SocketAdapter::create(Callbacks callbacks) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return fail("epoll_create1: " + std::string(std::strerror(errno)));
  return SocketAdapter(std::move(epoll), std::move(callbacks));
}

Result<void> SocketAdapter::add_listener(int fd, NodeId node, PeerFactory factory) {
  return add_listener(
      fd, node, [factory = std::move(factory)](const AcceptedConnection&) { return factory(); });
}

Result<void> SocketAdapter::add_listener(int fd, NodeId node, Acceptor acceptor) {
  const uint64_t id = next_id_++;
  Listener& listener = listeners_[id];
  listener = Listener{UniqueFd(fd), node, std::move(acceptor)};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    listeners_.erase(id);
    return fail("epoll_ctl: " + std::string(std::strerror(errno)));
  }
  return {};
}

Result<uint16_t> SocketAdapter::listen(const IpAddress& any, uint16_t port, Acceptor acceptor) {
  const auto fd = callbacks_.listen(any, port);
  if (!fd) return fail(fd.error().text);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  getsockname(*fd, reinterpret_cast<sockaddr*>(&local), &length);
  if (auto added = add_listener(*fd, kNoNode, std::move(acceptor)); !added) {
    return fail(added.error().text);
  }
  return port_of(local);
}

Result<ConnectionId> SocketAdapter::call(const IpAddress& from, const SocketAddress& to,
                                         std::unique_ptr<Peer> peer) {
  const auto fd = callbacks_.connect(from, to.address, to.port);
  if (!fd) return fail(fd.error().text);
  return add_call(*fd, kNoNode, to.address, to.port, std::move(peer));
}

void SocketAdapter::poll(int timeout_ms) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<size_t>(i)];
    const uint64_t id = event.data.u64;
    if (const auto listener = listeners_.find(id); listener != listeners_.end()) {
      accept_from(listener->second);
    } else if (const auto found = connections_.find(id); found != connections_.end()) {
      if (found->second.connecting) {
        finish_call(id, found->second);
        continue;
      }
      if ((event.events & EPOLLOUT) != 0) send_unsent(id, found->second);
      if ((event.events & ~uint32_t{EPOLLOUT}) != 0) read_from(id, found->second);
    }
  }
  remove_ended();
}

void SocketAdapter::accept_from(const Listener& listener) {
  for (;;) {
    sockaddr_storage client{};
    socklen_t length = sizeof client;
    UniqueFd fd(accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&client), &length,
                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    if (connections_.size() >= kMostConnections) continue;  // closed at once
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_storage local{};
    length = sizeof local;
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    const AcceptedConnection accepted{next_id_++, address_of(local), address_of(client),
                                      port_of(local), port_of(client)};
    auto peer = listener.acceptor(accepted);
    if (peer == nullptr) continue;
    Connection& connection = connections_[accepted.id];
    connection.port = accepted.local_port;
    connection.client = accepted.client;
    connection.fd = std::move(fd);
    connection.node = listener.node;
    connection.peer = std::move(peer);
    watch(accepted.id, connection, EPOLL_CTL_ADD);
  }
}

Result<ConnectionId> SocketAdapter::add_call(int fd, NodeId node, const IpAddress& server,
                                             uint16_t port, std::unique_ptr<Peer> peer) {
  const ConnectionId id = next_id_++;
  Connection& connection = connections_[id];
  connection.fd = UniqueFd(fd);
  connection.node = node;
  connection.port = port;
  connection.client = server;
  connection.peer = std::move(peer);
  connection.dialled = connection.connecting = true;
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    connections_.erase(id);
    return fail("epoll_ctl: " + std::string(std::strerror(errno)));
  }
  return id;
}

void SocketAdapter::finish_call(ConnectionId id, Connection& connection) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(connection.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    connection.refusal = std::strerror(error);
    connection.refused = error == ECONNREFUSED || error == ECONNRESET;
    connection.ended = true;
    return;
  }
  const int on = 1;
  setsockopt(connection.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connection.connecting = false;
  watch(id, connection, EPOLL_CTL_MOD);
  connection.peer->on_connected(callbacks_.now());
  carry(id, connection);
}

void SocketAdapter::read_from(ConnectionId id, Connection& connection) {
  if (connection.ended) return;
  std::array<uint8_t, kReadSize> bytes;
  const ssize_t got = read(connection.fd.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) {
    connection.peer->on_bytes(callbacks_.now(), std::span(bytes).first(static_cast<size_t>(got)));
    carry(id, connection);
    return;
  }
  connection.peer->on_closed(callbacks_.now());
  carry(id, connection);
  connection.ended = true;
}

void SocketAdapter::carry(ConnectionId id, Connection& connection) {
  const auto output = connection.peer->take_output();
  connection.unsent.insert(connection.unsent.end(), output.begin(), output.end());
  // An answer given within the callback comes back here for the same connection; it is only marked
  // as ended then, so the reference stays good.
  for (const EndpointRequest& request : connection.peer->take_requests()) {
    callbacks_.endpoint(connection.node, id, request);
  }
  for (const EndpointStart& start : connection.peer->take_starts()) callbacks_.start(start);
  send_unsent(id, connection);
}

void SocketAdapter::send_unsent(ConnectionId id, Connection& connection) {
  if (connection.ended) return;
  const bool was_waiting = connection.unsent.empty();
  while (!connection.unsent.empty()) {
    const ssize_t sent =
        send(connection.fd.get(), connection.unsent.data(), connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      connection.unsent.clear();
      connection.peer->on_closed(callbacks_.now());
      connection.ended = true;
      return;
    }
    connection.unsent.erase(connection.unsent.begin(), connection.unsent.begin() + sent);
  }
  if (connection.unsent.empty() && connection.peer->finished()) {
    connection.ended = true;
  } else if (!was_waiting || !connection.unsent.empty()) {
    watch(id, connection, EPOLL_CTL_MOD);
  }
}

void SocketAdapter::watch(ConnectionId id, const Connection& connection, int operation) const {
  epoll_event event{};
  // While output waits nothing more is read: a client that does not read cannot fill our memory.
  event.events = connection.unsent.empty() ? EPOLLIN : EPOLLOUT;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), operation, connection.fd.get(), &event);
}

bool SocketAdapter::endpoint_ready(ConnectionId id, const EndpointReady& ready) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.ended) return false;
  found->second.peer->on_endpoint(callbacks_.now(), ready);
  carry(id, found->second);
  return true;
}

bool SocketAdapter::endpoint_refused(ConnectionId id, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.ended) return false;
  found->second.peer->on_refused(callbacks_.now(), reason);
  carry(id, found->second);
  return true;
}

bool SocketAdapter::traffic_ended(ConnectionId id, const TrafficResult& result) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.ended) return false;
  found->second.peer->on_traffic(callbacks_.now(), result);
  carry(id, found->second);
  return true;
}

void SocketAdapter::flush(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.ended || found->second.connecting) return;
  carry(id, found->second);
}

void SocketAdapter::remove_ended() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (!it->second.ended) {
      ++it;
      continue;
    }
    const Connection& connection = it->second;
    const EndedConnection ended{
        connection.node,
        it->first,
        connection.port,
        connection.client,
        connection.connecting ? connection.refusal : connection.peer->failure(),
        connection.peer->endpoints_outlive_connection(),
        connection.dialled,
        !connection.connecting,
        connection.refused};
    it = connections_.erase(it);
    callbacks_.ended(ended);
  }
}

}  // namespace understudy
