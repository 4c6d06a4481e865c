// A run of packets with somebody who looks at every departure and arrival, for laws.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_traffic.h"
#include "tests/rigs/law_case.h"

namespace understudy {

/// Bytes that pass a point at known times: from the start of the run, and between any two of these
/// times, no more than the rate allows. For all pairs at once: the least value so far of bytes * 8
/// - rate * time is kept. A picosecond more is a serializer's rounding.
class LinkBudget {
 public:
  explicit LinkBudget(Rate rate) : rate_(rate) {}
  /// `bytes` begin to pass at `at`. False: those before were too many.
  bool begins(Time at, uint64_t bytes) {
    const bool kept = within(at);
    least_ = std::min(least_, over(at));
    sum_ += bytes;
    return kept;
  }
  /// `bytes` have passed at `at`.
  bool ends(Time at, uint64_t bytes) {
    least_ = std::min(least_, over(last_));
    last_ = at;
    sum_ += bytes;
    return within(at);
  }

 private:
  __int128 over(Time at) const {
    return static_cast<__int128>(sum_) * Rate::kPsBitsPerByte -
           static_cast<__int128>(rate_.bps()) * at.ps();
  }
  bool within(Time at) const { return over(at) - least_ <= static_cast<__int128>(rate_.bps()); }

  Rate rate_;
  uint64_t sum_ = 0;  ///< bytes
  __int128 least_ = 0;
  Time last_;
};

/// Stands between a network and its ends.
class LawWatch final : public NetworkEnds {
 public:
  LawWatch(const LawCase& c, const NetworkSettings& settings, FlowTraffic& traffic)
      : graph_(c.graph()),
        traffic_(traffic),
        next_hops_(c.next_hops()),
        network_(c.graph(), settings, *this, &next_hops_) {
    for (const GraphLink& link : graph_.links()) {
      departures_.emplace_back(link.rate);
      arrivals_.emplace_back(link.rate);
    }
    before_.resize(graph_.links().size());
    traffic_.start(network_);
  }

  Network& network() { return network_; }
  uint64_t pulled() const { return pulled_; }
  uint64_t delivered() const { return delivered_; }
  const std::array<uint64_t, kPacketLosses>& lost() const { return lost_; }
  uint64_t in_flight() const { return on_the_way_.size(); }

  void step() {
    const Time now = network_.next();
    network_.step();
    for (LinkId link = 0; link < before_.size(); ++link) {
      const uint64_t bytes = network_.counters(link).wire_bytes - before_[link];
      if (bytes == 0) continue;
      before_[link] += bytes;
      EXPECT_TRUE(departures_[link].begins(now, bytes))
          << graph_.link_name(link) << " at " << now.ps();
    }
  }

  // NetworkEnds
  PacketId pull(LinkId nic, uint8_t blocked, Time now) override {
    const PacketId id = traffic_.pull(nic, blocked, now);
    if (id == kNoPacketId) return id;
    EXPECT_EQ(blocked >> network_.class_of(network_[id].priority) & 1, 0) << "paused, and sent";
    EXPECT_FALSE(on_the_way_.contains(id));
    on_the_way_[id] = {++pulled_, path_from(nic, network_[id].way)};
    return id;
  }
  void deliver(PacketId id, Time now) override {
    const NetPacket& p = network_[id];
    // Order is kept on a path within a class.
    const auto& [number, path] = on_the_way_.at(id);
    uint64_t& last = last_of_[std::make_tuple(path, p.priority)];
    EXPECT_GT(number, last) << "out of order";
    last = number;
    const LinkId link = path.back();
    EXPECT_EQ(p.way.link, link);
    EXPECT_EQ(p.tail, now);
    EXPECT_TRUE(arrivals_[link].ends(now, p.wire_bytes))
        << graph_.link_name(link) << " at " << now.ps();
    Duration latency;
    for (const LinkId hop : path) latency += graph_.link(hop).latency;
    EXPECT_GE(now - p.sent, latency);
    on_the_way_.erase(id);
    ++delivered_;
    traffic_.deliver(id, now);
  }
  void lost(PacketId id, PacketLoss why, Time now) override {
    on_the_way_.erase(id);
    ++lost_[static_cast<size_t>(why)];
    traffic_.lost(id, why, now);
  }
  void wake(uint32_t index, Time now) override { traffic_.wake(index, now); }

 private:
  struct Pulled {
    uint64_t number = 0;  ///< of its departure
    std::vector<LinkId> path;
  };

  /// All links of a packet that leaves by `nic`.
  std::vector<LinkId> path_from(LinkId nic, Way way) {
    std::vector<LinkId> path = {nic};
    while (graph_.vertices()[graph_.link(path.back()).to].kind == VertexKind::kSwitch) {
      path.push_back(way.has_links() ? way.take_link()
                                     : next_hops_.next(graph_.link(path.back()).to, way));
    }
    return path;
  }

  const Graph& graph_;
  FlowTraffic& traffic_;
  NextHops next_hops_;
  Network network_;
  std::vector<LinkBudget> departures_, arrivals_;
  std::vector<uint64_t> before_;
  std::map<PacketId, Pulled> on_the_way_;
  std::map<std::tuple<std::vector<LinkId>, uint8_t>, uint64_t> last_of_;
  uint64_t pulled_ = 0, delivered_ = 0;
  std::array<uint64_t, kPacketLosses> lost_{};
};

}  // namespace understudy
