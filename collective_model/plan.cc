#include "collective_model/plan.h"

#include <algorithm>
#include <string>
#include <utility>

namespace understudy {

Result<RingPlan> RingPlan::make(RingPlanConfig config) {
  const uint32_t n = config.schedule.ranks();
  if (n < 2) return fail("ring plan: ranks: a ring needs at least 2, got " + std::to_string(n));
  if (config.hops.size() != n) {
    return fail("ring plan: hops: " + std::to_string(config.hops.size()) + " given for " +
                std::to_string(n) + " ranks");
  }
  if (config.entry_delay.empty()) config.entry_delay.resize(n);
  if (config.entry_delay.size() != n) {
    return fail("ring plan: entry_delay: " + std::to_string(config.entry_delay.size()) +
                " given for " + std::to_string(n) + " ranks");
  }
  if (config.wire.mtu == 0) return fail("ring plan: wire.mtu: must not be 0");
  for (const uint32_t rank : config.real) {
    if (rank >= n) {
      return fail("ring plan: real: rank " + std::to_string(rank) + " of " + std::to_string(n));
    }
  }
  return RingPlan(std::move(config));
}

RingPlan::RingPlan(RingPlanConfig config)
    : config_(std::move(config)), is_real_(config_.schedule.ranks(), 0) {
  for (const uint32_t rank : config_.real) is_real_[rank] = 1;
}

PlanRun::PlanRun(uint32_t max_ranks)
    : ranks_(max_ranks), work_(max_ranks), outputs_(size_t{2} * kWindow * max_ranks) {}

void PlanRun::reset(const RingPlan& plan, Time entry) {
  const bool first = plan_ == nullptr || plan_->ranks() != plan.ranks();
  plan_ = &plan;
  unfinished_ = 0;
  work_size_ = 0;
  output_head_ = 0;
  output_count_ = 0;
  for (uint32_t r = 0; r < plan.ranks(); ++r) {
    const Time free = first ? kLongBefore : ranks_[r].now;
    ranks_[r] = Rank{};
    ranks_[r].now = std::max(entry + plan.entry_delay(r), free);
    ranks_[r].wire_free = kLongBefore;
  }
  const uint32_t messages = plan.schedule().messages();
  if (messages == 0) return;
  for (uint32_t r = 0; r < plan.ranks(); ++r) {
    if (plan.is_real(r)) continue;
    ++unfinished_;
    const Time granted = plan.credits_preposted() ? kLongBefore : ranks_[r].now;
    for (uint32_t m = 0; m < std::min(messages, kWindow); ++m) grant(r, m, granted);
    wake(r);
  }
  settle();
}

bool PlanRun::on_real_data(uint32_t rank, uint32_t m, Time t) {
  if (plan_ == nullptr || rank >= plan_->ranks() || !plan_->is_real(rank)) return false;
  const uint32_t receiver = plan_->next(rank);
  Rank& s = ranks_[receiver];
  if (plan_->is_real(receiver) || m != s.received || m >= s.taken_credits) return false;
  s.arrival[m % kWindow] = t;
  ++s.received;
  wake(receiver);
  settle();
  return true;
}

bool PlanRun::on_env_acked(uint32_t rank, uint32_t m, Time t) {
  if (plan_ == nullptr || rank >= plan_->ranks() || plan_->is_real(rank)) return false;
  if (!plan_->is_real(plan_->next(rank))) return false;
  Rank& s = ranks_[rank];
  if (m < s.acked || m >= s.taken_data) return false;
  while (s.acked <= m) s.ack[s.acked++ % kWindow] = t;
  wake(rank);
  settle();
  return true;
}

bool PlanRun::next(PlanOutput& out) {
  if (output_count_ == 0) return false;
  out = outputs_[output_head_];
  output_head_ = output_head_ + 1 == outputs_.size() ? 0 : output_head_ + 1;
  --output_count_;
  Rank& s = ranks_[out.rank];
  ++(out.kind == PlanOutput::Kind::kData ? s.taken_data : s.taken_credits);
  return true;
}

Time PlanRun::completion(uint32_t rank) const {
  const Rank& s = ranks_[rank];
  return s.loop_base < plan_->schedule().messages() ? Time::never() : s.now;
}

void PlanRun::wake(uint32_t rank) {
  if (ranks_[rank].queued) return;
  ranks_[rank].queued = true;
  work_[work_size_++] = rank;
}

void PlanRun::settle() {
  while (work_size_ > 0) {
    const uint32_t rank = work_[--work_size_];
    ranks_[rank].queued = false;
    advance(rank);
  }
}

void PlanRun::advance(uint32_t rank) {
  Rank& s = ranks_[rank];
  const bool to_real = plan_->is_real(plan_->next(rank));
  bool moved = true;
  while (moved) {
    moved = false;
    while (operate(rank)) moved = true;
    if (to_real) return;  // the fabric and the transport send
    // Between emulated ranks the acknowledgement is known as soon as the start is: `acked` is the
    // number of messages sent.
    while (s.acked < s.processed && s.acked < s.credits) {
      send(rank);
      moved = true;
    }
  }
}

bool PlanRun::operate(uint32_t rank) {
  Rank& s = ranks_[rank];
  const uint32_t sends = plan_->schedule().messages_per_loop();
  if (s.loop_base == plan_->schedule().messages()) return false;
  const bool uses = s.op >= RingSchedule::kSlices;
  const bool produces = s.op < sends;
  const uint32_t in = s.loop_base + s.op - RingSchedule::kSlices;
  const uint32_t out = s.loop_base + s.op;
  Time t = s.now;
  if (uses) {
    if (in >= s.received) return false;
    t = std::max(t, s.arrival[in % kWindow] + plan_->step_cost());
  }
  if (produces && out >= kWindow) {
    if (out - kWindow >= s.acked) return false;
    t = std::max(t, s.ack[out % kWindow]);
  }
  s.now = t;
  if (++s.op == sends + RingSchedule::kSlices) {
    s.op = 0;
    s.loop_base += sends;
    if (s.loop_base == plan_->schedule().messages()) --unfinished_;
  }
  if (produces) {
    s.process[out % kWindow] = t;
    ++s.processed;
    if (plan_->is_real(plan_->next(rank))) emit(PlanOutput::Kind::kData, rank, out, t);
  }
  if (uses && in + kWindow < plan_->schedule().messages()) grant(rank, in + kWindow, t);
  return true;
}

void PlanRun::send(uint32_t rank) {
  Rank& s = ranks_[rank];
  const uint32_t m = s.acked;
  const Time start = std::max({s.process[m % kWindow], s.wire_free, s.credit[m % kWindow]});
  s.wire_free = start + wire_time(rank, m);
  const Duration latency = plan_->hop(rank).latency;
  s.ack[m % kWindow] = s.wire_free + latency * 2;
  ++s.acked;
  const uint32_t receiver = plan_->next(rank);
  Rank& r = ranks_[receiver];
  r.arrival[m % kWindow] = s.wire_free + latency;
  ++r.received;
  wake(receiver);
}

Duration PlanRun::wire_time(uint32_t rank, uint32_t m) {
  // Nearly all messages of a rank have the size of the one before them with the same slice, and
  // the division costs more than the rest of the evaluation.
  Rank& s = ranks_[rank];
  const RingMessage message = plan_->schedule().sent(rank, m);
  if (m < RingSchedule::kSlices || s.wire_size[message.slice] != message.size) {
    s.wire_size[message.slice] = message.size;
    s.wire_time[message.slice] = plan_->hop(rank).rate.time_for(plan_->wire().bytes(message.size));
  }
  return s.wire_time[message.slice];
}

void PlanRun::grant(uint32_t rank, uint32_t m, Time t) {
  const uint32_t sender = plan_->previous(rank);
  if (plan_->is_real(sender)) {
    emit(PlanOutput::Kind::kCredit, rank, m, t);
    return;
  }
  Rank& s = ranks_[sender];
  s.credit[m % kWindow] = t + plan_->hop(sender).latency;
  ++s.credits;
  wake(sender);
}

void PlanRun::emit(PlanOutput::Kind kind, uint32_t rank, uint32_t m, Time t) {
  // Room is certain: inputs count only for outputs that were taken, so at most kWindow of each
  // kind wait per boundary, and there are at most ranks/2 boundaries.
  size_t slot = output_head_ + output_count_;
  if (slot >= outputs_.size()) slot -= outputs_.size();
  const uint32_t sender = kind == PlanOutput::Kind::kData ? rank : plan_->previous(rank);
  outputs_[slot] = {kind, rank, m, plan_->schedule().size(sender, m), t};
  ++output_count_;
}

}  // namespace understudy
