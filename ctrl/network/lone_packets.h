// Flows on a network of their own, packet by packet; and how packets of a configuration's flows go
// through any network.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/network/lone_flows.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/fabric/network.h"
#include "dataplane/fabric/next_hops.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// The congestion control of each flow, as the configuration says, which must outlive it.
FlowTraffic::MakeControl flow_controls(const Config& config);

class LonePackets final : public LoneFlows {
 public:
  /// `graph`, `flows`, `traffic`, which carries them and has not been started, and `jobs`, whose
  /// messages are among them, outlive this.
  LonePackets(const Graph& graph, NextHops routing, NetworkSettings settings,
              const std::vector<FlowSpec>& flows, FlowTraffic& traffic,
              std::vector<FlowJob*> jobs = {});

  void advance_to(Time t) override;
  Time advance_alone(Time t, Time limit) override;

  void change(const RateChange& change) override;
  void change(const GroupChange& change) override;
  size_t finished() const override { return traffic_.finished(); }
  size_t stopped() const override { return traffic_.stopped(); }
  Time end() const override { return end_; }
  const Network* network() const override { return &network_; }
  bool has_moved() override;
  std::string progress(double seconds) const override;
  double share_done() const override;
  NamedCounts work() const override;
  std::string why_at_rest(const Graph& graph) const override;

 protected:
  /// Once a flow has given up nothing more is waited for.
  Time next() const override {
    return traffic_.has_given_up() ? Time::never() : std::min(network_.next(), change_at_);
  }
  bool is_awaited() const override { return next_group_ < groups_.size(); }

 private:
  Time next_change() const {
    return std::min(next_link_ < links_.size() ? links_[next_link_].at : Time::never(),
                    next_group_ < groups_.size() ? groups_[next_group_].at : Time::never());
  }
  void expect(Time change);
  void run(Time t, uint64_t most);
  void apply_changes(Time until);

  NextHops routing_;
  const NetworkSettings settings_;
  FlowTraffic& traffic_;
  mutable Network network_;  ///< its calendar puts in order when it is asked
  double bytes_ = 0;         ///< of all flows
  // Changes to come, in order of time.
  std::vector<RateChange> links_;
  std::vector<GroupChange> groups_;
  size_t next_link_ = 0, next_group_ = 0;
  Time change_at_ = Time::never();  ///< next_change(), which is asked for with each event
  Time end_;
  Time last_change_;          ///< of links, that is known
  size_t seen_finished_ = 0;  ///< by has_moved()
  uint64_t seen_bytes_ = 0;
};

}  // namespace understudy
