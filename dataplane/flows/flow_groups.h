// Flows that are started and stopped together. A group has a clock of its own, which stands while
// the group is stopped: flows that were to start later do so by that clock, as those that wait for
// others do. What its senders have begun goes on where it stopped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

/// From `at` on, a group runs or does not.
struct GroupChange {
  Time at;
  uint32_t group = kNoGroup;
  bool running = false;
};

class FlowGroups {
 public:
  struct Range {
    uint32_t first = 0, end = 0;
  };

  explicit FlowGroups(const std::vector<FlowSpec>& flows) {
    for (uint32_t i = 0; i < flows.size(); ++i) {
      const uint32_t group = flows[i].group;
      if (group == kNoGroup) continue;
      if (group >= groups_.size()) groups_.resize(group + 1);
      Group& g = groups_[group];
      if (g.flows.end == 0) g.flows.first = i;
      g.flows.end = i + 1;
      ++g.left;
      if (flows[i].held) g.runs = false;
    }
    for (const Group& g : groups_) stopped_ += g.runs ? 0 : g.left;
  }

  bool runs(uint32_t group) const { return group == kNoGroup || groups_[group].runs; }
  Range flows(uint32_t group) const { return groups_[group].flows; }
  /// By the group's own clock.
  Time clock(uint32_t group, Time now) const {
    if (group == kNoGroup) return now;
    const Group& g = groups_[group];
    return (g.runs ? now : g.stopped_at) - g.behind;
  }
  /// When its clock, if it runs on, will show `clock`.
  Time when(uint32_t group, Time clock) const {
    return group == kNoGroup || clock.is_never() ? clock : clock + groups_[group].behind;
  }
  /// False: there is no such group, or it runs, or stands, as it is to.
  bool set_running(uint32_t group, bool running, Time now) {
    if (group >= groups_.size() || groups_[group].runs == running) return false;
    Group& g = groups_[group];
    if (running) g.behind = g.behind + (now - g.stopped_at);
    g.stopped_at = now;
    g.runs = running;
    stopped_ = running ? stopped_ - g.left : stopped_ + g.left;
    return true;
  }
  /// One of its flows has come to its end.
  void note_end(uint32_t group) {
    if (group == kNoGroup) return;
    --groups_[group].left;
    if (!groups_[group].runs) --stopped_;
  }
  /// Flows that have not ended and stand still.
  size_t stopped() const { return stopped_; }

 private:
  struct Group {
    Range flows;
    uint32_t left = 0;
    bool runs = true;
    Time stopped_at;  ///< if it does not run
    Duration behind;  ///< its clock, for the time that it stood
  };
  std::vector<Group> groups_;
  size_t stopped_ = 0;  ///< stopped()
};

}  // namespace understudy
