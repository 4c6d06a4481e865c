// Verbs that the device does not offer: refused here, because the distribution's would take our
// objects for its own.
#include <infiniband/verbs.h>

#include <cerrno>

#include "tools/soft_nic/device/exported.h"

namespace {

template <typename T>
T* refused() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

SOFT_NIC_EXPORT int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
SOFT_NIC_EXPORT int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
SOFT_NIC_EXPORT ibv_context* ibv_import_device(int) { return refused<ibv_context>(); }
SOFT_NIC_EXPORT ibv_pd* ibv_import_pd(ibv_context*, uint32_t) { return refused<ibv_pd>(); }
SOFT_NIC_EXPORT void ibv_unimport_pd(ibv_pd*) {}
SOFT_NIC_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return refused<ibv_mr>(); }
SOFT_NIC_EXPORT void ibv_unimport_mr(ibv_mr*) {}
SOFT_NIC_EXPORT ibv_dm* ibv_import_dm(ibv_context*, uint32_t) { return refused<ibv_dm>(); }
SOFT_NIC_EXPORT void ibv_unimport_dm(ibv_dm*) {}
// Enhanced connection establishment is of mlx5's; programs go on without it.
SOFT_NIC_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
SOFT_NIC_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
// Frames that come twice are written twice, so bytes seen once may be written again: no promise.
SOFT_NIC_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }
