// TIMELY (Mittal et al., SIGCOMM 2015): a rate that follows the gradient of the round-trip time.
#pragma once

#include "dataplane/cc/parameters.h"
#include "dataplane/cc/rate_controller.h"

namespace understudy {

/// One update per window of data: at the first acknowledgement of something sent after the last
/// update, as in HPCC's simulator. The first round trip is only noted.
class Timely : public RateController {
 public:
  Timely(const TimelyParameters& parameters, const SenderPath& path);
  void on_ack(const AckHeard& ack) override;

 private:
  void update(double rtt_ps);

  const TimelyParameters p_;
  bool first_ = true;
  uint64_t update_at_ = 0;  ///< the next update when more than this is acknowledged
  double last_rtt_ps_ = 0;
  double difference_ps_ = 0;  ///< of round trips, moving average
  uint32_t increases_ = 0;    ///< in a row
};

}  // namespace understudy
