#include "tools/soft_nic/device/claims.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>

namespace understudy::soft_nic {

namespace {

constexpr const char* kOurs = "understudy-soft-nic/";

UniqueFd unix_socket() { return UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

/// Abstract: the first byte of its path is zero (unix(7)).
socklen_t fill(sockaddr_un& out, const std::string& name) {
  out = {};
  out.sun_family = AF_UNIX;
  const std::string whole = kOurs + name;
  const size_t size = std::min(whole.size(), sizeof out.sun_path - 1);
  std::copy_n(whole.begin(), size, out.sun_path + 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

}  // namespace

std::optional<Claim> Claim::take(const std::string& name) {
  sockaddr_un at;
  const socklen_t size = fill(at, name);
  UniqueFd fd = unix_socket();
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), size) != 0) return std::nullopt;
  return Claim(std::move(fd));
}

bool Claim::is_taken(const std::string& name) {
  sockaddr_un at;
  const socklen_t size = fill(at, name);
  const UniqueFd fd = unix_socket();
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0;
}

}  // namespace understudy::soft_nic
