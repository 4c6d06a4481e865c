// DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) as a rate with a window: alpha follows the share
// of marked bytes, a mark cuts by alpha / 2 once per window, a window without a cut adds a step.
#pragma once

#include "dataplane/cc/parameters.h"
#include "dataplane/cc/rate_controller.h"

namespace understudy {

/// Starts at line rate, with alpha 1: the first mark halves the rate. The first acknowledgement
/// only begins a window.
class Dctcp : public RateController {
 public:
  Dctcp(const DctcpParameters& parameters, const SenderPath& path);
  void on_ack(const AckHeard& ack) override;

  double alpha() const { return alpha_; }

 private:
  const DctcpParameters p_;
  const uint64_t step_;  ///< bit/s
  double alpha_ = 1;
  bool first_ = true;
  uint64_t window_end_ = 0;          ///< the next window begins when more than this is acknowledged
  uint64_t acked_ = 0, marked_ = 0;  ///< bytes in this window
  bool reduced_ = false;             ///< until more than reduced_end_ is acknowledged
  uint64_t reduced_end_ = 0;
};

}  // namespace understudy
