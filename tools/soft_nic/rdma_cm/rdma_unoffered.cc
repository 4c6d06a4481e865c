// RDMA-CM's calls on ids that are not offered: refused here, because the distribution's would take
// our ids for its own.
#include <rdma/rdma_cma.h>

#include <cerrno>

#include "tools/soft_nic/device/exported.h"

namespace {

int refused() {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

/// Sockets over RDMA know the insides of the distribution's ids; ours have others.
SOFT_NIC_EXPORT int rsocket(int, int, int) { return refused(); }
SOFT_NIC_EXPORT int rdma_join_multicast(rdma_cm_id*, sockaddr*, void*) { return refused(); }
SOFT_NIC_EXPORT int rdma_join_multicast_ex(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*) {
  return refused();
}
SOFT_NIC_EXPORT int rdma_leave_multicast(rdma_cm_id*, sockaddr*) { return refused(); }
SOFT_NIC_EXPORT int rdma_set_local_ece(rdma_cm_id*, ibv_ece*) { return refused(); }
SOFT_NIC_EXPORT int rdma_get_remote_ece(rdma_cm_id*, ibv_ece*) { return refused(); }
SOFT_NIC_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t size) {
  return rdma_reject(id, private_data, size);
}
/// Data that came before the peer's last message says the same: our queue pairs answer them anyway.
SOFT_NIC_EXPORT int rdma_notify(rdma_cm_id*, ibv_event_type) { return 0; }
