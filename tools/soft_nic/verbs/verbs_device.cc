// Verbs: the list of devices, opening one, and what it says about itself.
#include <infiniband/verbs.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/soft_nic/base/device_limits.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/device.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/operations.h"

// The header's macros stand for other functions than the library's.
#undef ibv_query_port
#undef ibv_get_device_list

namespace understudy::soft_nic {

namespace {

constexpr uint16_t kPkey = 0xffff;

constexpr uint64_t kUsualSpeed = 10'000'000'000;  // of interfaces that say nothing, virtual ones

uint64_t bits_per_second(const Nic& nic) {
  const uint64_t said = nic.interface().bits_per_second;
  return said != 0 ? said : kUsualSpeed;
}

/// Width and speed codes whose product is nearest below.
void fill_speed(uint64_t bits_per_second, ibv_port_attr& out) {
  struct Row {
    uint64_t gbits;
    uint8_t width, speed;
  };
  // Width 1: x1, 2: x4. Speed 1 is 2.5 Gbit/s a lane, 4: 10, 32: 25, 64: 50, 128: 100.
  constexpr Row kRows[] = {{10, 1, 4},   {25, 1, 32},  {40, 2, 4},
                           {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
  Row best = kRows[0];
  for (const Row& row : kRows) {
    if (row.gbits * 1'000'000'000 <= bits_per_second) best = row;
  }
  out.active_width = best.width;
  out.active_speed = best.speed;
}

/// Null: there is no such GID.
const IpAddress* gid_at(ibv_context* context, int64_t index) {
  const auto& own = Context::of(context).nic.interface().addresses;
  const bool known = index >= 0 && static_cast<size_t>(index) < own.size();
  return known ? &own[static_cast<size_t>(index)].address : nullptr;
}

ibv_mtu mtu_code(uint32_t mtu) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && 128U << (code + 1) <= mtu) ++code;
  return static_cast<ibv_mtu>(code);
}

}  // namespace

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out, size_t bytes) {
  if (port != 1) return EINVAL;
  const Nic& nic = Context::of(context).nic;
  ibv_port_attr attr{};
  attr.state = IBV_PORT_ACTIVE;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = mtu_code(nic.mtu());
  attr.gid_tbl_len = static_cast<int>(nic.interface().addresses.size());
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = kMaxMessageBytes;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.phys_state = 5;  // LinkUp
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  fill_speed(bits_per_second(nic), attr);
  std::memset(out, 0, bytes);
  std::memcpy(out, &attr, std::min(bytes, sizeof attr));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* out, size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex attr{};
  if (const int failed = ibv_query_device(context, &attr.orig_attr)) return failed;
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
  attr.phys_port_cnt_ex = 1;
  std::memset(out, 0, bytes);
  std::memcpy(out, &attr, std::min(bytes, sizeof attr));
  return 0;
}

}  // namespace understudy::soft_nic

using namespace understudy;
using namespace understudy::soft_nic;

SOFT_NIC_EXPORT ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  // Pointers it is of. NOLINTNEXTLINE(bugprone-sizeof-expression)
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) return nullptr;
  list[0] = the_device();  // none is an empty list, as where there is no RDMA device
  if (count != nullptr && list[0] != nullptr) *count = 1;
  return list;
}

SOFT_NIC_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }
SOFT_NIC_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }
SOFT_NIC_EXPORT int ibv_get_device_index(ibv_device*) { return 0; }
SOFT_NIC_EXPORT __be64 ibv_get_device_guid(ibv_device*) { return device_guid(); }

SOFT_NIC_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  const auto nic = the_nic();
  if (!nic) {
    errno = ENODEV;
    return nullptr;
  }
  return open_context(**nic, device);
}

SOFT_NIC_EXPORT int ibv_close_device(ibv_context* context) {
  Context* closed = &Context::of(context);
  pthread_mutex_destroy(&context->mutex);
  delete closed;
  return 0;
}

