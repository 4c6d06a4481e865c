// Verbs: address handles.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "dataplane/wire/headers.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/objects.h"

using namespace understudy;
using namespace understudy::soft_nic;

namespace {

constexpr uint8_t kIpv4WithoutOptions = 0x45;

ibv_ah* refused(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

SOFT_NIC_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  const IpAddress to = IpAddress::v6_bytes(attr->grh.dgid.raw);
  if (attr->is_global == 0 || attr->port_num != 1 || attr->grh.sgid_index != 0 || !to.is_v4()) {
    return refused(EINVAL);  // as for queue pairs: RoCE, IPv4
  }
  Nic& nic = Context::of(pd->context).nic;
  std::unique_lock lock(nic.mutex());
  const auto mac = nic.resolve(to, lock);
  if (!mac) return refused(ETIMEDOUT);
  auto* made = new (std::nothrow) AddressHandle;
  if (made == nullptr) return refused(ENOMEM);
  made->ibv.context = pd->context;
  made->ibv.pd = pd;
  made->way.src_mac = nic.interface().mac;
  made->way.dst_mac = *mac;
  made->way.src = nic.interface().address;
  made->way.dst = to;
  made->way.traffic_class = attr->grh.traffic_class;
  if (attr->grh.hop_limit > 1) made->way.ttl = attr->grh.hop_limit;
  ++Domain::of(pd).users;
  return &made->ibv;
}

SOFT_NIC_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  {
    const std::lock_guard lock(Context::of(ah->context).nic.mutex());
    --Domain::of(ah->pd).users;
  }
  delete reinterpret_cast<AddressHandle*>(ah);
  return 0;
}

SOFT_NIC_EXPORT int ibv_init_ah_from_wc(ibv_context*, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                        ibv_ah_attr* out) {
  Ipv4Header ip;
  std::memcpy(&ip, reinterpret_cast<const uint8_t*>(grh) + sizeof *grh - sizeof ip, sizeof ip);
  if ((wc->wc_flags & IBV_WC_GRH) == 0 || ip.version_ihl != kIpv4WithoutOptions) {
    errno = EINVAL;
    return -1;
  }
  *out = {};
  out->is_global = 1;
  out->port_num = port;
  const IpAddress from = IpAddress::v4_bytes(reinterpret_cast<const uint8_t*>(&ip) + 12);
  std::memcpy(out->grh.dgid.raw, from.gid().data(), from.gid().size());
  out->grh.hop_limit = 64;
  out->grh.traffic_class = ip.tos;
  return 0;
}

SOFT_NIC_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

/// VLANs are not known here: 0xffff is "none" as rdma-core has it.
SOFT_NIC_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                                uint8_t mac[6], uint16_t* vlan) {
  const IpAddress to = IpAddress::v6_bytes(attr->grh.dgid.raw);
  if (!to.is_v4()) return EINVAL;
  Nic& nic = Context::of(context).nic;
  std::unique_lock lock(nic.mutex());
  const auto found = nic.resolve(to, lock);
  if (!found) return ETIMEDOUT;
  std::memcpy(mac, found->bytes.data(), found->bytes.size());
  *vlan = 0xffff;
  return 0;
}
