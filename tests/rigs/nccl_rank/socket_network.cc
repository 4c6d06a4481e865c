#include "tests/rigs/nccl_rank/socket_network.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace understudy::nccl_rank {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kBetweenDials{20};

struct RawAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&bytes); }
};

RawAddress raw(const SocketAddress& at) {
  RawAddress out;
  if (at.address.is_v4()) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&out.bytes);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(at.port);
    std::memcpy(&v4->sin_addr, at.address.v4_data(), 4);
    out.size = sizeof *v4;
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.bytes);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(at.port);
    std::memcpy(&v6->sin6_addr, at.address.data(), 16);
    out.size = sizeof *v6;
  }
  return out;
}

SocketAddress cooked(const RawAddress& in) {
  if (in.bytes.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&in.bytes);
    return {IpAddress::v4(ntohl(v4->sin_addr.s_addr)), ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&in.bytes);
  return {IpAddress::v6_bytes(v6->sin6_addr.s6_addr), ntohs(v6->sin6_port)};
}

void check(bool well, const std::string& what) {
  if (!well) throw std::system_error(errno, std::generic_category(), what);
}

UniqueFd open_socket(const IpAddress& address) {
  const int family = address.is_v4() ? AF_INET : AF_INET6;
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  check(fd.valid(), "socket");
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

}  // namespace

SocketNetwork::SocketNetwork() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  check(epoll_.valid(), "epoll_create1");
}

void SocketNetwork::watch(int fd, Id id, uint32_t events, uint32_t& watched) {
  if (watched == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  const int change = watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  check(epoll_ctl(epoll_.get(), change, fd, &event) == 0, "epoll_ctl");
  watched = events;
}

SocketAddress SocketNetwork::listen(NetworkUser& user, const IpAddress& address, Id listener,
                                    uint16_t port) {
  Listener made{open_socket(address), &user};
  RawAddress at = raw({address, port});
  check(bind(made.fd.get(), at.data(), at.size) == 0, "bind to " + address.text());
  check(::listen(made.fd.get(), SOMAXCONN) == 0, "listen");
  check(getsockname(made.fd.get(), at.data(), &at.size) == 0, "getsockname");
  uint32_t watched = 0;
  watch(made.fd.get(), listener, EPOLLIN, watched);
  listeners_[listener] = std::move(made);
  return cooked(at);
}

void SocketNetwork::stop_listening(Id listener) { listeners_.erase(listener); }

void SocketNetwork::dial(NetworkUser& user, const IpAddress& from, const SocketAddress& to,
                         Id stream) {
  Stream& made = streams_[stream];
  made.user = &user;
  made.from = from;
  made.to = to;
  made.give_up = Clock::now() + kPatience;
  again_.emplace(Clock::now(), stream);  // nobody is called back from here
}

void SocketNetwork::connect(Id id, Stream& stream) {
  stream.fd = open_socket(stream.to.address);
  RawAddress own = raw({stream.from, 0}), far = raw(stream.to);
  check(bind(stream.fd.get(), own.data(), own.size) == 0, "bind to " + stream.from.text());
  const bool done = ::connect(stream.fd.get(), far.data(), far.size) == 0;
  if (!done && errno != EINPROGRESS) return refused(id, stream, errno);
  stream.watched = 0;
  watch(stream.fd.get(), id, EPOLLOUT, stream.watched);
}

void SocketNetwork::refused(Id id, Stream& stream, int error) {
  stream.fd = UniqueFd();
  const bool may_come =
      error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH || error == EAGAIN;
  if (may_come && Clock::now() < stream.give_up) {
    again_.emplace(Clock::now() + kBetweenDials, id);
    return;
  }
  NetworkUser* const user = stream.user;
  streams_.erase(id);
  user->on_closed(id, std::strerror(error));
}

bool SocketNetwork::flush(Id id, Stream& stream) {
  while (!stream.out.empty()) {
    const ssize_t sent =
        ::send(stream.fd.get(), stream.out.data(), stream.out.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) return false;
      watch(stream.fd.get(), id, EPOLLIN | EPOLLOUT, stream.watched);
      return true;
    }
    stream.out.erase(stream.out.begin(), stream.out.begin() + sent);
  }
  watch(stream.fd.get(), id, EPOLLIN, stream.watched);
  return true;
}

