// RDMA-CM: queue pairs of ids, with completion queues and domains of ours where a program names
// none.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>

#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/rdma_cm/connections.h"
#include "tools/soft_nic/rdma_cm/rdma_result.h"

using namespace understudy;
using namespace understudy::soft_nic;

namespace {

/// A completion queue of the id's own.
bool add_queue(rdma_cm_id& id, uint32_t size, ibv_comp_channel*& channel, ibv_cq*& queue) {
  if (size == 0) return true;
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return false;
  queue = ibv_create_cq(id.verbs, static_cast<int>(size), &id, channel, 0);
  return queue != nullptr;
}

void remove_queue(ibv_comp_channel*& channel, ibv_cq*& queue) {
  if (queue != nullptr) ibv_destroy_cq(queue);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
  queue = nullptr;
  channel = nullptr;
}

void remove_queues(rdma_cm_id& id) {
  if (id.send_cq == id.recv_cq) id.send_cq = nullptr;
  if (id.send_cq_channel == id.recv_cq_channel) id.send_cq_channel = nullptr;
  remove_queue(id.recv_cq_channel, id.recv_cq);
  remove_queue(id.send_cq_channel, id.send_cq);
}

/// Datagrams can be sent and received at once; a connection's queue pair waits for its peer.
int make_first(Id& id, ibv_qp* qp) {
  const auto last = id.has_datagrams() ? IBV_QPS_RTS : IBV_QPS_INIT;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr;
    int mask = 0;
    id.home.attributes(id, state, attr, mask);
    if (const int failed = ibv_modify_qp(qp, &attr, mask)) return failed;
    if (state == last) break;
  }
  return 0;
}

bool differ(const ibv_cq* of_id, const ibv_cq* wanted) {
  return of_id != nullptr && wanted != nullptr && of_id != wanted;
}

}  // namespace

SOFT_NIC_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  return told(Id::of(id).home.attributes(Id::of(id), attr->qp_state, *attr, *mask));
}

SOFT_NIC_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
  if (id->qp != nullptr || id->verbs == nullptr) return told(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr->pd = id->pd;
  }
  if (attr->pd == nullptr || attr->pd->context->device != id->verbs->device) return told(EINVAL);
  if (differ(id->send_cq, attr->send_cq) || differ(id->recv_cq, attr->recv_cq)) {
    return told(EINVAL);
  }
  const bool no_send = attr->send_cq == nullptr && id->send_cq == nullptr;
  const bool no_receive = attr->recv_cq == nullptr && id->recv_cq == nullptr;
  bool made =
      add_queue(*id, no_receive ? attr->cap.max_recv_wr : 0, id->recv_cq_channel, id->recv_cq) &&
      add_queue(*id, no_send ? attr->cap.max_send_wr : 0, id->send_cq_channel, id->send_cq);
  if (attr->send_cq == nullptr) attr->send_cq = id->send_cq;
  if (attr->recv_cq == nullptr) attr->recv_cq = id->recv_cq;
  if (attr->srq == nullptr) attr->srq = id->srq;
  ibv_qp* qp = made ? ibv_create_qp_ex(attr->pd->context, attr) : nullptr;
  int failed = qp == nullptr ? errno : make_first(Id::of(id), qp);
  if (failed == 0) {
    id->qp = qp;
    id->pd = qp->pd;
    return 0;
  }
  if (qp != nullptr) ibv_destroy_qp(qp);
  remove_queues(*id);
  return told(failed);
}

SOFT_NIC_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex whole{};
  whole.qp_context = attr->qp_context;
  whole.send_cq = attr->send_cq;
  whole.recv_cq = attr->recv_cq;
  whole.srq = attr->srq;
  whole.cap = attr->cap;
  whole.qp_type = attr->qp_type;
  whole.sq_sig_all = attr->sq_sig_all;
  whole.comp_mask = pd != nullptr ? IBV_QP_INIT_ATTR_PD : 0;
  whole.pd = pd;
  const int result = rdma_create_qp_ex(id, &whole);
  attr->cap = whole.cap;
  return result;
}

SOFT_NIC_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
  if (id->qp != nullptr) ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  remove_queues(*id);
}

SOFT_NIC_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
  if (id->srq != nullptr || id->verbs == nullptr) return told(EINVAL);
  const bool plain =
      (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr->srq_type == IBV_SRQT_BASIC;
  if (!plain) return told(EOPNOTSUPP);
  ibv_pd* pd = (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 ? attr->pd : id->pd;
  if (pd == nullptr) return told(EINVAL);
  ibv_srq_init_attr wanted{attr->srq_context, attr->attr};
  id->srq = ibv_create_srq(pd, &wanted);
  if (id->srq == nullptr) return -1;
  attr->attr = wanted.attr;
  id->pd = pd;
  return 0;
}

SOFT_NIC_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex whole{};
  whole.srq_context = attr->srq_context;
  whole.attr = attr->attr;
  whole.comp_mask = pd != nullptr ? IBV_SRQ_INIT_ATTR_PD : 0;
  whole.pd = pd;
  const int result = rdma_create_srq_ex(id, &whole);
  attr->attr = whole.attr;
  return result;
}

SOFT_NIC_EXPORT void rdma_destroy_srq(rdma_cm_id* id) {
  if (id->srq != nullptr) ibv_destroy_srq(id->srq);
  id->srq = nullptr;
}
