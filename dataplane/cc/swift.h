// Swift (Kumar et al., SIGCOMM 2020): a window in packets that follows a target delay, and pacing
// below one packet.
#pragma once

#include "dataplane/cc/parameters.h"
#include "dataplane/cc/rate_controller.h"

namespace understudy {

/// The controller of the paper's fabric window on the whole round trip: emulated hosts answer at
/// once, so there is no end-host delay to tell apart. Nothing is heard of losses here. Starts with
/// a window of line rate times base round trip. rate() is the line rate from one packet on; below,
/// `cwnd` packets per round trip, at least 1 bit/s. window() lets a full packet start only if the
/// whole of it fits, and one always.
class Swift : public Controller {
 public:
  Swift(const SwiftParameters& parameters, const SenderPath& path);
  void on_ack(const AckHeard& ack) override;

  double cwnd() const { return cwnd_; }  ///< packets
  /// For a packet that crossed so many switches, with the present window; ps.
  double target_ps(unsigned switches) const;

 private:
  void apply(double rtt_ps);

  const SwiftParameters p_;
  const SenderPath path_;
  double flow_alpha_ps_;  ///< flow scaling adds alpha / sqrt(cwnd) + beta
  double flow_beta_ps_;
  double cwnd_;
  bool decreased_ = false;
  Time last_decrease_;
};

}  // namespace understudy
