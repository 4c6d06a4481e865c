// Verbs: posting work, by the operation tables.
#include <infiniband/verbs.h>

#include <cerrno>

#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/operations.h"
#include "tools/soft_nic/device/queue_pair.h"

namespace understudy::soft_nic {

int post_send(ibv_qp* handle, ibv_send_wr* request, ibv_send_wr** bad) {
  QueuePair& qp = QueuePair::of(handle);
  Nic& nic = qp.nic();
  const std::lock_guard lock(nic.mutex());
  int failed = 0;
  for (; request != nullptr && failed == 0; request = request->next) {
    failed = qp.post_send(*request);
    if (failed != 0 && bad != nullptr) *bad = request;
  }
  const Time now = nic.now();
  nic.touch(qp, now);
  nic.send_posted(qp, now);
  return failed;
}

int post_recv(ibv_qp* handle, ibv_recv_wr* request, ibv_recv_wr** bad) {
  QueuePair& qp = QueuePair::of(handle);
  const std::lock_guard lock(qp.nic().mutex());
  for (; request != nullptr; request = request->next) {
    const int failed = qp.post_receive(*request);
    if (failed == 0) continue;
    if (bad != nullptr) *bad = request;
    return failed;
  }
  return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
  auto& shared = *reinterpret_cast<SharedReceives*>(srq);
  const std::lock_guard lock(Context::of(srq->context).nic.mutex());
  for (; request != nullptr; request = request->next) {
    const int failed =
        request->num_sge < 0
            ? EINVAL
            : shared.queue.post(request->wr_id,
                                {request->sg_list, static_cast<size_t>(request->num_sge)});
    if (failed == 0) continue;
    if (bad != nullptr) *bad = request;
    return failed;
  }
  return 0;
}

}  // namespace understudy::soft_nic
