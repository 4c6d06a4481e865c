// RDMA-CM: ids, their addresses and queue pairs.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <new>

#include "dataplane/cm/rdma_cm.h"
#include "tools/soft_nic/connections.h"
#include "tools/soft_nic/context.h"
#include "tools/soft_nic/device.h"
#include "tools/soft_nic/exported.h"

namespace understudy::soft_nic {

namespace {

constexpr uint16_t kFirstPort = 0xc000;  ///< of those that are given out

/// As rdma_*(3) say: -1 and errno.
int told(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

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
  Connections* all = the_connections();
  if (all == nullptr) return ENODEV;
  const IpAddress own = Context::of(the_context()).nic.interface().address;
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
  out.sin_port = htons(port != 0 ? port : fresh_port());
  id.ibv.verbs = the_context();
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
  // Without a channel every call would wait for its event: not offered.
  if (channel == nullptr || space != RDMA_PS_TCP) return told(EOPNOTSUPP);
  if (the_connections() == nullptr) return -1;
  auto* id = new (std::nothrow) Id;
  if (id == nullptr) return told(ENOMEM);
  id->ibv.channel = channel;
  id->ibv.context = context;
  id->ibv.ps = space;
  id->ibv.qp_type = IBV_QPT_RC;
  *out = &id->ibv;
  return 0;
}

SOFT_NIC_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  Id& mine = Id::of(id);
  the_connections()->forget(mine);
  delete &mine;
  return 0;
}

SOFT_NIC_EXPORT int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  if (channel == nullptr) return told(EOPNOTSUPP);
  id->channel = channel;  // events that wait stay where they are
  return 0;
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
  id->route.addr.dst_sin = *reinterpret_cast<const sockaddr_in*>(to);
  mine.peer = address_of(to);
  mine.service = rdma_service_id(space_of(*id), ntohs(id->route.addr.dst_sin.sin_port));
  Nic& nic = Context::of(id->verbs).nic;
  bool known = false;
  {
    std::unique_lock lock(nic.mutex());
    known = nic.resolve(mine.peer, lock).has_value();
  }
  the_connections()->raise(mine, known ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
                           known ? 0 : -ETIMEDOUT);
  return 0;
}

SOFT_NIC_EXPORT int rdma_resolve_route(rdma_cm_id* id, int) {
  if (id->verbs == nullptr) return told(EINVAL);
  id->route.num_paths = 1;
  id->route.path_rec = &Id::of(id).path;
  the_connections()->raise(Id::of(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
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

SOFT_NIC_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  return told(the_connections()->attributes(Id::of(id), attr->qp_state, *attr, *mask));
}

SOFT_NIC_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
  if (id->qp != nullptr || id->verbs == nullptr) return told(EINVAL);
  if (attr->send_cq == nullptr || attr->recv_cq == nullptr) return told(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return told(EINVAL);
  ibv_qp* qp = ibv_create_qp_ex(attr->pd->context, attr);
  if (qp == nullptr) return -1;
  ibv_qp_attr init;
  int mask = 0;
  the_connections()->attributes(Id::of(id), IBV_QPS_INIT, init, mask);
  if (const int failed = ibv_modify_qp(qp, &init, mask)) {
    ibv_destroy_qp(qp);
    return told(failed);
  }
  id->qp = qp;
  id->pd = attr->pd;
  return 0;
}

SOFT_NIC_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (pd == nullptr) return told(EINVAL);
  ibv_qp_init_attr_ex whole{};
  whole.qp_context = attr->qp_context;
  whole.send_cq = attr->send_cq;
  whole.recv_cq = attr->recv_cq;
  whole.srq = attr->srq;
  whole.cap = attr->cap;
  whole.qp_type = attr->qp_type;
  whole.sq_sig_all = attr->sq_sig_all;
  whole.comp_mask = IBV_QP_INIT_ATTR_PD;
  whole.pd = pd;
  return rdma_create_qp_ex(id, &whole);
}

SOFT_NIC_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
  if (id->qp != nullptr) ibv_destroy_qp(id->qp);
  id->qp = nullptr;
}

SOFT_NIC_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) { return id->route.addr.src_sin.sin_port; }
SOFT_NIC_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) { return id->route.addr.dst_sin.sin_port; }
