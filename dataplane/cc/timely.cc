#include "dataplane/cc/timely.h"

#include <algorithm>

namespace understudy {

Timely::Timely(const TimelyParameters& parameters, const SenderPath& path)
    : RateController(path, parameters.min_rate, parameters.window), p_(parameters) {}

void Timely::on_ack(const AckHeard& ack) {
  if (!first_ && ack.acked <= update_at_) return;
  const auto rtt_ps = static_cast<double>(ack.rtt.ps());
  if (!first_) update(rtt_ps);
  first_ = false;
  update_at_ = ack.sent;
  last_rtt_ps_ = rtt_ps;
}

void Timely::update(double rtt_ps) {
  const auto low = static_cast<double>(p_.t_low.ps());
  const auto high = static_cast<double>(p_.t_high.ps());
  difference_ps_ = (1 - p_.ewma_gain) * difference_ps_ + p_.ewma_gain * (rtt_ps - last_rtt_ps_);
  const double gradient = difference_ps_ / static_cast<double>(p_.min_rtt.ps());
  if (rtt_ps < low || (rtt_ps <= high && gradient <= 0)) {
    const Rate step = increases_ < p_.hyper_after ? p_.additive_increase : p_.hyper_increase;
    increases_ = std::min(increases_ + 1, p_.hyper_after);
    set_rate(bounded(bps() + step.bps()));
    return;
  }
  increases_ = 0;
  const double excess = rtt_ps > high ? 1 - high / rtt_ps : gradient;
  set_rate(bounded(static_cast<double>(bps()) * std::max(0.0, 1 - p_.beta * excess)));
}

}  // namespace understudy
