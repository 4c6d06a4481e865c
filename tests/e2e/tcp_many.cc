// TCP between one host and many addresses, from either side.
//   tcp_many connect PORT FIRST COUNT   connects to COUNT addresses from FIRST on, one after the
//                                       other; prints how many answered, and each that did not
//   tcp_many serve PORT                 tells every client the address that it comes from
//   tcp_many from PORT HOST FIRST COUNT connects from COUNT addresses to HOST's server; prints how
//                                       many were told their own address, and each that was not
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// An IPv4 or IPv6 address with a port, as the socket calls want it.
struct Endpoint {
  sockaddr_storage storage{};

  Endpoint(const std::string& address, uint16_t port) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
    } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
    } else {
      std::fprintf(stderr, "not an address: %s\n", address.c_str());
      std::exit(2);
    }
  }

  bool is_v6() const { return storage.ss_family == AF_INET6; }
  socklen_t size() const { return is_v6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  /// The address `steps` further on.
  Endpoint after(uint32_t steps) const {
    Endpoint next = *this;
    uint8_t* last =
        is_v6()
            ? reinterpret_cast<sockaddr_in6&>(next.storage).sin6_addr.s6_addr + 12
            : reinterpret_cast<uint8_t*>(&reinterpret_cast<sockaddr_in&>(next.storage).sin_addr);
    uint32_t value;
    std::memcpy(&value, last, sizeof(value));
    value = htonl(ntohl(value) + steps);
    std::memcpy(last, &value, sizeof(value));
    return next;
  }

  std::string text() const {
    char buffer[INET6_ADDRSTRLEN] = "";
    if (is_v6()) {
      inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr, buffer,
                sizeof(buffer));
    } else {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, buffer,
                sizeof(buffer));
    }
    return buffer;
  }
};

/// A socket, connected to `to` from `from` (or from anywhere), or -1.
int connected(const Endpoint* from, const Endpoint& to) {
  const int fd = socket(to.storage.ss_family, SOCK_STREAM, 0);
  const timeval limit{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if ((from != nullptr && bind(fd, from->get(), from->size()) != 0) ||
      connect(fd, to.get(), to.size()) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

int connect_to_each(uint16_t port, const std::string& first, uint32_t count) {
  const Endpoint start(first, port);
  uint32_t good = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Endpoint to = start.after(i);
    const int fd = connected(nullptr, to);
    if (fd < 0) {
      std::printf("no answer: %s\n", to.text().c_str());
      continue;
    }
    ++good;
    close(fd);
  }
  std::printf("connected: %u\n", good);
  return good == count ? 0 : 1;
}

int connect_from_each(uint16_t port, const std::string& host, const std::string& first,
                      uint32_t count) {
  const Endpoint server(host, port);
  const Endpoint start(first, 0);
  uint32_t good = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Endpoint from = start.after(i);
    const int fd = connected(&from, server);
    char told[INET6_ADDRSTRLEN] = "";
    if (fd >= 0) {
      size_t size = 0;
      ssize_t got;
      while (size + 1 < sizeof(told) && (got = read(fd, told + size, sizeof(told) - 1 - size)) > 0)
        size += static_cast<size_t>(got);
      close(fd);
    }
    if (from.text() == told) {
      ++good;
    } else {
      std::printf("from %s: %s\n", from.text().c_str(), fd < 0 ? "no answer" : told);
    }
  }
  std::printf("connected: %u\n", good);
  return good == count ? 0 : 1;
}

int serve(uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM, 0);
  const int off = 0;
  setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  const Endpoint any("::", port);
  if (bind(listener, any.get(), any.size()) != 0 || listen(listener, 128) != 0) {
    std::perror("serve");
    return 1;
  }
  for (;;) {
    Endpoint client("::", 0);
    socklen_t size = sizeof(client.storage);
    const int fd = accept(listener, reinterpret_cast<sockaddr*>(&client.storage), &size);
    if (fd < 0) continue;
    std::string text = client.text();
    if (text.rfind("::ffff:", 0) == 0) text.erase(0, 7);
    if (write(fd, text.data(), text.size()) < 0) std::perror("write");
    close(fd);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 2 ? argv[1] : "";
  const auto port = static_cast<uint16_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  if (verb == "connect" && argc == 5) {
    return connect_to_each(port, argv[3], static_cast<uint32_t>(std::atoi(argv[4])));
  }
  if (verb == "from" && argc == 6) {
    return connect_from_each(port, argv[3], argv[4], static_cast<uint32_t>(std::atoi(argv[5])));
  }
  if (verb == "serve" && argc == 3) return serve(port);
  std::fprintf(stderr, "see the head of the source\n");
  return 2;
}
