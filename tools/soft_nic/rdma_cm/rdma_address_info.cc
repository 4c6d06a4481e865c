// RDMA-CM: names and addresses.
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/soft_nic/device/exported.h"

namespace {

sockaddr* copy(const sockaddr* address, socklen_t size) {
  auto* made = static_cast<sockaddr*>(std::malloc(size));
  if (made != nullptr) std::memcpy(made, address, size);
  return made;
}

/// Queue pairs and port spaces stand for one another.
void set_kind(rdma_addrinfo& out, const rdma_addrinfo& hints) {
  const bool datagrams = hints.ai_qp_type == IBV_QPT_UD || hints.ai_port_space == RDMA_PS_UDP;
  out.ai_qp_type = hints.ai_qp_type != 0 ? hints.ai_qp_type : datagrams ? IBV_QPT_UD : IBV_QPT_RC;
  out.ai_port_space = hints.ai_port_space != 0 ? hints.ai_port_space
                      : datagrams              ? RDMA_PS_UDP
                                               : RDMA_PS_TCP;
}

int errno_of(int code) {
  switch (code) {
    case 0:
      return 0;
    case EAI_MEMORY:
      return ENOMEM;
    case EAI_SYSTEM:
      return errno;
    default:
      return ENODATA;
  }
}

/// The family that is wanted; without a wish IPv4, and IPv6 for names that have no IPv4 address.
int look_up(const char* node, const char* service, addrinfo wanted, addrinfo*& found) {
  if (wanted.ai_family != AF_UNSPEC) return getaddrinfo(node, service, &wanted, &found);
  wanted.ai_family = AF_INET;
  const int failed = getaddrinfo(node, service, &wanted, &found);
  if (failed == 0) return 0;
  wanted.ai_family = AF_INET6;
  return getaddrinfo(node, service, &wanted, &found) == 0 ? 0 : failed;
}

}  // namespace

SOFT_NIC_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* info) {
  if (info == nullptr) return;
  std::free(info->ai_src_addr);
  std::free(info->ai_dst_addr);
  std::free(info);
}

SOFT_NIC_EXPORT int rdma_getaddrinfo(const char* node, const char* service,
                                     const rdma_addrinfo* hints, rdma_addrinfo** out) {
  const int flags = hints != nullptr ? hints->ai_flags : 0;
  const bool passive = (flags & RAI_PASSIVE) != 0;
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = hints != nullptr ? hints->ai_family : AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  if (passive) wanted.ai_flags |= AI_PASSIVE;
  if ((flags & RAI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
  if (const int failed = errno_of(look_up(node, service, wanted, found))) {
    errno = failed;
    return -1;
  }
  auto* made = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  sockaddr* address = copy(found->ai_addr, found->ai_addrlen);
  const socklen_t size = found->ai_addrlen;
  const int family = found->ai_family;
  freeaddrinfo(found);
  if (made == nullptr || address == nullptr) {
    std::free(made);
    std::free(address);
    errno = ENOMEM;
    return -1;
  }
  made->ai_flags = flags;
  made->ai_family = family;
  set_kind(*made, hints != nullptr ? *hints : rdma_addrinfo{});
  (passive ? made->ai_src_addr : made->ai_dst_addr) = address;
  (passive ? made->ai_src_len : made->ai_dst_len) = size;
  if (!passive && hints != nullptr && hints->ai_src_len != 0) {
    made->ai_src_addr = copy(hints->ai_src_addr, hints->ai_src_len);
    made->ai_src_len = made->ai_src_addr != nullptr ? hints->ai_src_len : 0;
  }
  *out = made;
  return 0;
}
