// Verbs: address handles.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "dataplane/wire/headers.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/objects.h"
#include "tools/soft_nic/device/ways.h"

using namespace understudy;
using namespace understudy::soft_nic;

namespace {

constexpr uint8_t kIpv4WithoutOptions = 0x45, kIpv6 = 6;

/// What a datagram's receive says of its way, before the payload.
struct Header {
  IpAddress from, to;
  uint8_t traffic_class = 0;
};

/// An IPv4 header stands in the second half, behind bytes that nobody has written (rule A1): its
/// checksum tells it from a part of an IPv6 header.
std::optional<Header> read_header(const ibv_grh& grh) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&grh);
  Ipv4Header v4;
  std::memcpy(&v4, bytes + sizeof grh - sizeof v4, sizeof v4);
  const uint32_t sum = checksum_add(0, reinterpret_cast<const uint8_t*>(&v4), sizeof v4);
  if (v4.version_ihl == kIpv4WithoutOptions && checksum_finish(sum) == 0) {
    return Header{IpAddress::v4_bytes(v4.src), IpAddress::v4_bytes(v4.dst), v4.tos};
  }
  Ipv6Header v6;
  std::memcpy(&v6, bytes, sizeof v6);
  const uint32_t first = v6.version_class_flow.get();
  if (first >> 28 != kIpv6) return std::nullopt;
  return Header{IpAddress::v6_bytes(v6.src), IpAddress::v6_bytes(v6.dst),
                static_cast<uint8_t>(first >> 20)};
}

ibv_ah* refused(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

SOFT_NIC_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  Nic& nic = Context::of(pd->context).nic;
  if (!is_way(nic.interface(), *attr)) return refused(EINVAL);
  std::unique_lock lock(nic.mutex());
  const auto mac = nic.resolve(destination_of(*attr), lock);
  if (!mac) return refused(ETIMEDOUT);
  auto* made = new (std::nothrow) AddressHandle;
  if (made == nullptr) return refused(ENOMEM);
  made->ibv.context = pd->context;
  made->ibv.pd = pd;
  made->way = way_of(nic.interface(), *attr, *mac);
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

SOFT_NIC_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc,
                                        ibv_grh* grh, ibv_ah_attr* out) {
  const auto header = (wc->wc_flags & IBV_WC_GRH) != 0 ? read_header(*grh) : std::nullopt;
  const Interface& interface = Context::of(context).nic.interface();
  if (!header || !interface.has(header->to)) {
    errno = EINVAL;
    return -1;
  }
  *out = {};
  out->is_global = 1;
  out->port_num = port;
  std::memcpy(out->grh.dgid.raw, header->from.data(), sizeof out->grh.dgid.raw);
  out->grh.sgid_index = static_cast<uint8_t>(interface.index_of(header->to));
  out->grh.hop_limit = 64;
  out->grh.traffic_class = header->traffic_class;
  return 0;
}

SOFT_NIC_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

/// 0xffff is no VLAN, as rdma-core has it.
SOFT_NIC_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                                uint8_t mac[6], uint16_t* vlan) {
  Nic& nic = Context::of(context).nic;
  const IpAddress to = destination_of(*attr);
  if (nic.interface().source_for(to) == nullptr) return EINVAL;
  std::unique_lock lock(nic.mutex());
  const auto found = nic.resolve(to, lock);
  if (!found) return ETIMEDOUT;
  std::memcpy(mac, found->bytes.data(), found->bytes.size());
  *vlan = nic.interface().vlan.value_or(0xffff);
  return 0;
}
