// Flows as rates: closed forms, dependencies, links that fail and change, and laws over random
// networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/rigs/flow_rig.h"

namespace understudy {
namespace {

Time at_us(int64_t us) { return Time::zero() + Duration::us(us); }

TEST(FabricFlowModel, OneFlowTakesItsBytesAndItsPath) {
  FlowRig rig;
  rig.star(2, gbps(8));
  rig.flow(1, 2, 1'000'000, Duration::us(5));
  const FlowTimes t = rig.run()[0];
  EXPECT_EQ(t.start, at_us(5));
  EXPECT_EQ(t.received, at_us(5 + 1000 + 2));
}

TEST(FabricFlowModel, HeadersCountOnLinks) {
  FlowSettings frames;
  frames.payload = 1000;
  frames.overhead = 60;
  frames.gap = 20;
  FlowRig rig(frames);
  rig.star(2, gbps(8));
  rig.flow(1, 2, 2'001);
  EXPECT_EQ(rig.run()[0].received, Time::zero() + Duration::ns(2'001 + 3 * 80) + Duration::us(2));
  EXPECT_EQ(rig.model->link_bytes()[0], 2'241u);
  EXPECT_EQ(rig.model->link_bytes()[1], 0u);
}

TEST(FabricFlowModel, StoreAndForwardTakesAPacketMoreForEachSwitch) {
  FlowRig rig;
  rig.star(2, gbps(8));
  rig.cut_through = false;
  rig.flow(1, 2, 1'000'000);
  rig.flow(2, 1, 100);
  EXPECT_EQ(rig.run()[0].received, at_us(1000 + 2) + Duration::ns(4'096));
  EXPECT_EQ(rig.model->times()[1].received, at_us(2) + Duration::ns(200));
}

TEST(FabricFlowModel, IncastSharesTheReceiversLink) {
  FlowRig rig;
  rig.star(5, gbps(8));
  for (VertexId from = 2; from <= 5; ++from) rig.flow(from, 1, 1'000'000);
  for (const FlowTimes& t : rig.run()) EXPECT_EQ(t.received, at_us(4000 + 2));
}

TEST(FabricFlowModel, ALaterFlowTakesHalf) {
  FlowRig rig;
  rig.star(3, gbps(8));
  rig.flow(1, 3, 1'000'000);
  rig.flow(2, 3, 200'000, Duration::us(400));
  rig.run();
  EXPECT_EQ(rig.model->times()[1].received, at_us(400 + 400 + 2));
  EXPECT_EQ(rig.model->times()[0].received, at_us(1200 + 2));
}

TEST(FabricFlowModel, AChangeThatComesByHandIsAsOneThatWasKnown) {
  FlowRig rig;
  rig.star(3, gbps(8));
  rig.flow(1, 3, 1'000'000);
  rig.flow(2, 3, 200'000, Duration::us(400));
  const RateChange slower{.at = at_us(300),
                          .link = reverse(rig.graph.out(3)[0]),
                          .rate = gbps(4),
                          .latency = Duration::us(2)};
  const auto known = rig.run({slower});
  FlowModel model(rig.graph, rig.flows, rig.senders, rig.frames, true);
  model.start();
  while (model.next() < slower.at) model.step();
  model.change(slower);
  while (!model.next().is_never()) model.step();
  ASSERT_EQ(model.finished(), 2u);
  // 300 KB of 1 MB are gone after 300 us, 350 KB when the second comes, which takes 800.
  EXPECT_EQ(known[1].received, at_us(400 + 800 + 3));
  EXPECT_EQ(known[0].received, at_us(1200 + 900 + 3));
  for (size_t i = 0; i < known.size(); ++i) EXPECT_EQ(model.times()[i].received, known[i].received);
}

/// Releases flow 0 at its first wake-up, and flow 1 when 0 has come in.
struct Heard final : FlowListener {
  explicit Heard(FlowModel& flows) : model(flows) {}
  void on_received(uint32_t flow, Time now) override {
    all.push_back({"received " + std::to_string(flow), now});
    if (flow == 0) model.release(1, now);
  }
  void on_acknowledged(uint32_t flow, Time now) override {
    all.push_back({"acknowledged " + std::to_string(flow), now});
  }
  void on_wake(uint32_t index, Time now) override {
    all.push_back({"wake " + std::to_string(index), now});
    if (index == 7) model.release(0, now);
  }
  FlowModel& model;
  std::vector<std::pair<std::string, Time>> all;
};

TEST(FabricFlowModel, HeldFlowsStartWhenTheyAreReleasedAndAreHeardOf) {
  FlowSettings frames = without_headers();
  frames.ack_bytes = 100;
  FlowRig rig(frames);
  rig.star(3, gbps(8));
  rig.flow(1, 2, 1'000).last_header = 24;
  rig.flow(2, 1, 0).first_header = 16;  // a packet without payload
  rig.flow(3, 2, 1'000'000);            // nobody's: no listener hears of it
  rig.run();                            // for its senders
  FlowModel model(rig.graph, rig.flows, rig.senders, rig.frames, true);
  Heard heard(model);
  model.hold(0);
  model.hold(1);
  model.listen(heard);
  model.start();
  model.wake_listener(at_us(3), 8);
  model.wake_listener(at_us(3), 7);
  model.wake_listener(Time::zero() + Duration::ns(7'048), 9);
  while (!model.next().is_never()) model.step();
  // Half the rate beside the third flow; an acknowledgement takes 100 ns and the way back. The
  // second flow starts where it leaves, and behind it.
  const Time first = at_us(3) + Duration::ns(2 * 1'024 + 2'000),
             answered = first + Duration::ns(100), second = answered + Duration::ns(2'016);
  const std::vector<std::pair<std::string, Time>> expected = {
      {"wake 8", at_us(3)},
      {"wake 7", at_us(3)},
      {"received 0", first},
      {"wake 9", first},
      {"acknowledged 0", first + Duration::ns(2'100)},
      {"received 1", second},
      {"acknowledged 1", second + Duration::ns(2'100)}};
  EXPECT_EQ(heard.all, expected);
  EXPECT_EQ(model.times()[1].start, answered);
  EXPECT_EQ(model.finished(), 3u);
}

TEST(FabricFlowModel, APlannedChangeIsAsOneThatWasKnown) {
  FlowRig rig;
  rig.star(3, gbps(8));
  rig.flow(1, 3, 1'000'000);
  rig.flow(2, 3, 200'000, Duration::us(400));
  const LinkId to_third = reverse(rig.graph.out(3)[0]);
  const RateChange slower{.at = at_us(300), .link = to_third, .rate = gbps(4)};
  const RateChange faster{.at = at_us(800), .link = to_third, .rate = gbps(8)};
  const auto known = rig.run({slower, faster});
  FlowModel model(rig.graph, rig.flows, rig.senders, rig.frames, true);
  model.plan(faster);
  model.plan(slower);
  model.start();
  while (!model.next().is_never()) model.step();
  for (size_t i = 0; i < known.size(); ++i) EXPECT_EQ(model.times()[i].received, known[i].received);
  // 100 KB of the second have left when its half becomes 4 Gbit/s.
  EXPECT_EQ(known[1].received, at_us(1000 + 2));
}

TEST(FabricFlowModel, FlowsWaitForOthersToComeIn) {
  FlowRig rig;
  rig.star(4, gbps(8));
  rig.flow(1, 2, 100'000);
  rig.flow(1, 3, 100'000);                              // both at 4 Gbit/s: 202 us
  rig.then(2, 3, 50'000, {0}).start = Duration::us(7);  // 209 to 261
  rig.then(3, 4, 50'000, {2, 1});
  const auto& times = rig.run();
  EXPECT_EQ(times[2].start, at_us(209));
  EXPECT_EQ(times[2].received, at_us(261));
  EXPECT_EQ(times[3].start, at_us(261));
  EXPECT_EQ(times[3].received, at_us(313));
}

TEST(FabricFlowModel, AConnectionsFlowsLeaveOneAfterAnother) {
  FlowRig rig;
  rig.star(2, gbps(8));
  for (int i = 0; i < 3; ++i) rig.flow(1, 2, 100'000, Duration::us(10 * i)).connection = 0;
  rig.flow(1, 2, 100'000, Duration::us(1000)).connection = 0;
  const auto& times = rig.run();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(times[static_cast<size_t>(i)].start, at_us(10 * i));
    EXPECT_EQ(times[static_cast<size_t>(i)].received, at_us(100 * (i + 1) + 2));
  }
  EXPECT_EQ(times[3].received, at_us(1102));
}

TEST(FabricFlowModel, ALinkThatIsDownStopsItsFlows) {
  FlowRig rig;
  rig.star(3, gbps(8));
  rig.graph.link(0).down.push_back({at_us(50), at_us(80)});  // 1 to the switch
  rig.flow(1, 3, 100'000);
  rig.flow(2, 3, 100'000);
  const auto& times = rig.run();
  // 50 us with 25,000 bytes each; 30 us for the other alone; both again.
  EXPECT_EQ(times[1].received, at_us(80 + 90 + 2));
  EXPECT_EQ(times[0].received, at_us(80 + 90 + 30 + 2));
  EXPECT_EQ(rig.model->finished(), 2u);
}

TEST(FabricFlowModel, WhatNeverComesBackNeverEnds) {
  FlowRig rig;
  rig.star(3, gbps(8));
  rig.graph.link(0).down.push_back({at_us(50), Time::never()});
  rig.flow(1, 3, 100'000);
  rig.flow(2, 3, 100'000);
  rig.then(3, 1, 1, {0});
  const auto& times = rig.run();
  EXPECT_TRUE(times[0].received.is_never());
  EXPECT_EQ(times[1].received, at_us(50 + 75 + 2));
  EXPECT_TRUE(times[2].start.is_never());
  EXPECT_EQ(rig.model->finished(), 1u);
}

TEST(FabricFlowModel, RatesAndLatenciesChange) {
  FlowRig rig;
  rig.star(2, gbps(8));
  rig.flow(1, 2, 100'000);
  const auto& times = rig.run({{.at = at_us(50), .link = 0, .rate = gbps(4)},
                               {.at = at_us(60), .link = 3, .latency = Duration::us(9)}});
  EXPECT_EQ(times[0].received, at_us(50 + 100 + 1 + 9));
}

/// A network of leaves and spines with random rates, and flows in it.
void random_case(FlowRig& rig, std::mt19937& random) {
  const auto below = [&](uint64_t n) { return random() % n; };
  const auto rate = [&] { return gbps(1 + below(4) * below(8)); };
  const auto latency = [&] { return Duration::us(static_cast<int64_t>(below(5))); };
  std::vector<VertexId> spines, nics;
  for (uint64_t i = 1 + below(3); i > 0; --i) spines.push_back(rig.add(VertexKind::kSwitch));
  for (uint64_t leaves = 1 + below(4); leaves > 0; --leaves) {
    const VertexId leaf = rig.add(VertexKind::kSwitch);
    for (const VertexId spine : spines) rig.graph.connect(leaf, spine, rate(), latency());
    for (uint64_t i = 1 + below(4); i > 0; --i) {
      nics.push_back(rig.add(VertexKind::kNic));
      rig.graph.connect(nics.back(), leaf, rate(), latency());
    }
  }
  if (nics.size() < 2) {
    nics.push_back(rig.add(VertexKind::kNic));
    rig.graph.connect(nics.back(), spines[0], rate(), latency());
  }
  for (uint32_t i = 0, n = static_cast<uint32_t>(1 + below(30)); i < n; ++i) {
    const VertexId from = nics[below(nics.size())];
    VertexId to = from;
    while (to == from) to = nics[below(nics.size())];
    FlowSpec& f = rig.flow(from, to, 1 + below(3) * below(1'000'000),
                           Duration::us(static_cast<int64_t>(below(3) * below(500))));
    if (i > 0 && below(3) == 0) f.after.push_back(static_cast<uint32_t>(below(i)));
  }
}

TEST(FabricFlowModel, LawsOverRandomNetworks) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    FlowRig rig;
    random_case(rig, random);
    const std::vector<FlowTimes> times = rig.run();
    ASSERT_EQ(rig.model->finished(), rig.flows.size());

    // Bytes are conserved, and no link carries more than it can while its flows run.
    std::vector<uint64_t> bytes(rig.graph.links().size());
    std::vector<Time> first(bytes.size(), Time::never()), last(bytes.size());
    for (size_t i = 0; i < times.size(); ++i) {
      Duration latency;
      Rate slowest = gbps(1'000);
      for (const LinkId link : rig.senders.paths[i]) {
        bytes[link] += rig.flows[i].bytes;
        first[link] = std::min(first[link], times[i].start);
        last[link] = std::max(last[link], times[i].received);
        latency += rig.graph.link(link).latency;
        slowest = std::min(slowest, rig.graph.link(link).rate);
      }
      EXPECT_GE(times[i].received - times[i].start, slowest.time_for(rig.flows[i].bytes) + latency);
    }
    EXPECT_EQ(rig.model->link_bytes(), bytes);
    for (LinkId link = 0; link < bytes.size(); ++link) {
      if (bytes[link] == 0) continue;
      const GraphLink& l = rig.graph.link(link);
      EXPECT_GE(last[link] - first[link], l.rate.time_for(bytes[link]) + l.latency)
          << rig.graph.link_name(link);
    }

    // Another run is the same run.
    const std::vector<FlowTimes> again = rig.run();
    for (size_t i = 0; i < times.size(); ++i) EXPECT_EQ(again[i].received, times[i].received);

    // k times the rates, 1/k of the latencies and starts: 1/k of all times, but for the rounding
    // of each event to a picosecond and of shares to 2^-12 bit/s.
    constexpr int64_t k = 5;
    FlowRig scaled;
    scaled.graph = rig.graph;
    scaled.flows = rig.flows;
    for (LinkId link = 0; link < bytes.size(); ++link) {
      GraphLink& l = scaled.graph.link(link);
      l.rate = Rate::bits_per_second(l.rate.bps() * k);
      l.latency = l.latency / k;
    }
    for (FlowSpec& f : scaled.flows) f.start = f.start / k;
    scaled.run();
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(scaled.model->times()[i].received.ps() * k),
                  static_cast<double>(times[i].received.ps()), 10.0 * k * 60);
    }

    // A link that could carry all its senders at once holds nobody back: it may be any faster.
    std::vector<uint64_t> most(bytes.size());
    for (const auto& path : rig.senders.paths) {
      for (const LinkId link : path) most[link] += rig.graph.link(path.front()).rate.bps();
    }
    FlowRig wide, wider;
    wide.flows = wider.flows = rig.flows;
    wide.graph = wider.graph = rig.graph;
    for (LinkId link = 0; link < bytes.size(); ++link) {
      const bool nic = rig.graph.vertices()[rig.graph.link(link).from].kind == VertexKind::kNic;
      if (nic || random() % 2 == 0 || most[link] == 0) continue;
      wide.graph.link(link).rate = Rate::bits_per_second(most[link]);
      wider.graph.link(link).rate = Rate::bits_per_second(most[link] * 7 + 1);
    }
    wide.run();
    wider.run();
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_EQ(wide.model->times()[i].received, wider.model->times()[i].received);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace understudy
