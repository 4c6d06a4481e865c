#include "dataplane/cc/swift.h"

#include <algorithm>
#include <cmath>

namespace understudy {

Swift::Swift(const SwiftParameters& parameters, const SenderPath& path)
    : Controller(path.line), p_(parameters), path_(path) {
  const double small = 1 / std::sqrt(p_.flow_scaling_min_cwnd);
  const double large = 1 / std::sqrt(p_.flow_scaling_max_cwnd);
  flow_alpha_ps_ = static_cast<double>(p_.flow_scaling_range.ps()) / (small - large);
  flow_beta_ps_ = -flow_alpha_ps_ * large;
  const auto base_rtt_ps = static_cast<double>(path.base_rtt.ps());
  const double packet_ps = static_cast<double>(path.packet_bytes) *
                           static_cast<double>(Rate::kPsBitsPerByte) /
                           static_cast<double>(path.line.bps());
  cwnd_ = std::clamp(base_rtt_ps / packet_ps, p_.min_cwnd, p_.max_cwnd);
  apply(base_rtt_ps);
}

double Swift::target_ps(unsigned switches) const {
  const double flow = flow_alpha_ps_ / std::sqrt(cwnd_) + flow_beta_ps_;
  return static_cast<double>(p_.base_target.ps()) +
         static_cast<double>(p_.hop_target.ps()) * switches +
         std::clamp(flow, 0.0, static_cast<double>(p_.flow_scaling_range.ps()));
}

void Swift::on_ack(const AckHeard& ack) {
  const auto rtt_ps = static_cast<double>(ack.rtt.ps());
  const double target = target_ps(ack.switches);
  const double before = cwnd_;
  if (rtt_ps < target) {
    const double packets =
        static_cast<double>(ack.newly_acked) / static_cast<double>(path_.packet_bytes);
    cwnd_ += p_.additive_increase * packets / std::max(cwnd_, 1.0);
  } else if (!decreased_ || ack.at - last_decrease_ >= ack.rtt) {
    cwnd_ *= std::max(1 - p_.beta * (rtt_ps - target) / rtt_ps, 1 - p_.max_mdf);
  }
  cwnd_ = std::clamp(cwnd_, p_.min_cwnd, p_.max_cwnd);
  if (cwnd_ < before) {
    decreased_ = true;
    last_decrease_ = ack.at;
  }
  apply(rtt_ps);
}

void Swift::apply(double rtt_ps) {
  const auto packet = static_cast<double>(path_.packet_bytes);
  if (cwnd_ >= 1) {
    rate_ = path_.line;
    window_ = static_cast<uint64_t>((cwnd_ - 1) * packet) + 1;
    return;
  }
  const double bps =
      cwnd_ * packet * static_cast<double>(Rate::kPsBitsPerByte) / std::max(rtt_ps, 1.0);
  rate_ = Rate::bits_per_second(
      static_cast<uint64_t>(std::clamp(bps, 1.0, static_cast<double>(path_.line.bps()))));
  window_ = 1;
}

}  // namespace understudy
