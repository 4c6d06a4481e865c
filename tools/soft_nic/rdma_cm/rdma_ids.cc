// RDMA-CM: ids and their addresses.
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <vector>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/device.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/rdma_cm/connections.h"
#include "tools/soft_nic/rdma_cm/rdma_result.h"
#include "tools/soft_nic/rdma_cm/rdma_wait.h"
#include "tools/soft_nic/rdma_cm/socket_forms.h"

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

/// Those of our addresses that `wanted` stands for: itself, or what "any" of its family has.
std::vector<IpAddress> own_addresses(const Id& id, const IpAddress& wanted) {
  const Interface& interface = id.home.nic().interface();
  if (!is_any(wanted)) {
    return interface.has(wanted) ? std::vector{wanted} : std::vector<IpAddress>{};
  }
  // An IPv6 socket hears both, as far as it does not say otherwise; who has one family means it.
  const bool only_v4 = wanted.is_v4(), only_v6 = !only_v4 && id.only_v6;
  std::vector<IpAddress> all, some;
  for (const IpPrefix& own : interface.addresses) {
    all.push_back(own.address);
    if (own.address.is_v4() ? !only_v6 : !only_v4) some.push_back(own.address);
  }
  return some.empty() ? all : some;
}

/// From now on it is the one that the id uses.
void use(Id& id, const IpAddress& local, uint16_t port) {
  id.local = local;
  put_address(id.ibv.route.addr.src_storage, local, port, id.home.nic().interface().index);
}

/// EADDRNOTAVAIL where it is not ours; `address` may be null or name no address: ours.
int bind(Id& id, const sockaddr* address) {
  uint16_t port = 0;
  IpAddress wanted = IpAddress::v4(0);
  if (address != nullptr) {
    const auto named = address_in(address);
    if (!named) return EADDRNOTAVAIL;
    wanted = *named;
    port = port_in(address);
  }
  id.bound = own_addresses(id, wanted);
  if (id.bound.empty()) return EADDRNOTAVAIL;
  for (int tries = 0; port == 0 && tries < kTries; ++tries) {
    port = fresh_port();
    if (id.home.is_taken(rdma_service_id(space_of(id.ibv), port))) port = 0;
  }
  if (port == 0) return EADDRNOTAVAIL;
  use(id, id.bound.front(), port);
  id.ibv.verbs = id.home.context();
  if (id.ibv.pd == nullptr) id.ibv.pd = id.home.domain();
  id.ibv.port_num = 1;
  id.service = rdma_service_id(space_of(id.ibv), port);
  return 0;
}

/// Binds an id that is not to an address from which `to` is spoken to.
int bind_toward(Id& id, const sockaddr* from, const IpAddress& to) {
  const IpAddress* own = id.home.nic().interface().source_for(to);
  if (own == nullptr) return EADDRNOTAVAIL;
  if (id.ibv.verbs == nullptr) {
    const bool named = from != nullptr && address_in(from) && !is_any(*address_in(from));
    sockaddr_storage any{};
    put_address(any, *own, from != nullptr ? port_in(from) : uint16_t{0},
                id.home.nic().interface().index);
    const int failed = bind(id, named ? from : reinterpret_cast<const sockaddr*>(&any));
    if (failed != 0) return failed;
  }
  const auto is_own = [&](const IpAddress& bound) { return bound == *own; };
  const auto fits = [&](const IpAddress& bound) { return bound.is_v4() == to.is_v4(); };
  auto at = std::ranges::find_if(id.bound, is_own);
  if (at == id.bound.end()) at = std::ranges::find_if(id.bound, fits);
  if (at == id.bound.end()) return EADDRNOTAVAIL;
  use(id, *at, port_in(&id.ibv.route.addr.src_addr));
  return 0;
}

bool is_multicast(const IpAddress& address) {
  return address.is_v4() ? IN_MULTICAST(address.v4_value()) : address.data()[0] == 0xff;
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
  const auto peer = to != nullptr ? address_in(to) : std::nullopt;
  if (!peer) return told(EINVAL);
  if (is_multicast(*peer)) return told(EOPNOTSUPP);
  if (const int failed = bind_toward(mine, from, *peer)) return told(failed);
  const uint16_t port = port_in(to);
  put_address(id->route.addr.dst_storage, *peer, port, mine.home.nic().interface().index);
  mine.peer = *peer;
  mine.service = rdma_service_id(space_of(*id), port);
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
  if (option == RDMA_OPTION_ID_AFONLY && size == sizeof(int)) {
    Id::of(id).only_v6 = *static_cast<const int*>(value) != 0;
    return 0;
  }
  if (option == RDMA_OPTION_ID_REUSEADDR) return 0;  // one listener has a port here anyway
  return told(ENOSYS);
}

SOFT_NIC_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) { return id->route.addr.src_sin.sin_port; }
SOFT_NIC_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) { return id->route.addr.dst_sin.sin_port; }
