// OnlineEmulatedRanks: what emulated ranks say to one another, where the network carries it.
#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/collective/online_emulated_ranks.h"

namespace understudy {

void OnlineEmulatedRanks::count_late(OnlineOperation& op, Duration late) {
  if (late > Duration()) ++op.late_messages;
  op.late = std::max(op.late, late);
}

/// The operation that has this message of an inner connection; null: it is over.
OnlineOperation* OnlineEmulatedRanks::inner_operation(uint32_t inner, uint64_t message) const {
  for (uint64_t n = first_; n < known_; ++n) {
    OnlineOperation& op = *at(n);
    if (message < op.inner_base[inner]) return nullptr;
    if (message < op.inner_base[inner] + op.shape->inner_uses[inner].messages) return &op;
  }
  return nullptr;
}

void OnlineEmulatedRanks::take_inner(Time now, OnlineOperation& op, uint32_t inner,
                                     const PlanOutput& out) {
  if (out.kind == PlanOutput::Kind::kCredit) {
    return grant_inner(now, inner, op.inner_base[inner] + out.message + 1, out.time);
  }
  const Time earliest = std::max(out.time, op.noticed);
  const Duration late = earliest < now ? now - earliest : Duration();
  count_late(op, late);
  op.inner_late = std::max(op.inner_late, late);
  leaving_.push_back({std::max(now, out.time), cookie(WakeKind::kInnerData, inner)});
}

/// Grants credits of an inner connection up to `until`, at a time; ahead, as those of links.
void OnlineEmulatedRanks::grant_inner(Time now, uint32_t inner, uint64_t until, Time at) {
  for (Inner& i = inner_[inner]; i.granting < until; ++i.granting) {
    host_->wake_at(std::max(now, at), *this, cookie(WakeKind::kInnerCredit, inner));
  }
}

void OnlineEmulatedRanks::post_inner(Time now, uint32_t inner) {
  if (inner_ended_) return;
  const uint64_t message = inner_[inner].posted++;
  const OnlineOperation* op = inner_operation(inner, message);
  ASSERT_INVARIANT(op != nullptr);
  const RankSchedule& sender = *op->shape->ranks[job_.inner[inner].from];
  const uint64_t k = message - op->inner_base[inner];
  settings_.carrier->post(inner, sender.message(op->shape->inner_uses[inner].from, k).wire, now);
}

void OnlineEmulatedRanks::inner_received(uint32_t inner, Time now) {
  const uint64_t message = inner_[inner].received++;
  OnlineOperation* op = inner_operation(inner, message);
  if (op == nullptr || given_up_) return;
  // The first ones of an operation come, by credits that were granted ahead, to ranks that are still
  // in the one before.
  const uint64_t k = message - op->inner_base[inner];
  if (!tell_inner(now, *op, inner, k)) op->inner_put_off.emplace_back(inner, k);
  tell_put_off(now, *op);
  finish(now);
}

bool OnlineEmulatedRanks::tell_inner(Time now, OnlineOperation& op, uint32_t inner, uint64_t k) {
  if (!op.plan->on_real_data(job_.inner[inner].to, op.shape->inner_uses[inner].to, k, now)) {
    return false;
  }
  take(now, op, std::max(op.heard, op.inner_late));
  return true;
}

void OnlineEmulatedRanks::inner_reaches(uint32_t flow, Time at) {
  host_->wake_at(at, *this, cookie(WakeKind::kInnerReaches, flow));
}

void OnlineEmulatedRanks::inner_acknowledged(uint32_t inner, Time now) {
  const uint64_t message = inner_[inner].acknowledged++;
  OnlineOperation* op = inner_operation(inner, message);
  // The last ones of an operation that is over change nothing.
  if (op == nullptr || op->finished || given_up_) return;
  op->plan->on_acknowledged(job_.inner[inner].from, op->shape->inner_uses[inner].from,
                            message - op->inner_base[inner], now);
  take(now, *op, std::max(op->heard, op->inner_late));
  tell_put_off(now, *op);
  finish(now);
}

/// Once no operation follows, or nobody knows any more what they are: its timers need not go on.
void OnlineEmulatedRanks::end_inner() {
  if (inner_ended_ || settings_.carrier == nullptr) return;
  if (!given_up_ && finished_ < known_) return;
  inner_ended_ = true;
  settings_.carrier->close();
}

}  // namespace understudy