void SocketNetwork::send(Id id, std::span<const uint8_t> bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || bytes.empty()) return;
  Stream& stream = found->second;
  const bool waiting = !stream.out.empty() || !stream.connected;
  stream.out.insert(stream.out.end(), bytes.begin(), bytes.end());
  // That the other side is gone shows where its bytes are read.
  if (!waiting && !flush(id, stream)) stream.out.clear();
}

void SocketNetwork::close(Id id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  if (found->second.connected && !found->second.out.empty()) {
    found->second.closing = true;
  } else {
    streams_.erase(found);
  }
}

void SocketNetwork::on_listener(Id id) {
  for (;;) {
    const auto found = listeners_.find(id);
    if (found == listeners_.end()) return;
    RawAddress from;
    from.size = sizeof from.bytes;
    UniqueFd fd(
        accept4(found->second.fd.get(), from.data(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      check(errno == EAGAIN || errno == ECONNABORTED, "accept");
      return;
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const Id stream_id = new_id();
    Stream& stream = streams_[stream_id];
    stream.fd = std::move(fd);
    stream.user = found->second.user;
    stream.connected = true;
    watch(stream.fd.get(), stream_id, EPOLLIN, stream.watched);
    stream.user->on_accepted(id, stream_id, cooked(from));
  }
}

void SocketNetwork::on_stream(Id id, uint32_t events) {
  Stream& stream = streams_.at(id);
  if (!stream.connected) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(stream.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return refused(id, stream, error);
    stream.connected = true;
    flush(id, stream);
    stream.user->on_connected(id);
    return;
  }
  if ((events & EPOLLOUT) != 0 && !flush(id, stream)) stream.out.clear();
  if (stream.closing) {
    if (stream.out.empty()) streams_.erase(id);
    return;
  }
  if ((events & ~uint32_t{EPOLLOUT}) != 0) receive(id);
}

void SocketNetwork::receive(Id id) {
  std::array<uint8_t, 65536> bytes;
  for (;;) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    const ssize_t size = recv(found->second.fd.get(), bytes.data(), bytes.size(), 0);
    if (size < 0 && errno == EAGAIN) return;
    NetworkUser* const user = found->second.user;
    if (size <= 0) {
      const std::string why = size == 0 ? "closed by the other side" : std::strerror(errno);
      streams_.erase(found);
      user->on_closed(id, why);
      return;
    }
    user->on_bytes(id, {bytes.data(), static_cast<size_t>(size)});
  }
}

bool SocketNetwork::dial_again() {
  bool any = false;
  while (!again_.empty() && again_.begin()->first <= Clock::now()) {
    const Id id = again_.begin()->second;
    again_.erase(again_.begin());
    const auto found = streams_.find(id);
    if (found == streams_.end()) continue;
    any = true;
    connect(id, found->second);
  }
  return any;
}

bool SocketNetwork::step(std::chrono::milliseconds wait) {
  const Clock::time_point end = Clock::now() + wait;
  for (;;) {
    bool happened = dial_again();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    auto most = std::max(std::chrono::milliseconds(0), left);
    if (happened) most = std::chrono::milliseconds(0);
    if (!again_.empty()) most = std::min(most, kBetweenDials);
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(most.count()));
    check(count >= 0 || errno == EINTR, "epoll_wait");
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      happened = true;
      // Its user may have closed it since.
      const Id id = event.data.u64;  // a copy: the struct is packed
      if (listeners_.contains(id)) {
        on_listener(id);
      } else if (streams_.contains(id)) {
        on_stream(id, event.events);
      }
    }
    if (happened || Clock::now() >= end) return happened;
  }
}

}  // namespace understudy::nccl_rank
