#include "dataplane/cc/hpcc.h"

#include <algorithm>

namespace understudy {

Hpcc::Hpcc(const HpccParameters& parameters, const SenderPath& path)
    : RateController(path, parameters.min_rate, parameters.window),
      p_(parameters),
      round_trip_ps_(static_cast<double>(std::max<int64_t>(path.base_rtt.ps(), 1))),
      reference_(bps()) {}

bool Hpcc::same_path(std::span<const IntHop> hops) const {
  if (hops.size() != noted_count_) return false;
  for (size_t i = 0; i < hops.size(); ++i) {
    if (hops[i].tx_bytes < noted_[i].tx_bytes || hops[i].at < noted_[i].at) return false;
  }
  return true;
}

void Hpcc::note(std::span<const IntHop> hops) {
  noted_count_ = hops.size();
  for (size_t i = 0; i < hops.size(); ++i) {
    noted_[i] = {hops[i].at, hops[i].tx_bytes, hops[i].queue_bytes};
  }
}

/// False if no time has passed at any hop.
bool Hpcc::measure(std::span<const IntHop> hops) {
  double most = -1;
  double most_ps = 0;
  for (size_t i = 0; i < hops.size(); ++i) {
    const IntHop& hop = hops[i];
    const Noted& before = noted_[i];
    const auto ps = static_cast<double>((hop.at - before.at).ps());
    if (ps <= 0 || hop.rate.is_unlimited()) continue;
    const auto bytes_per_ps =
        static_cast<double>(hop.rate.bps()) / static_cast<double>(Rate::kPsBitsPerByte);
    const double sent = static_cast<double>(hop.tx_bytes - before.tx_bytes) / (ps * bytes_per_ps);
    const double queue = static_cast<double>(std::min(hop.queue_bytes, before.queue_bytes)) /
                         (round_trip_ps_ * bytes_per_ps);
    if (sent + queue > most) {
      most = sent + queue;
      most_ps = ps;
    }
  }
  note(hops);
  if (most < 0) return false;
  const double weight = std::min(most_ps, round_trip_ps_) / round_trip_ps_;
  utilisation_ = (1 - weight) * utilisation_ + weight * most;
  return true;
}

void Hpcc::on_ack(const AckHeard& ack) {
  const auto hops = ack.hops.first(std::min(ack.hops.size(), kMostHops));
  if (hops.empty()) return;
  if (first_ || !same_path(hops)) {
    note(hops);
    if (first_) update_at_ = ack.sent;
    first_ = false;
    return;
  }
  const bool window_passed = ack.acked > update_at_;
  if (!window_passed && !p_.fast_react) return;
  if (window_passed) update_at_ = ack.sent;
  if (!measure(hops)) return;
  const double over = utilisation_ / p_.target_utilisation;
  const auto step = static_cast<double>(p_.additive_increase.bps());
  const bool multiply = over >= 1 || stage_ >= p_.max_stage;
  const auto reference = static_cast<double>(reference_);
  // A path found idle gives infinity here, which is the line rate.
  set_rate(bounded((multiply ? reference / over : reference) + step));
  if (!window_passed) return;
  reference_ = bps();
  stage_ = multiply ? 0 : stage_ + 1;
}

}  // namespace understudy
