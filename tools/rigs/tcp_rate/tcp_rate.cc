// A plain TCP stream, to be compared with:
//   tcp_rate serve PORT                       answers clients one after the other, says "listening"
//   tcp_rate stream HOST PORT SIZE COUNT      sends COUNT messages of SIZE bytes, one call each
//   tcp_rate pingpong HOST PORT SIZE COUNT    sends each when the one before has come back
// A client prints the seconds from its first message to the server's answer to the last one. HOST
// is an IPv4 address; Nagle's delay is off, buffers are what the kernel makes them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/unique_fd.h"

namespace understudy {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 30;

struct Order {  // between programs of one machine, so in its byte order
  uint64_t size = 0, count = 0;
  bool pingpong = false;
};

bool send_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}

bool receive_all(int fd, std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

std::span<uint8_t> bytes_of(Order& order) {
  return {reinterpret_cast<uint8_t*>(&order), sizeof order};
}

bool fits(const Order& order) {
  return order.size != 0 && order.count != 0 && order.size <= kLargest;
}

/// Answers as the client has it: every message, or the last byte of all.
void serve(int fd) {
  Order order;
  if (!receive_all(fd, bytes_of(order)) || !fits(order)) return;
  std::vector<uint8_t> buffer(std::max<uint64_t>(order.size, 65536));
  if (order.pingpong) {
    const std::span message(buffer.data(), order.size);
    while (receive_all(fd, message) && send_all(fd, message)) {
    }
    return;
  }
  for (uint64_t left = order.size * order.count; left != 0;) {
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) return;
    left -= static_cast<uint64_t>(got);
  }
  (void)send_all(fd, {buffer.data(), 1});
}

bool ask(int fd, Order order) {
  std::vector<uint8_t> message(order.size);
  if (!send_all(fd, bytes_of(order))) return false;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < order.count; ++i) {
    if (!send_all(fd, message)) return false;
    if (order.pingpong && !receive_all(fd, message)) return false;
  }
  if (!order.pingpong && !receive_all(fd, {message.data(), 1})) return false;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  std::printf("%.9f\n", passed.count());
  return true;
}

int failed(const char* what) {
  std::perror(what);
  return 1;
}

UniqueFd tcp_socket() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

int run_server(uint16_t port) {
  const UniqueFd listener = tcp_socket();
  sockaddr_in any{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0)
    return failed("bind");
  if (listen(listener.get(), 1) != 0) return failed("listen");
  std::puts("listening");
  std::fflush(stdout);
  while (true) {
    const UniqueFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() < 0) return failed("accept");
    const int on = 1;
    setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    serve(client.get());
  }
}

int run_client(const in_addr& host, uint16_t port, const Order& order) {
  const UniqueFd fd = tcp_socket();
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host, .sin_zero = {}};
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return failed("connect");
  return ask(fd.get(), order) ? 0 : failed("connection");
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) return {};
  return value;
}

int usage() {
  std::fputs("usage: tcp_rate serve PORT | tcp_rate stream|pingpong HOST PORT SIZE COUNT\n",
             stderr);
  return 2;
}

int run(std::span<char*> words) {
  const std::string_view verb = words.empty() ? "" : words[0];
  if (verb == "serve" && words.size() == 2) {
    const auto port = number<uint16_t>(words[1]);
    return port ? run_server(*port) : usage();
  }
  if ((verb != "stream" && verb != "pingpong") || words.size() != 5) return usage();
  in_addr host;
  const auto port = number<uint16_t>(words[2]);
  const auto size = number<uint64_t>(words[3]), count = number<uint64_t>(words[4]);
  if (inet_pton(AF_INET, words[1], &host) != 1 || !port || !size || !count) return usage();
  const Order order{*size, *count, verb == "pingpong"};
  return fits(order) ? run_client(host, *port, order) : usage();
}

}  // namespace
}  // namespace understudy

int main(int count, char** words) {
  return understudy::run({words + 1, static_cast<size_t>(count - 1)});
}
