// Verbs: protection domains and memory regions.
#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/objects.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace understudy;
using namespace understudy::soft_nic;

namespace {

constexpr unsigned kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

std::atomic<uint32_t> next_domain{0};

/// What the peer may do to memory, the program must be able to do as well (IBTA 10.6.3.1).
bool consistent(unsigned access) {
  const unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  return (access & ~kKnownAccess) == 0 &&
         ((access & writes) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

uint8_t region_access(unsigned access) {
  uint8_t out = 0;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) out |= kAccessLocalWrite;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) out |= kAccessRemoteWrite;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) out |= kAccessRemoteRead;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) out |= kAccessRemoteAtomic;
  return out;
}

ibv_mr* refused(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

SOFT_NIC_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* pd = new (std::nothrow) Domain;
  if (pd == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  pd->ibv.context = context;
  pd->ibv.handle = next_domain++;
  return &pd->ibv;
}

SOFT_NIC_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  Domain& domain = Domain::of(pd);
  {
    const std::lock_guard lock(Context::of(pd->context).nic.mutex());
    if (domain.users != 0) return EBUSY;
  }
  delete &domain;
  return 0;
}

SOFT_NIC_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                         unsigned access) {
  // On-demand paging and zero-based regions are not offered; nothing has no bytes.
  if (addr == nullptr || !consistent(access)) return refused(EINVAL);
  auto* mr = new (std::nothrow) ibv_mr{};
  if (mr == nullptr) return refused(ENOMEM);
  Region region;
  region.node = pd->handle;
  region.va = iova;
  region.length = length;
  region.access = region_access(access);
  region.bytes = static_cast<uint8_t*>(addr);
  Nic& nic = Context::of(pd->context).nic;
  const std::lock_guard lock(nic.mutex());
  mr->lkey = mr->rkey = nic.add_region(region);
  if (mr->lkey == 0) {
    delete mr;
    return refused(ENOMEM);
  }
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = addr;
  mr->length = length;
  mr->handle = mr->lkey >> 8;
  ++Domain::of(pd).users;
  return mr;
}

SOFT_NIC_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return ibv_reg_mr_iova2(pd, addr, length, reinterpret_cast<uintptr_t>(addr),
                          static_cast<unsigned>(access));
}

SOFT_NIC_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                        int access) {
  return ibv_reg_mr_iova2(pd, addr, length, iova, static_cast<unsigned>(access));
}

SOFT_NIC_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return refused(EOPNOTSUPP);  // memory of devices has no bytes that we can reach
}

SOFT_NIC_EXPORT int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, size_t, int) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;  // the region stays as it is
}

SOFT_NIC_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  Nic& nic = Context::of(mr->context).nic;
  {
    const std::lock_guard lock(nic.mutex());
    nic.remove_region(mr->lkey);
    --Domain::of(mr->pd).users;
  }
  delete mr;
  return 0;
}

// Nothing is pinned, so fork() takes nothing away.
SOFT_NIC_EXPORT int ibv_fork_init() { return 0; }
SOFT_NIC_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
