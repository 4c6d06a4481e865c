// RDMA-CM: ids and their addresses.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <ctime>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/device.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/rdma_cm/connections.h"
#include "tools/soft_nic/rdma_cm/rdma_result.h"
#include "tools/soft_nic/rdma_cm/rdma_wait.h"

namespace understudy::soft_nic {

namespace {

constexpr uint16_t kFirstPort = 0xc000;  ///< of those that are given out
constexpr int kTries = 64;

PortSpace space_of(const rdma_cm_id& id) {
  return id.ps == RDMA_PS_UDP ? PortSpace::kUdp : PortSpace::kTcp;
}

uint16_t fresh_port() {
  static std::atomic<uint16_t> next{static_cast<uint16_t>(clock())};
  return static_cast<uint16_t>(kFirstPort | (next++ & 0x3fff));
}

IpAddress address_of(const sockaddr* address) {
  const auto* in = reinterpret_cast<const sockaddr_in*>(address);
  return IpAddress::v4(ntohl(in->sin_addr.s_addr));
}

/// EADDRNOTAVAIL where it is not ours; `address` may be null or name no address: ours.
int bind(Id& id, const sockaddr* address) {
  const IpAddress own = id.home.nic().interface().address;
  uint16_t port = 0;
  if (address != nullptr) {
    // The IPv6 address that means any means ours, too.
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    const bool any6 = address->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    if (address->sa_family != AF_INET && !any6) return EADDRNOTAVAIL;
    const IpAddress wanted = any6 ? IpAddress::v4(0) : address_of(address);
    if (wanted.v4_value() != 0 && wanted != own) return EADDRNOTAVAIL;
    port = ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);  // both have it there
  }
  sockaddr_in& out = id.ibv.route.addr.src_sin;
  out = {};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(own.v4_value());
  for (int tries = 0; port == 0 && tries < kTries; ++tries) {
    port = fresh_port();
    if (id.home.is_taken(rdma_service_id(space_of(id.ibv), port))) port = 0;
  }
  if (port == 0) return EADDRNOTAVAIL;
  out.sin_port = htons(port);
  id.ibv.verbs = id.home.context();
  if (id.ibv.pd == nullptr) id.ibv.pd = id.home.domain();
  id.ibv.port_num = 1;
  id.service = rdma_service_id(space_of(id.ibv), ntohs(out.sin_port));
  return 0;
}

}  // namespace
}  // namespace understudy::soft_nic

using namespace understudy;
using namespace understudy::soft_nic;

SOFT_NIC_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context,
                                   rdma_port_space space) {
  Connections* all = the_connections();
  if (all == nullptr) return -1;
  Id* id = nullptr;
  if (const int failed = all->make(channel, space, id)) return told(failed);
  id->ibv.context = context;
  *out = &id->ibv;
  return 0;
}

SOFT_NIC_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  Id& mine = Id::of(id);
  give_back_event(mine);
  mine.home.forget(mine);
  delete &mine;
  return 0;
}

SOFT_NIC_EXPORT int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  Id& mine = Id::of(id);
  if (channel == nullptr && mine.waits() && id->event == nullptr) return 0;
  if (mine.waits()) give_back_event(mine);
  return told(mine.home.migrate(mine, channel ? &EventChannel::of(channel) : nullptr));
}

SOFT_NIC_EXPORT int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return told(bind(Id::of(id), address));
}

SOFT_NIC_EXPORT int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int) {
  Id& mine = Id::of(id);
  if (to == nullptr || to->sa_family != AF_INET) return told(EINVAL);
  if (id->verbs == nullptr) {
    if (const int failed = bind(mine, from)) return told(failed);
  }
  if (IN_MULTICAST(ntohl(reinterpret_cast<const sockaddr_in*>(to)->sin_addr.s_addr))) {
    return told(EOPNOTSUPP);
  }
  id->route.addr.dst_sin = *reinterpret_cast<const sockaddr_in*>(to);
  mine.peer = address_of(to);
  mine.service = rdma_service_id(space_of(*id), ntohs(id->route.addr.dst_sin.sin_port));
  Nic& nic = mine.home.nic();
  bool known = false;
  {
    std::unique_lock lock(nic.mutex());
    known = nic.resolve(mine.peer, lock).has_value();
  }
  mine.home.raise(mine, known ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
                  known ? 0 : -ETIMEDOUT);
  return wait_for_event(mine);
}

SOFT_NIC_EXPORT int rdma_resolve_route(rdma_cm_id* id, int) {
  if (id->verbs == nullptr) return told(EINVAL);
  id->route.num_paths = 1;
  id->route.path_rec = &Id::of(id).path;
  Id::of(id).home.raise(Id::of(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return wait_for_event(Id::of(id));
}

SOFT_NIC_EXPORT int rdma_set_option(rdma_cm_id* id, int level, int option, void* value,
                                    size_t size) {
  if (level != RDMA_OPTION_ID) return told(ENOSYS);
  if (option == RDMA_OPTION_ID_TOS && size == 1) {
    Id::of(id).traffic_class = *static_cast<const uint8_t*>(value);
    return 0;
  }
  if (option == RDMA_OPTION_ID_ACK_TIMEOUT && size == 1) {
    Id::of(id).ack_timeout = *static_cast<const uint8_t*>(value) & 31;
    return 0;
  }
  // One listener has a port here, and only IPv4, anyway.
  if (option == RDMA_OPTION_ID_REUSEADDR || option == RDMA_OPTION_ID_AFONLY) return 0;
  return told(ENOSYS);
}

SOFT_NIC_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) { return id->route.addr.src_sin.sin_port; }
SOFT_NIC_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) { return id->route.addr.dst_sin.sin_port; }
