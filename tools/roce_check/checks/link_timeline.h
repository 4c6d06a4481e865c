// What one modelled link could carry, and when: its rate over the time of a run, with live changes.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/pcapng.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

/// How far a queue may exceed its rate: stamps and remainders are no fault.
inline constexpr double kRateTolerance = 0.01;

class LinkTimeline {
 public:
  /// `limits`: of the NIC at its end.
  LinkTimeline(Rate rate, Duration latency, const PacketLimits& limits = {})
      : limits_(limits), latency_(latency), shortest_(latency), steps_{{Time::zero(), rate}} {}

  /// A change takes effect at `at`; call in order of time.
  void change(Time at, std::optional<Rate> rate, std::optional<Duration> latency) {
    if (rate) steps_.push_back({at, *rate});
    if (latency) {
      if (*latency < latency_) shorter_.push_back(at);
      latency_ = *latency;
      shortest_ = std::min(shortest_, latency_);
    }
  }

  /// Bytes that the link can serialise from `from` to `to`; infinite where it is unlimited.
  /// `packet`: the NIC carries packets of so many bytes; 0: no matter what it can do.
  double capacity(Time from, Time to, uint32_t packet = 0) const;
  Rate rate_at(Time t) const;
  Duration shortest_latency() const { return shortest_; }
  /// True when the latency became shorter between the two: packets behind may catch up.
  bool shortened(Time from, Time to) const;

 private:
  struct Step {
    Time at;
    Rate rate;
  };
  PacketLimits limits_;
  Duration latency_;  ///< after the changes so far
  Duration shortest_;
  std::vector<Step> steps_;  ///< the first one counts from the beginning of time
  std::vector<Time> shorter_;
};

/// Whether a packet shares its link's rate; with control_class "separate" ACKs and NCCL's credits
/// have a class of their own.
bool takes_rate(const Config& config, const PacketRecord& p);

/// The changes of a run: those of the configuration and those that a capture has recorded.
std::vector<LinkChange> all_changes(const Config& config, const std::vector<LinkChange>& recorded);

/// Timeline of one node's link as it shows at the far end of the link, `delayed` by its latency, or
/// at the near end.
LinkTimeline link_timeline(const Config& config, NodeId node, unsigned nic,
                           const std::vector<LinkChange>& changes, bool delayed);

}  // namespace understudy
