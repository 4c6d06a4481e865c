#include "ctrl/peers/socket_adapter.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/base/try.h"

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

// The other machine may go without a word: its power, its cable, a soft NIC that is killed. A
// connection on which nothing comes for kQuietS is asked kProbes times, once a second; nothing that
// was sent is waited for longer than all of that.
constexpr int kQuietS = 2, kProbes = 6;

void set_options(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kQuietS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, (kQuietS + kProbes) * 1000);
}

}  // namespace

Result<SocketAdapter> SocketAdapter::create(Callbacks callbacks) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return fail("epoll_create1: " + std::string(std::strerror(errno)));
  return SocketAdapter(std::move(epoll), std::move(callbacks));
}

Result<void> SocketAdapter::add_listener(int fd, NodeId node, Acceptor acceptor) {
  const uint64_t id = new_id();
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
  const auto fd = TRY(callbacks_.listen(any, port));
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length);
  TRY(add_listener(fd, kNoNode, std::move(acceptor)));
  return port_of(local);
}

Result<void> SocketAdapter::listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) {
  const auto fd = TRY(callbacks_.listen_at(at.address, at.port));
  return add_listener(fd, node, std::move(acceptor));
}

Result<ConnectionId> SocketAdapter::call_for(NodeId node, const IpAddress& from,
                                             const SocketAddress& to, std::unique_ptr<Peer> peer) {
  const auto fd = callbacks_.connect(from, to.address, to.port);
  if (!fd) return fail(fd.error().text);
  const ConnectionId id = new_id();
  Socket& socket = sockets_[id];
  socket.fd = UniqueFd(*fd);
  socket.connecting = socket.waits = true;
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, *fd, &event) != 0) {
    sockets_.erase(id);
    return fail("epoll_ctl: " + std::string(std::strerror(errno)));
  }
  add_dialled(id, node, to, std::move(peer));
  return id;
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
    } else if (const auto found = sockets_.find(id); found != sockets_.end()) {
      if (found->second.connecting) {
        finish_call(id, found->second);
        continue;
      }
      if ((event.events & EPOLLOUT) != 0 && push(id)) on_sent(id);
      if ((event.events & ~uint32_t{EPOLLOUT}) != 0) read_from(id);
    }
  }
  report_ended();
}

void SocketAdapter::accept_from(const Listener& listener) {
  for (;;) {
    sockaddr_storage client{};
    socklen_t length = sizeof client;
    UniqueFd fd(accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&client), &length,
                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    if (connection_count() >= kMostConnections) continue;  // closed at once
    set_options(fd.get());
    sockaddr_storage local{};
    length = sizeof local;
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    const AcceptedConnection accepted{new_id(), address_of(local), address_of(client),
                                      port_of(local), port_of(client)};
    auto peer = listener.acceptor(accepted);
    if (peer == nullptr) continue;
    Socket& socket = sockets_[accepted.id];
    socket.fd = std::move(fd);
    watch(accepted.id, socket, EPOLL_CTL_ADD);
    add_accepted(accepted, listener.node, std::move(peer));
  }
}

void SocketAdapter::finish_call(ConnectionId id, Socket& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    on_not_connected(id, std::strerror(error), error == ECONNREFUSED || error == ECONNRESET);
    return;
  }
  set_options(socket.fd.get());
  socket.connecting = socket.waits = false;
  watch(id, socket, EPOLL_CTL_MOD);
  on_connected(id);
}

void SocketAdapter::read_from(ConnectionId id) {
  const auto found = sockets_.find(id);
  if (found == sockets_.end()) return;
  std::array<uint8_t, kReadSize> bytes;
  const ssize_t got = read(found->second.fd.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) {
    on_bytes(id, std::span(bytes).first(static_cast<size_t>(got)));
  } else {
    on_closed(id);
  }
}

void SocketAdapter::write(ConnectionId id, std::span<const uint8_t> bytes) {
  auto& unsent = sockets_.at(id).unsent;
  unsent.insert(unsent.end(), bytes.begin(), bytes.end());
}

bool SocketAdapter::push(ConnectionId id) {
  Socket& socket = sockets_.at(id);
  while (!socket.unsent.empty()) {
    const ssize_t sent =
        send(socket.fd.get(), socket.unsent.data(), socket.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      socket.unsent.clear();
      on_closed(id);
      return false;
    }
    socket.unsent.erase(socket.unsent.begin(), socket.unsent.begin() + sent);
  }
  if (socket.waits == socket.unsent.empty()) {
    socket.waits = !socket.waits;
    watch(id, socket, EPOLL_CTL_MOD);
  }
  return socket.unsent.empty();
}

void SocketAdapter::watch(ConnectionId id, const Socket& socket, int operation) const {
  epoll_event event{};
  // While output waits nothing more is read: a client that does not read cannot fill our memory.
  event.events = socket.waits ? EPOLLOUT : EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), operation, socket.fd.get(), &event);
}

}  // namespace understudy
