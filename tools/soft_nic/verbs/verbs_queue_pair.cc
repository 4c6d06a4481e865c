// Verbs: queue pairs and shared receive queues.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "tools/soft_nic/base/device_limits.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/objects.h"
#include "tools/soft_nic/device/operations.h"
#include "tools/soft_nic/device/queue_pair.h"

using namespace understudy;
using namespace understudy::soft_nic;

namespace {

constexpr uint64_t kKnownPosts = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;

template <typename T>
T* refused(int error) {
  errno = error;
  return nullptr;
}

bool within_limits(const ibv_qp_cap& cap) {
  return cap.max_send_wr <= kMaxQpWork && cap.max_recv_wr <= kMaxQpWork &&
         cap.max_send_sge <= kMaxPieces && cap.max_recv_sge <= kMaxPieces &&
         cap.max_inline_data <= kMaxInline;
}

void use_queues(QueuePair& qp, ibv_pd* pd, uint32_t by) {
  const ibv_qp_init_attr& made = qp.created_with();
  Domain::of(pd).users += by;
  CompletionQueue::of(made.send_cq).users += by;
  CompletionQueue::of(made.recv_cq).users += by;
  if (made.srq != nullptr) reinterpret_cast<SharedReceives*>(made.srq)->users += by;
}

}  // namespace

SOFT_NIC_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  const ibv_qp_type type = attr->qp_type;
  if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_UD) {
    return refused<ibv_qp>(EOPNOTSUPP);
  }
  if (attr->send_cq == nullptr || attr->recv_cq == nullptr || !within_limits(attr->cap)) {
    return refused<ibv_qp>(EINVAL);
  }
  // Some programs (rdma_xclient) count on this much without asking, which devices and rxe have.
  attr->cap.max_inline_data =
      std::max<uint32_t>(attr->cap.max_inline_data, attr->cap.max_send_sge * sizeof(ibv_sge));
  Nic& nic = Context::of(pd->context).nic;
  std::unique_ptr<QueuePair> made;
  try {
    made = std::make_unique<QueuePair>(nic, *attr, pd->handle);
  } catch (const std::bad_alloc&) {
    return refused<ibv_qp>(ENOMEM);
  }
  ibv_qp* qp = made->handle();
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->srq = attr->srq;
  qp->qp_type = attr->qp_type;
  qp->state = IBV_QPS_RESET;
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  const std::lock_guard lock(nic.mutex());
  if (!nic.add(*made)) return refused<ibv_qp>(ENOMEM);
  qp->handle = qp->qp_num;
  use_queues(*made, pd, 1);
  return made.release()->handle();
}

SOFT_NIC_EXPORT int ibv_destroy_qp(ibv_qp* handle) {
  QueuePair& qp = QueuePair::of(handle);
  Context& context = Context::of(handle->context);
  uint32_t raised = 0;
  {
    const std::lock_guard lock(qp.nic().mutex());
    qp.nic().remove(qp);
    CompletionQueue::of(handle->send_cq).forget(qp.number());
    CompletionQueue::of(handle->recv_cq).forget(qp.number());
    use_queues(qp, handle->pd, static_cast<uint32_t>(-1));
    raised = qp.events_raised;
  }
  // Events that nobody took count as acknowledged; the others are waited for (ibv_destroy_qp(3)).
  context.events.forget([&](const ibv_async_event& event) {
    const bool of_it = event.event_type != IBV_EVENT_CQ_ERR &&
                       event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED &&
                       event.element.qp == handle;
    raised -= of_it ? 1 : 0;
    return of_it;
  });
  pthread_mutex_lock(&handle->mutex);
  while (handle->events_completed != raised) pthread_cond_wait(&handle->cond, &handle->mutex);
  pthread_mutex_unlock(&handle->mutex);
  pthread_mutex_destroy(&handle->mutex);
  pthread_cond_destroy(&handle->cond);
  delete &qp;
  return 0;
}

