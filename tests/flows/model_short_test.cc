// Flows as rates that somebody hears of, where it matters that links carry packets: who goes first,
// and when the last ones come.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/rigs/flow_rig.h"

namespace understudy {
namespace {

/// When flows come in that were released at time zero, by position. Links are of 8 Gbit/s and 1 us:
/// 1,000 bytes take a microsecond.
class Heard : public FlowListener {
 public:
  explicit Heard(FlowRig& rig) : rig_(rig) {
    rig_.frames.payload = 1'000;
    rig_.frames.ack_bytes = 100;
    rig_.run();  // for its senders
    rig_.model = std::make_unique<FlowModel>(rig_.graph, rig_.flows, rig_.senders, rig_.frames,
                                             rig_.cut_through);
    for (uint32_t i = 0; i < rig_.flows.size(); ++i) rig_.model->hold(i);
    rig_.model->listen(*this);
    rig_.model->start();
  }
  void release(uint32_t flow, Time at = Time::zero()) { rig_.model->release(flow, at); }
  void then(uint32_t after, uint32_t flow) { then_[after] = flow; }
  void run() {
    while (!rig_.model->next().is_never()) rig_.model->step();
  }
  double us(uint32_t flow) const { return (at_.at(flow) - Time::zero()).microseconds(); }

  void on_received(uint32_t flow, Time now) override {
    at_[flow] = now;
    if (then_.contains(flow)) release(then_[flow], now);
  }
  void on_acknowledged(uint32_t, Time) override {}
  void on_wake(uint32_t, Time) override {}