SOFT_NIC_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  const Nic& nic = Context::of(context).nic;
  ibv_device_attr attr{};
  std::strncpy(attr.fw_ver, "understudy", sizeof attr.fw_ver - 1);
  const auto& mac = nic.interface().mac.bytes;
  const uint8_t eui[8] = {
      static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  std::memcpy(&attr.node_guid, eui, sizeof eui);
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = UINT64_MAX;
  attr.page_size_cap = 0xfffff000;
  attr.max_qp = Nic::kQueuePairs;
  attr.max_qp_wr = kMaxQpWork;
  attr.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD;
  attr.max_sge = attr.max_sge_rd = kMaxPieces;
  attr.max_cq = 1 << 16;
  attr.max_cqe = kMaxCqEntries;
  attr.max_mr = Nic::kRegions;
  attr.max_pd = 1 << 16;
  attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = kMaxReads;
  attr.max_res_rd_atom = kMaxReads * static_cast<int>(Nic::kQueuePairs);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_ah = 1 << 16;
  attr.max_srq = 1 << 16;
  attr.max_srq_wr = kMaxQpWork;
  attr.max_srq_sge = kMaxPieces;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 15;  // 4.096 us << 15: threads of a busy host answer late
  attr.phys_port_cnt = 1;
  *out = attr;
  return 0;
}

SOFT_NIC_EXPORT int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* out) {
  // What old programs know ends before port_cap_flags2.
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(out),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

/// In 100 Mbit/s. rdma-core has it since release 62; NCCL 2.30 asks for it where it is.
SOFT_NIC_EXPORT int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed) {
  if (port != 1) return EINVAL;
  *speed = bits_per_second(Context::of(context).nic) / 100'000'000;
  return 0;
}

SOFT_NIC_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  const IpAddress* own = port == 1 ? gid_at(context, index) : nullptr;
  if (own == nullptr) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(gid->raw, own->data(), sizeof gid->raw);
  return 0;
}

SOFT_NIC_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                      ibv_gid_entry* entry, uint32_t flags, size_t bytes) {
  if (flags != 0 || port != 1) return EINVAL;
  if (gid_at(context, index) == nullptr) return ENODATA;
  ibv_gid_entry out{};
  ibv_query_gid(context, 1, static_cast<int>(index), &out.gid);
  out.gid_index = index;
  out.port_num = 1;
  out.gid_type = IBV_GID_TYPE_ROCE_V2;
  out.ndev_ifindex = static_cast<uint32_t>(Context::of(context).nic.interface().index);
  std::memset(entry, 0, bytes);
  std::memcpy(entry, &out, std::min(bytes, sizeof out));
  return 0;
}

SOFT_NIC_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                             size_t most, uint32_t flags, size_t bytes) {
  const size_t count = Context::of(context).nic.interface().addresses.size();
  if (most < count) return -EINVAL;  // as Linux: all of them, or none
  auto* at = reinterpret_cast<uint8_t*>(entries);
  for (size_t i = 0; i < count; ++i, at += bytes) {
    auto* entry = reinterpret_cast<ibv_gid_entry*>(at);
    const int failed = _ibv_query_gid_ex(context, 1, static_cast<uint32_t>(i), entry, flags, bytes);
    if (failed != 0) return -failed;
  }
  return static_cast<ssize_t>(count);
}

/// Private to rdma-core, but ibv_devinfo uses it. The type is that of sysfs: 1 is RoCEv2.
SOFT_NIC_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index,
                                       int* type) {
  if (port != 1 || gid_at(context, index) == nullptr) {
    errno = EINVAL;
    return -1;
  }
  *type = 1;
  return 0;
}

SOFT_NIC_EXPORT int ibv_query_pkey(ibv_context*, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htons(kPkey);
  return 0;
}

SOFT_NIC_EXPORT int ibv_get_pkey_index(ibv_context*, uint8_t port, __be16 pkey) {
  if (port == 1 && pkey == htons(kPkey)) return 0;
  errno = EINVAL;
  return -1;
}
