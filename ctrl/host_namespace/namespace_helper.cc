#include "ctrl/host_namespace/namespace_helper.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include "ctrl/host_namespace/fd_channel.h"
#include "ctrl/host_namespace/namespace_setup.h"
#include "dataplane/base/privileges.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr int kBacklog = 4096;  ///< all ranks of a communicator may dial the same root

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

RawAddress socket_address(const IpAddress& address, uint16_t port) {
  RawAddress result;
  if (address.is_v4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.v4_data(), 4);
    std::memcpy(&result.storage, &in, sizeof in);
    result.size = sizeof in;
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, address.data(), 16);
    std::memcpy(&result.storage, &in, sizeof in);
    result.size = sizeof in;
  }
  return result;
}

UniqueFd open_socket(const IpAddress& address) {
  return UniqueFd(
      socket(address.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

std::string listen_on(const IpAddress& address, uint16_t port, UniqueFd& result) {
  UniqueFd fd = open_socket(address);
  const int on = 1;
  const RawAddress bound = socket_address(address, port);
  if (fd.valid() && !address.is_v4()) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd.get(), bound.get(), bound.size) != 0 || listen(fd.get(), kBacklog) != 0) {
    return std::strerror(errno);
  }
  result = std::move(fd);
  return {};
}

std::string connect_to(const IpAddress& from, const IpAddress& to, uint16_t port,
                       UniqueFd& result) {
  if (from.is_v4() != to.is_v4()) return "the two addresses are of different families";
  UniqueFd fd = open_socket(from);
  const RawAddress source = socket_address(from, 0);
  const RawAddress target = socket_address(to, port);
  if (!fd.valid() || bind(fd.get(), source.get(), source.size) != 0) return std::strerror(errno);
  if (connect(fd.get(), target.get(), target.size) != 0 && errno != EINPROGRESS) {
    return std::strerror(errno);
  }
  result = std::move(fd);
  return {};
}

std::string answer(const std::string& request, UniqueFd& result) {
  std::istringstream words(request);
  std::string verb, first, second;
  unsigned port = 0;
  words >> verb >> first;
  if (verb == "connect") words >> second;
  words >> port;
  const auto address = IpAddress::parse(first);
  const auto target = IpAddress::parse(second);
  if (words && verb == "listen" && address) {
    return listen_on(*address, static_cast<uint16_t>(port), result);
  }
  if (words && verb == "connect" && address && target) {
    return connect_to(*address, *target, static_cast<uint16_t>(port), result);
  }
  return "not a request";
}

Result<UniqueFd> set_up(const HostNamespaceSpec& spec) {
  TRY(enter_new_namespace());
  auto tap = open_tap();
  if (!tap) return tap;
  TRY(configure_namespace(spec));
  return tap;
}

}  // namespace

void run_namespace_helper(int channel, const HostNamespaceSpec& spec) {
  // Ctrl-C reaches the whole process group; the helper lives until its owner closes the channel.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  prctl(PR_SET_NAME, "understudy-net");
  // Nothing of the owner's files is held open here; the channel moves to descriptor 3.
  if (channel != 3) dup3(channel, 3, 0);
  close_range(4, ~0u, 0);
  {
    auto tap = set_up(spec);
    send_fd_message(3, tap ? "" : tap.error().text, tap ? tap->get() : -1);
    if (!tap) _exit(1);
  }
  keep_capabilities(kBindLowPorts);
  while (auto request = receive_fd_message(3)) {
    UniqueFd result;
    const std::string error = answer(request->text, result);
    if (!send_fd_message(3, error, result.get())) break;
  }
  _exit(0);
}

}  // namespace understudy
