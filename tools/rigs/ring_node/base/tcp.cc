#include "tools/rigs/ring_node/base/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace understudy {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string errno_text() { return std::strerror(errno); }

socklen_t fill_address(const IpAddress& a, uint16_t port, sockaddr_storage& out) {
  out = {};
  if (a.is_v4()) {
    auto* in = reinterpret_cast<sockaddr_in*>(&out);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    std::memcpy(&in->sin_addr, a.v4_data(), 4);
    return sizeof *in;
  }
  auto* in = reinterpret_cast<sockaddr_in6*>(&out);
  in->sin6_family = AF_INET6;
  in->sin6_port = htons(port);
  std::memcpy(&in->sin6_addr, a.data(), 16);
  return sizeof *in;
}

IpAddress address_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return IpAddress::v4_bytes(reinterpret_cast<const uint8_t*>(&in.sin_addr));
  }
  return IpAddress::v6_bytes(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr);
}

/// Connect and send give up after this, whatever the kernel's own limits are.
void limit_socket(int fd, milliseconds limit) {
  const timeval t{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Result<TcpStream> TcpStream::dial(const IpAddress& to, uint16_t port, milliseconds limit) {
  sockaddr_storage address;
  const socklen_t length = fill_address(to, port, address);
  const auto deadline = Clock::now() + limit;
  for (;;) {
    TcpStream stream(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (stream.fd_ < 0) return fail("socket: " + errno_text());
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    limit_socket(stream.fd_, std::max(left, milliseconds(100)));
    if (connect(stream.fd_, reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      return stream;
    }
    const std::string why = errno == EINPROGRESS ? "no answer" : errno_text();
    if (Clock::now() >= deadline) {
      return fail("cannot connect to " + to.text() + " port " + std::to_string(port) + ": " + why);
    }
    std::this_thread::sleep_for(milliseconds(200));
  }
}

TcpStream::~TcpStream() {
  if (fd_ >= 0) close(fd_);
}

Result<IpAddress> TcpStream::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return fail("getsockname: " + errno_text());
  }
  return address_of(address);
}

Result<void> TcpStream::send(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail("send: " + errno_text());
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return {};
}

Result<std::vector<uint8_t>> TcpStream::receive(milliseconds limit, bool& closed) {
  pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
  const int ready = poll(&wait, 1, static_cast<int>(limit.count()));
  if (ready < 0 && errno != EINTR) return fail("poll: " + errno_text());
  std::vector<uint8_t> out;
  if (ready <= 0) return out;
  out.resize(65536);
  const ssize_t got = recv(fd_, out.data(), out.size(), 0);
  if (got < 0) return fail("receive: " + errno_text());
  closed = got == 0;
  out.resize(static_cast<size_t>(got));
  return out;
}

Result<TcpListener> TcpListener::open(const IpAddress& like, uint16_t port) {
  const auto failed = [&] {
    return fail("cannot listen on port " + std::to_string(port) + ": " + errno_text());
  };
  sockaddr_storage address{};
  address.ss_family = like.is_v4() ? AF_INET : AF_INET6;
  UniqueFd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failed();
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  (like.is_v4() ? reinterpret_cast<sockaddr_in&>(address).sin_port
                : reinterpret_cast<sockaddr_in6&>(address).sin6_port) = htons(port);
  const socklen_t length = like.is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), 4) != 0) {
    return failed();
  }
  return TcpListener(std::move(fd));
}

Result<TcpStream> TcpListener::accept(const IpAddress& from, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    pollfd wait{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (ready < 0 && errno != EINTR) return fail("poll: " + errno_text());
    if (ready == 0) {
      return fail("no call of " + from.text() + " within " + std::to_string(limit.count()) + " ms");
    }
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    TcpStream stream(
        accept4(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC));
    if (stream.fd_ < 0 || address_of(address) != from) continue;
    limit_socket(stream.fd_, limit);
    return stream;
  }
}

}  // namespace understudy
