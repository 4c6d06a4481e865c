// Verbs: completion queues, their channels, and asynchronous events.
#include <infiniband/verbs.h>

#include <cerrno>
#include <new>

#include "tools/soft_nic/base/device_limits.h"
#include "tools/soft_nic/device/completion_queue.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/exported.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/operations.h"
#include "tools/soft_nic/device/queue_pair.h"

using namespace understudy;
using namespace understudy::soft_nic;

namespace understudy::soft_nic {

int poll_cq(ibv_cq* cq, int most, ibv_wc* out) {
  CompletionQueue& queue = CompletionQueue::of(cq);
  if (queue.count.load(std::memory_order_relaxed) == 0) {
    queue.nic.try_progress();
    if (queue.count.load(std::memory_order_relaxed) == 0) return queue.overrun ? -1 : 0;
  }
  const std::lock_guard lock(queue.nic.mutex());
  return queue.pop(most, out);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  CompletionQueue& queue = CompletionQueue::of(cq);
  if (cq->channel == nullptr) return EINVAL;
  const std::lock_guard lock(queue.nic.mutex());
  queue.arm(solicited_only != 0);
  queue.nic.end_polling();
  return 0;
}

namespace {

/// Waits until `done` events have been acknowledged, as ibv_destroy_*(3) say. `mutex` and `cond`
/// are the object's.
void wait_for(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& done, uint32_t raised) {
  pthread_mutex_lock(&mutex);
  while (done != raised) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace
}  // namespace understudy::soft_nic

SOFT_NIC_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* channel = new (std::nothrow) Channel;
  if (channel == nullptr || channel->events.fd() < 0) {
    delete channel;
    errno = EMFILE;
    return nullptr;
  }
  channel->ibv.context = context;
  channel->ibv.fd = channel->events.fd();
  return &channel->ibv;
}

SOFT_NIC_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  {
    const std::lock_guard lock(Context::of(channel->context).nic.mutex());
    if (channel->refcnt != 0) return EBUSY;
  }
  delete reinterpret_cast<Channel*>(channel);
  return 0;
}

SOFT_NIC_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                                      ibv_comp_channel* channel, int vector) {
  if (entries < 1 || entries > kMaxCqEntries || vector < 0 || vector >= context->num_comp_vectors) {
    errno = EINVAL;
    return nullptr;
  }
  Nic& nic = Context::of(context).nic;
  CompletionQueue* queue = nullptr;
  try {
    queue = new CompletionQueue(nic, static_cast<uint32_t>(entries));
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_cq& cq = queue->ibv;
  cq.context = context;
  cq.channel = channel;
  cq.cq_context = cq_context;
  cq.cqe = entries;
  pthread_mutex_init(&cq.mutex, nullptr);
  pthread_cond_init(&cq.cond, nullptr);
  if (channel != nullptr) {
    const std::lock_guard lock(nic.mutex());
    ++channel->refcnt;
  }
  return &cq;
}

SOFT_NIC_EXPORT int ibv_resize_cq(ibv_cq* cq, int entries) {
  CompletionQueue& queue = CompletionQueue::of(cq);
  if (entries < 1 || entries > kMaxCqEntries) return EINVAL;
  const std::lock_guard lock(queue.nic.mutex());
  try {
    if (!queue.resize(static_cast<uint32_t>(entries))) return EINVAL;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  cq->cqe = entries;
  return 0;
}

SOFT_NIC_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  CompletionQueue& queue = CompletionQueue::of(cq);
  {
    const std::lock_guard lock(queue.nic.mutex());
    if (queue.users != 0) return EBUSY;
    if (cq->channel != nullptr) --cq->channel->refcnt;
  }
  // Events that nobody took count as acknowledged: they are taken back.
  uint32_t taken_back = 0;
  if (cq->channel != nullptr) {
    reinterpret_cast<Channel*>(cq->channel)->events.forget([&](const ibv_cq* of) {
      taken_back += of == cq ? 1 : 0;
      return of == cq;
    });
  }
  Context::of(cq->context).events.forget([&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
  });
  wait_for(cq->mutex, cq->cond, cq->comp_events_completed, queue.events_raised - taken_back);
  pthread_mutex_destroy(&cq->mutex);
  pthread_cond_destroy(&cq->cond);
  delete &queue;
  return 0;
}

SOFT_NIC_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (!reinterpret_cast<Channel*>(channel)->events.pop(*cq)) return -1;
  *cq_context = (*cq)->cq_context;
  return 0;
}

SOFT_NIC_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

SOFT_NIC_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return Context::of(context).events.pop(*event) ? 0 : -1;
}

SOFT_NIC_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp* qp = event->element.qp;
      pthread_mutex_lock(&qp->mutex);
      ++qp->events_completed;
      pthread_cond_signal(&qp->cond);
      pthread_mutex_unlock(&qp->mutex);
      return;
    }
    default:
      return;  // of queues that do not wait for it
  }
}
