// RDMA-CM: endpoints: an id that is bound or has found its peer, with its queue pair, in one call.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>

#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/rdma_cm/rdma_result.h"
#include "tools/soft_nic/rdma_cm/rdma_wait.h"

using namespace understudy::soft_nic;

namespace {

constexpr int kPatienceMs = 2000;

/// Requests get queue pairs like this one, by rdma_get_request().
int make_passive(Id& id, rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (rdma_bind_addr(&id.ibv, info.ai_src_addr) != 0) return -1;
  if (attr == nullptr) return 0;
  ibv_qp_init_attr_ex& wanted = id.for_requests.emplace();
  wanted.qp_context = attr->qp_context;
  wanted.send_cq = attr->send_cq;
  wanted.recv_cq = attr->recv_cq;
  wanted.srq = attr->srq;
  wanted.cap = attr->cap;
  wanted.sq_sig_all = attr->sq_sig_all;
  wanted.qp_type = attr->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  wanted.comp_mask = pd != nullptr ? IBV_QP_INIT_ATTR_PD : 0;
  wanted.pd = pd;
  return 0;
}

int make_active(Id& id, rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (rdma_resolve_addr(&id.ibv, info.ai_src_addr, info.ai_dst_addr, kPatienceMs) != 0 ||
      rdma_resolve_route(&id.ibv, kPatienceMs) != 0) {
    return -1;
  }
  if (attr == nullptr) return 0;
  attr->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  return rdma_create_qp(&id.ibv, pd, attr);
}

}  // namespace

SOFT_NIC_EXPORT int rdma_create_ep(rdma_cm_id** out, rdma_addrinfo* info, ibv_pd* pd,
                                   ibv_qp_init_attr* attr) {
  if (info->ai_qp_type != IBV_QPT_RC && info->ai_qp_type != IBV_QPT_UD) return told(EOPNOTSUPP);
  rdma_cm_id* id = nullptr;
  const auto space = static_cast<rdma_port_space>(info->ai_port_space);
  if (rdma_create_id(nullptr, &id, nullptr, space) != 0) return -1;
  const bool passive = (info->ai_flags & RAI_PASSIVE) != 0;
  if ((passive ? make_passive : make_active)(Id::of(id), *info, pd, attr) != 0) {
    const int error = errno;
    rdma_destroy_ep(id);
    return told(error);
  }
  *out = id;
  return 0;
}

SOFT_NIC_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
  rdma_destroy_qp(id);
  rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

SOFT_NIC_EXPORT int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** out) {
  Id& mine = Id::of(listener);
  if (!mine.waits()) return told(EINVAL);
  if (wait_for_event(mine) != 0) return -1;
  rdma_cm_event* event = listener->event;
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) return told(EINVAL);
  rdma_cm_id* id = event->id;
  id->event = event;
  listener->event = nullptr;
  if (mine.for_requests) {
    ibv_qp_init_attr_ex attr = *mine.for_requests;
    if (rdma_create_qp_ex(id, &attr) != 0) {
      const int error = errno;
      rdma_destroy_id(id);  // rejects it
      return told(error);
    }
  }
  *out = id;
  return 0;
}
