// Between the ring peers and the jobs: a job of several real ranks that has lost one before all
// were ready never begins.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ctrl/peers/ring/ring_peer.h"

namespace understudy {

/// Tells `jobs` what the peers tell it, but for readiness for a job that cannot begin.
class RingWatch final : public RingObserver {
 public:
  /// `jobs` outlives this.
  explicit RingWatch(RingObserver& jobs) : jobs_(jobs) {}

  /// Why the job cannot begin, for RingPeer::call_off(); nothing as far as is known.
  std::optional<std::string> why_not(uint32_t job) const {
    const auto found = lost_.find(job);
    if (found == lost_.end()) return std::nullopt;
    return "rank " + std::to_string(found->second) + " has gone before all real ranks were ready";
  }

  void on_ring_ready(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) override {
    if (!lost_.contains(job)) jobs_.on_ring_ready(job, real_rank, emulated_rank);
  }
  void on_ring_result(uint32_t job, uint32_t real_rank, const RingResultMessage& result) override {
    jobs_.on_ring_result(job, real_rank, result);
  }
  void on_ring_done(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) override {
    jobs_.on_ring_done(job, real_rank, emulated_rank);
  }
  std::optional<RingLinkEnd> on_ring_meeting(uint32_t job, const RingLinkEnd& end) override {
    return jobs_.on_ring_meeting(job, end);
  }
  void on_ring_lost(uint32_t job, uint32_t real_rank) override { lost_.emplace(job, real_rank); }

 private:
  RingObserver& jobs_;
  std::map<uint32_t, uint32_t> lost_;  ///< of each such job, the first real rank that has gone
};

}  // namespace understudy