SOFT_NIC_EXPORT int ibv_modify_qp(ibv_qp* handle, ibv_qp_attr* attr, int mask) {
  QueuePair& qp = QueuePair::of(handle);
  Nic& nic = qp.nic();
  std::unique_lock lock(nic.mutex());
  if (const int refused = qp.check_modify(*attr, mask)) return refused;
  MacAddress mac;
  if ((mask & IBV_QP_AV) != 0) {
    const auto found = nic.resolve(IpAddress::v6_bytes(attr->ah_attr.grh.dgid.raw), lock);
    if (!found) return ETIMEDOUT;
    mac = *found;
    if (const int refused = qp.check_modify(*attr, mask)) return refused;  // it let go of the lock
  }
  const int failed = qp.modify(*attr, mask, mac);
  const Time now = nic.now();
  nic.touch(qp, now);
  nic.send(now);
  return failed;
}

SOFT_NIC_EXPORT int ibv_query_qp(ibv_qp* handle, ibv_qp_attr* attr, int, ibv_qp_init_attr* made) {
  QueuePair& qp = QueuePair::of(handle);
  const std::lock_guard lock(qp.nic().mutex());
  *attr = qp.attributes();
  attr->cur_qp_state = attr->qp_state;
  attr->port_num = 1;
  *made = qp.created_with();
  return 0;
}

SOFT_NIC_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* handle) {
  ibv_qp_ex* extended = QueuePair::of(handle).extended();
  return extended->wr_start != nullptr ? extended : nullptr;
}

namespace understudy::soft_nic {

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attr) {
  constexpr uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr->comp_mask & ~kKnown) != 0) return refused<ibv_qp>(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return refused<ibv_qp>(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0) {
    return refused<ibv_qp>(EOPNOTSUPP);
  }
  const bool posts = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (posts && (attr->send_ops_flags & ~kKnownPosts) != 0) return refused<ibv_qp>(EOPNOTSUPP);
  ibv_qp_init_attr plain{};
  plain.qp_context = attr->qp_context;
  plain.send_cq = attr->send_cq;
  plain.recv_cq = attr->recv_cq;
  plain.srq = attr->srq;
  plain.cap = attr->cap;
  plain.qp_type = attr->qp_type;
  plain.sq_sig_all = attr->sq_sig_all;
  ibv_qp* made = ibv_create_qp(attr->pd, &plain);
  attr->cap = plain.cap;
  if (made != nullptr && posts) fill_post_operations(*QueuePair::of(made).extended());
  return made;
}

}  // namespace understudy::soft_nic

SOFT_NIC_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (attr->attr.max_wr == 0 || attr->attr.max_wr > kMaxQpWork || attr->attr.max_sge > kMaxPieces) {
    return refused<ibv_srq>(EINVAL);
  }
  SharedReceives* made = nullptr;
  try {
    made = new SharedReceives(attr->attr.max_wr, attr->attr.max_sge);
  } catch (const std::bad_alloc&) {
    return refused<ibv_srq>(ENOMEM);
  }
  made->ibv.context = pd->context;
  made->ibv.srq_context = attr->srq_context;
  made->ibv.pd = pd;
  pthread_mutex_init(&made->ibv.mutex, nullptr);
  pthread_cond_init(&made->ibv.cond, nullptr);
  const std::lock_guard lock(Context::of(pd->context).nic.mutex());
  ++Domain::of(pd).users;
  return &made->ibv;
}

SOFT_NIC_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if ((mask & ~IBV_SRQ_LIMIT) != 0) return EOPNOTSUPP;
  auto& shared = *reinterpret_cast<SharedReceives*>(srq);
  const std::lock_guard lock(Context::of(srq->context).nic.mutex());
  if (attr->srq_limit > shared.queue.entries()) return EINVAL;
  shared.limit = attr->srq_limit;
  return 0;
}

SOFT_NIC_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  auto& shared = *reinterpret_cast<SharedReceives*>(srq);
  const std::lock_guard lock(Context::of(srq->context).nic.mutex());
  *attr = {shared.queue.entries(), shared.pieces, shared.limit};
  return 0;
}

SOFT_NIC_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  auto* shared = reinterpret_cast<SharedReceives*>(srq);
  Context& context = Context::of(srq->context);
  {
    const std::lock_guard lock(context.nic.mutex());
    if (shared->users != 0) return EBUSY;
    --Domain::of(srq->pd).users;
  }
  context.events.forget([&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq;
  });
  pthread_mutex_destroy(&srq->mutex);
  pthread_cond_destroy(&srq->cond);
  delete shared;
  return 0;
}
