#include "dataplane/cc/dctcp.h"

#include <algorithm>

namespace understudy {
namespace {

/// One packet per base round trip, in bit/s.
uint64_t packet_per_round_trip(const SenderPath& path) {
  const auto ps = static_cast<uint64_t>(std::max<int64_t>(path.base_rtt.ps(), 1));
  const auto bps = static_cast<unsigned __int128>(path.packet_bytes) * Rate::kPsBitsPerByte / ps;
  return static_cast<uint64_t>(std::min<unsigned __int128>(bps, path.line.bps()));
}

}  // namespace

Dctcp::Dctcp(const DctcpParameters& parameters, const SenderPath& path)
    : RateController(path, parameters.min_rate, parameters.window),
      p_(parameters),
      step_(p_.additive_increase.is_unlimited() ? packet_per_round_trip(path)
                                                : p_.additive_increase.bps()) {}

void Dctcp::on_ack(const AckHeard& ack) {
  acked_ += ack.newly_acked;
  if (ack.marked) marked_ += ack.newly_acked;
  const bool window_passed = first_ || ack.acked > window_end_;
  if (window_passed) {
    // What the first acknowledgement told counts to the first whole window.
    if (!first_ && acked_ != 0) {
      alpha_ =
          (1 - p_.g) * alpha_ + p_.g * (static_cast<double>(marked_) / static_cast<double>(acked_));
      acked_ = 0;
      marked_ = 0;
    }
    first_ = false;
    window_end_ = ack.sent;
  }
  if (reduced_ && ack.acked > reduced_end_) reduced_ = false;
  if (ack.marked && !reduced_) {
    set_rate(bounded(static_cast<double>(bps()) * (1 - alpha_ / 2)));
    reduced_ = true;
    reduced_end_ = ack.sent;
  }
  if (window_passed && !reduced_) set_rate(bounded(bps() + step_));
}

}  // namespace understudy
