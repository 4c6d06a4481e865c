#include "dataplane/engine/send/held_posts.h"

namespace understudy {

HeldPosts::HeldPosts(ShardState& state)
    : limits_(state.config.limits),
      events_(state.events),
      qps_(state.qps),
      held_(limits_.empty() ? 0 : state.config.packets),
      waiting_(limits_.empty() ? 0 : state.config.queue_pairs) {}

bool HeldPosts::hold(uint32_t slot, const WorkRequest& request, Time until) {
  const Qp& qp = *qps_[slot].qp;
  if (qp.outstanding() + waiting_[slot] >= qp.config().send_queue) return false;
  ++waiting_[slot];
  events_.push(until, EventKind::kPost, held_.put({request, slot, qps_[slot].generation}));
  return true;
}

uint32_t HeldPosts::on_due(uint32_t index, Time now) {
  const Held held = held_.take(index);
  --waiting_[held.slot];
  const QpSlot& slot = qps_[held.slot];
  if (slot.qp == nullptr || slot.generation != held.generation) return kNoSlot;
  if (slot.qp->post(held.request)) return held.slot;
  qps_.rest(held.slot).endpoint->on_completed(now, *slot.qp, held.request.id, WorkStatus::kFlushed);
  return kNoSlot;
}

}  // namespace understudy