 private:
  FlowRig& rig_;
  std::map<uint32_t, Time> at_;
  std::map<uint32_t, uint32_t> then_;
};

TEST(ShortFlows, SinglePacketsLeaveANicOneByOne) {
  FlowRig rig;
  rig.star(4, gbps(8));
  for (VertexId to = 2; to <= 4; ++to) rig.flow(1, to, 1'000);
  Heard heard(rig);
  for (uint32_t i = 0; i < 3; ++i) heard.release(i);
  heard.run();
  for (uint32_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(heard.us(i), 2 + 1.0 * (i + 1)) << i;
}

TEST(ShortFlows, LastPacketsOfLongerOnesComeOneInFrontOfTheOther) {
  FlowRig rig;
  rig.star(4, gbps(8));
  for (VertexId to = 2; to <= 4; ++to) rig.flow(1, to, 10'000);
  Heard heard(rig);
  for (uint32_t i = 0; i < 3; ++i) heard.release(i);
  heard.run();
  // All have left after 30 us, by turns.
  for (uint32_t i = 0; i < 3; ++i) EXPECT_NEAR(heard.us(i), 2 + 28 + 1.0 * i, 1e-3) << i;
}

TEST(ShortFlows, ManyToOneComeOneByOne) {
  constexpr uint32_t kSenders = 40;
  FlowRig rig;
  rig.star(kSenders + 1, gbps(8));
  for (VertexId from = 2; from < 2 + kSenders; ++from) rig.flow(from, 1, 1'000);
  Heard heard(rig);
  for (uint32_t i = 0; i < kSenders; ++i) heard.release(i);
  heard.run();
  std::vector<double> all;
  double sum = 0;
  for (uint32_t i = 0; i < kSenders; ++i) sum += heard.us(i);
  // In the mean half of all that come; with even shares all would come at the end.
  EXPECT_NEAR(sum / kSenders, 2 + (kSenders + 1) / 2.0, 2.0);
}

TEST(ShortFlows, AnAnswerGoesFirst) {
  FlowRig rig;
  rig.star(2, gbps(8));
  rig.flow(1, 2, 1'000);
  rig.flow(2, 1, 5'000);
  Heard heard(rig);
  heard.then(0, 1);  // the receiver sends when it has all
  heard.release(0);
  heard.run();
  EXPECT_DOUBLE_EQ(heard.us(0), 3);
  EXPECT_NEAR(heard.us(1), 3 + 0.1 + 5 + 2, 1e-3);
}

TEST(ShortFlows, APacketOfALongerFlowIsWaitedForAtEachLinkAndNoMore) {
  FlowRig rig;
  rig.star(4, gbps(8));
  rig.flow(1, 2, 10'000);
  rig.flow(3, 2, 100);
  rig.flow(4, 2, 100);
  rig.flow(2, 1, 100);
  Heard heard(rig);
  heard.release(0);
  // At the switch after 3.35 and 3.45 us, while the long flow's third packet is on the link from there
  // until 4 us: both go in front of its fourth one.
  heard.release(1, Time::zero() + Duration::ns(2'350));
  heard.release(2, Time::zero() + Duration::ns(2'450));
  heard.release(3, Time::zero() + Duration::ns(2'350));  // nobody is on its way
  heard.run();
  EXPECT_DOUBLE_EQ(heard.us(1), 4 + 0.1 + 1);
  EXPECT_DOUBLE_EQ(heard.us(2), 4 + 0.2 + 1);
  EXPECT_DOUBLE_EQ(heard.us(3), 2.35 + 0.1 + 2);
  // And it comes as much later; the last one's acknowledgement goes that way too.
  EXPECT_NEAR(heard.us(0), 10 + 2 + 0.3, 1e-3);
}

TEST(ShortFlows, WhatALinkHasLetInBetweenLeavesItsNicLater) {
  FlowRig rig;
  rig.star(3, gbps(8));
  rig.flow(1, 2, 10'000);
  rig.flow(1, 3, 500);
  Heard heard(rig);
  heard.release(0);
  heard.release(1, Time::zero() + Duration::ns(2'350));
  heard.run();
  EXPECT_DOUBLE_EQ(heard.us(1), 3 + 0.5 + 2);
  EXPECT_NEAR(heard.us(0), 10 + 2 + 0.5, 1e-3);
}

TEST(ShortFlows, AWayThatIsClosedHoldsThem) {
  FlowRig rig;
  rig.star(2, gbps(8));
  rig.flow(1, 2, 1'000);
  Heard heard(rig);
  rig.model->change(RateChange{.at = Time::zero(), .link = rig.graph.out(1).front(), .down = true});
  heard.release(0, Time::zero() + Duration::us(1));
  rig.model->plan(RateChange{
      .at = Time::zero() + Duration::us(10), .link = rig.graph.out(1).front(), .down = false});
  heard.run();
  EXPECT_NEAR(heard.us(0), 13, 1e-3);
}

/// NICs and switches of which routing leaves out links that are down half a microsecond later.
class Rerouted : public FlowListener {
 public:
  explicit Rerouted(FlowRig& rig) : rig_(rig) {
    rig_.frames.payload = 1'000;
    Routes routes(rig_.graph, RouteChoice::kEcmp, 1);
    for (uint32_t i = 0; i < rig_.flows.size(); ++i) {
      const FlowSpec& f = rig_.flows[i];
      rig_.senders.paths.push_back(routes.path(f.from, f.to, i));
      rig_.senders.of.push_back(i);
      rig_.senders.ends.push_back({f.from, f.to, i});
    }
    rig_.model =
        std::make_unique<FlowModel>(rig_.graph, rig_.flows, rig_.senders, rig_.frames, true);
    rig_.model->reroute_after(Duration::ns(500), routes);
    for (uint32_t i = 0; i < rig_.flows.size(); ++i) rig_.model->hold(i);
    rig_.model->listen(*this);
    rig_.model->start();
  }
  /// Gives when they come in, us.
  std::map<uint32_t, double> run() {
    while (!rig_.model->next().is_never()) rig_.model->step();
    return at_;
  }
  void on_received(uint32_t flow, Time now) override {
    at_[flow] = (now - Time::zero()).microseconds();
  }
  void on_acknowledged(uint32_t, Time) override {}
  void on_wake(uint32_t, Time) override {}

 private:
  FlowRig& rig_;
  std::map<uint32_t, double> at_;
};

Time at_ns(int64_t ns) { return Time::zero() + Duration::ns(ns); }

TEST(ShortFlows, APacketWhoseWayBecomesShorterComesIn) {
  FlowRig rig;
  std::vector<VertexId> s;
  for (int i = 0; i < 4; ++i) s.push_back(rig.add(VertexKind::kSwitch));
  const VertexId from = rig.add(VertexKind::kNic), to = rig.add(VertexKind::kNic);
  const auto cable = [&](VertexId a, VertexId b) {
    rig.graph.connect(a, b, gbps(8), Duration::us(1));
  };
  cable(from, s[0]);
  cable(to, s[3]);
  for (size_t i = 0; i < 3; ++i) cable(s[i], s[i + 1]);
  cable(s[0], s[3]);
  const LinkId direct = rig.graph.out(s[3]).back();
  rig.flow(from, to, 100);
  Rerouted rerouted(rig);
  for (const LinkId link : {direct, reverse(direct)}) {
    rig.model->plan(RateChange{.at = at_ns(1), .link = link, .down = true});
    rig.model->plan(RateChange{.at = at_ns(3'000), .link = link, .down = false});
  }
  // It is on the long way's fourth link when the routing goes back to that of three.
  rig.model->release(0, at_ns(600));
  const auto at = rerouted.run();
  ASSERT_EQ(at.size(), 1u);
  EXPECT_GT(at.at(0), 3.6);
  EXPECT_LT(at.at(0), 0.6 + 5 + 0.2);
}

TEST(ShortFlows, AFlowThatHasMovedIsNotWaitedForOnItsOldWay) {
  FlowRig rig;
  std::vector<VertexId> s;
  for (int i = 0; i < 4; ++i) s.push_back(rig.add(VertexKind::kSwitch));
  std::vector<VertexId> nics;
  for (int i = 0; i < 4; ++i) nics.push_back(rig.add(VertexKind::kNic));
  const auto cable = [&](VertexId a, VertexId b) {
    rig.graph.connect(a, b, gbps(8), Duration::us(1));
  };
  cable(nics[0], s[0]);
  cable(nics[1], s[3]);
  cable(nics[2], s[0]);
  cable(nics[3], s[1]);
  cable(s[0], s[1]);
  cable(s[0], s[2]);
  cable(s[1], s[3]);
  cable(s[2], s[3]);
  const LinkId upper = rig.graph.out(s[3])[1];
  // Flows of different hashes, so that some of them begin on the way that is cut.
  constexpr uint32_t kLong = 4;
  for (uint32_t i = 0; i < kLong; ++i) rig.flow(nics[0], nics[1], 100'000);
  rig.flow(nics[2], nics[3], 100);
  Rerouted rerouted(rig);
  const LinkId shared = rig.senders.paths[kLong][1];
  for (const LinkId link : {upper, reverse(upper)}) {
    rig.model->plan(RateChange{.at = at_ns(5'000), .link = link, .down = true});
  }
  uint32_t cut = 0;
  while (cut < kLong && rig.senders.paths[cut][1] != shared) ++cut;
  ASSERT_LT(cut, kLong);
  rig.model->release(cut, at_ns(0));
  rig.model->release(kLong, at_ns(20'300));
  const auto at = rerouted.run();
  EXPECT_DOUBLE_EQ(at.at(kLong), 20.3 + 0.1 + 3);
}

}  // namespace
}  // namespace understudy
