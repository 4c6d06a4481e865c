#include "dataplane/cc/dcqcn.h"

#include <algorithm>
#include <cmath>

namespace understudy {
namespace {

// Quiet periods that are caught up with one by one, as an adapter would; beyond, by a power.
constexpr uint64_t kMostSteps = 1024;

/// Whole periods that have ended by `now`, the first at `next`.
uint64_t ended(Time next, Duration period, Time now) {
  return next > now ? 0 : static_cast<uint64_t>((now - next).ps() / period.ps()) + 1;
}

Time after(Time t, Duration period, uint64_t times) {
  return t + period * static_cast<int64_t>(times);
}

}  // namespace

Dcqcn::Dcqcn(const DcqcnParameters& parameters, const SenderPath& path)
    : RateController(path, parameters.min_rate, parameters.window),
      p_(parameters),
      alpha_(parameters.initial_alpha),
      target_(line_bps()) {}

void Dcqcn::on_ack(const AckHeard& ack) {
  if (ack.marked && p_.echo == DcqcnParameters::Echo::kAck) on_cnp(ack.at);
}

void Dcqcn::first_cnp(Time now) {
  alpha_ = p_.initial_alpha;
  next_alpha_ = now + p_.alpha_period;
  cut_clock_ = now;
  if (!p_.rate_to_set_on_first_cnp.is_unlimited()) {
    set_rate(bounded(p_.rate_to_set_on_first_cnp.bps()));
  }
  target_ = bps();
}

void Dcqcn::on_cnp(Time now) {
  advance(now);
  const bool first = next_alpha_.is_never();
  if (first) first_cnp(now);
  if (p_.decrease_period == Duration()) {
    advance_alpha(now);
    cut(now);
  } else if (next_cut_.is_never()) {
    const uint64_t periods = ended(cut_clock_ + p_.decrease_period, p_.decrease_period, now);
    cut_clock_ = after(cut_clock_, p_.decrease_period, periods);
    next_cut_ = cut_clock_ + p_.decrease_period;
  }
  if (p_.alpha_update == DcqcnParameters::AlphaUpdate::kCnp) {
    advance_alpha(now);
    alpha_ = (1 - p_.g) * alpha_ + p_.g;
    next_alpha_ = now + p_.alpha_period;
  } else if (!first) {
    // The first CNP has set alpha already.
    advance_alpha(now);
    cnp_since_alpha_ = true;
  }
}

void Dcqcn::on_sent(Time now, uint64_t bytes) {
  advance(now);
  if (p_.byte_counter == 0 || next_increase_.is_never()) return;
  byte_count_ += bytes;
  while (byte_count_ >= p_.byte_counter) {
    byte_count_ -= p_.byte_counter;
    increase();
    ++byte_stage_;
  }
}

Time Dcqcn::deadline() const { return limited() ? std::min(next_cut_, next_increase_) : next_cut_; }

void Dcqcn::advance(Time now) {
  for (Time due = deadline(); due <= now; due = deadline()) {
    // At one instant the increase comes first, as in HPCC's simulator, whose cut then stands.
    if (next_increase_ <= next_cut_ && limited()) {
      next_increase_ += p_.increase_period;
      increase();
      ++time_stage_;
    } else {
      advance_alpha(due);
      cut_clock_ = due;
      next_cut_ = Time::never();
      cut(due);
    }
  }
}

void Dcqcn::advance_alpha(Time now) {
  uint64_t periods = ended(next_alpha_, p_.alpha_period, now);
  if (periods == 0) return;
  next_alpha_ = after(next_alpha_, p_.alpha_period, periods);
  if (cnp_since_alpha_) {
    cnp_since_alpha_ = false;
    alpha_ = (1 - p_.g) * alpha_ + p_.g;
    --periods;
  }
  if (periods > kMostSteps) {
    alpha_ *= std::pow(1 - p_.g, static_cast<double>(periods));
  } else {
    for (; periods > 0; --periods) alpha_ = (1 - p_.g) * alpha_;
  }
}

void Dcqcn::cut(Time now) {
  const bool increased_by_time = p_.clamp_target_rate_after_time_inc && time_stage_ != 0;
  if (p_.clamp_target_rate || byte_stage_ != 0 || increased_by_time) target_ = bps();
  const double factor = std::max(1 - alpha_ / 2, p_.min_dec_fac);
  set_rate(bounded(static_cast<double>(bps()) * factor));
  time_stage_ = 0;
  byte_stage_ = 0;
  byte_count_ = 0;
  next_increase_ = now + p_.increase_period;
}

void Dcqcn::increase() {
  const bool counts_bytes = p_.byte_counter != 0;
  const uint64_t most = counts_bytes ? std::max(time_stage_, byte_stage_) : time_stage_;
  const uint64_t least = counts_bytes ? std::min(time_stage_, byte_stage_) : time_stage_;
  if (most >= p_.fast_recovery) {
    const Rate step = least > p_.fast_recovery ? p_.hyper_increase : p_.additive_increase;
    target_ = bounded(target_ + step.bps());
  }
  // Half up, so that the rate reaches its target.
  set_rate(bounded((bps() + target_ + 1) / 2));
}

}  // namespace understudy
