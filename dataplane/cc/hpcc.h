// HPCC (Li et al., SIGCOMM 2019): each acknowledgement brings what every switch wrote into the
// packet; the rate steers the fullest link to a target utilisation.
#pragma once

#include <array>

#include "dataplane/cc/parameters.h"
#include "dataplane/cc/rate_controller.h"

namespace understudy {

/// Utilisation of a hop: its transmit rate over its line rate, plus the smaller of its last two
/// queues over what it sends in a base round trip. The reference rate moves once per window of
/// data; between that, each acknowledgement sets the rate from the reference rate. The first
/// acknowledgement, and the first over another path, only notes the hops.
class Hpcc : public RateController {
 public:
  static constexpr size_t kMostHops = 32;  ///< hops beyond are not looked at

  Hpcc(const HpccParameters& parameters, const SenderPath& path);
  void on_ack(const AckHeard& ack) override;
  bool rate_changes_gap() const override { return true; }

  double utilisation() const { return utilisation_; }

 private:
  struct Noted {
    Time at;
    uint64_t tx_bytes, queue_bytes;
  };
  bool same_path(std::span<const IntHop> hops) const;
  void note(std::span<const IntHop> hops);
  bool measure(std::span<const IntHop> hops);

  const HpccParameters p_;
  const double round_trip_ps_;
  uint64_t reference_;  ///< bit/s
  double utilisation_ = 1;
  uint32_t stage_ = 0;  ///< additive increases of the reference rate in a row
  bool first_ = true;
  uint64_t update_at_ = 0;  ///< the reference rate moves when more than this is acknowledged
  size_t noted_count_ = 0;
  std::array<Noted, kMostHops> noted_;
};

}  // namespace understudy
