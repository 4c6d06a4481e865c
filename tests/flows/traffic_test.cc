// Flows through a network, packet by packet, against closed forms and laws.
#include "dataplane/flows/flow_traffic.h"

#include <random>

#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

const Rate k100G = Rate::bits_per_second(100'000'000'000);
const Duration kUs = Duration::us(1);

TEST(FlowTraffic, OneFlowTakesItsPacketsTimesAndThePathsLatency) {
  const Graph g = star(2, k100G, kUs);
  FlowRun r(g, {flow_of(g, {"h0", "s", "h1"}, 400'000)}, store_and_forward(), bare());
  r.run();
  const FlowResult& f = r.traffic.results()[0];
  EXPECT_EQ(f.received - f.start, Duration::ns(100 * 320 + 320) + kUs * 2);
  EXPECT_EQ(f.acknowledged - f.received, Duration::ns(2 * 4) + kUs * 2);
  EXPECT_EQ(f.packets, 100u);
  EXPECT_EQ(f.delivered, 400'000u);
  EXPECT_EQ(r.net.packets_in_flight(), 0u);
}

TEST(FlowTraffic, CutThroughSavesThePacketsTimeAtTheSwitch) {
  const Graph g = star(2, k100G, kUs);
  NetworkSettings s = store_and_forward();
  s.cut_through = true;
  FlowRun r(g, {flow_of(g, {"h0", "s", "h1"}, 400'000)}, s, bare());
  r.run();
  const Duration took = r.traffic.results()[0].received - Time::zero();
  EXPECT_EQ(took, Duration::ns(100 * 320) + kUs * 2);
}

// A NIC with two cables: what waits for one does not leave by the other.
TEST(FlowTraffic, FlowsKeepToTheirCable) {
  Graph g = star(2, k100G, kUs);
  const VertexId nic = g.find("h0"), s = g.find("s");
  const LinkId slow = path_of(g, {"h0", "s"})[0];
  const LinkId fast = g.connect(nic, s, Rate::bits_per_second(400'000'000'000), kUs);
  std::vector<FlowSpec> flows;
  for (unsigned i = 0; i < 4; ++i) {
    flows.push_back(flow_of(g, {"h0", "s", "h1"}, 400'000));
    if (i % 2 != 0) flows.back().path.front() = fast;
  }
  FlowRun r(g, flows, store_and_forward(), bare());
  r.run();
  EXPECT_EQ(r.net.counters(slow).wire_bytes, 2u * 400'000);
  EXPECT_EQ(r.net.counters(fast).wire_bytes, 2u * 400'000);
}

// PFC only: the bottleneck is never idle, so k flows take k times the packets of one.
// rules: A8.1
TEST(FlowTraffic, IncastUnderPfcTakesExactlyTheBottlenecksTime) {
  for (const unsigned k : {2u, 4u, 10u}) {
    const Graph g = star(k + 1, k100G, kUs);
    std::vector<FlowSpec> flows;
    for (unsigned i = 0; i < k; ++i) {
      flows.push_back(flow_of(g, {numbered("h", i), "s", numbered("h", k)}, 2'000'000));
    }
    FlowRun r(g, flows, store_and_forward(1 << 20, 40'000), bare());
    r.run();
    Time last;
    for (const FlowResult& f : r.traffic.results()) last = std::max(last, f.received);
    EXPECT_EQ(last - Time::zero(), Duration::ns(500 * 320) * k + Duration::ns(320) + kUs * 2) << k;
    EXPECT_EQ(r.lost(), 0u);
    EXPECT_GT(r.pauses(), 0u);
  }
}

// rules: A8.1
TEST(FlowTraffic, FixedThresholdsPauseAndLetGo) {
  const Graph g = star(3, k100G, kUs);
  NetworkSettings s = store_and_forward(0, 1 << 20);
  s.classes[0].pfc->xoff = 60'000;
  s.classes[0].pfc->xon = 48'000;
  FlowRun r(g, {flow_of(g, {"h0", "s", "h2"}, 2'000'000), flow_of(g, {"h1", "s", "h2"}, 2'000'000)},
            s, bare());
  r.run();
  EXPECT_EQ(r.lost(), 0u);
  EXPECT_GT(r.pauses(), 2u);
  // Two ports of at most xoff and what comes until they stop: a packet at either end, a round trip.
  const uint64_t bound = 2 * (60'000 + 3 * 4000 + 25'000 + 1'100);
  EXPECT_LE(r.net.counters(path_of(g, {"s", "h2"})[0]).queue_peak, bound);
}

TEST(FlowTraffic, WithoutHeadroomALosslessClassLosesAndGoesBack) {
  const Graph g = star(5, k100G, kUs);
  std::vector<FlowSpec> flows;
  for (unsigned i = 0; i < 4; ++i) {
    flows.push_back(flow_of(g, {numbered("h", i), "s", "h4"}, 2'000'000));
  }
  FlowSettings f = bare();
  f.timeout = Duration::us(200);
  FlowRun r(g, flows, store_and_forward(1 << 20, 0), f);
  r.run();
  EXPECT_TRUE(r.traffic.all_finished());
  EXPECT_GT(r.lost(), 0u);
  for (const FlowResult& result : r.traffic.results()) EXPECT_EQ(result.delivered, 2'000'000u);
}

TEST(FlowTraffic, LossyClassesDropAtTheirThresholdAndEverythingStillArrives) {
  const Graph g = star(5, k100G, kUs);
  std::vector<FlowSpec> flows;
  for (unsigned i = 0; i < 4; ++i) {
    flows.push_back(flow_of(g, {numbered("h", i), "s", "h4"}, 2'000'000));
  }
  NetworkSettings s = store_and_forward(400'000);
  s.classes[0].pfc.reset();
  s.classes[0].egress_alpha = 1;
  FlowSettings f = bare();
  f.timeout = Duration::us(200);
  FlowRun r(g, flows, s, f);
  r.run();
  EXPECT_TRUE(r.traffic.all_finished());
  EXPECT_GT(r.lost(), 0u);
  EXPECT_EQ(r.pauses(), 0u);
  const LinkId bottleneck = path_of(g, {"s", "h4"})[0];
  EXPECT_LE(r.net.counters(bottleneck).queue_peak, 200'000u);  // alpha 1: half of the buffer
}

TEST(FlowTraffic, OneFlowWaitsForAnother) {
  const Graph g = star(3, k100G, kUs);
  std::vector<FlowSpec> flows = {flow_of(g, {"h0", "s", "h1"}, 40'000),
                                 flow_of(g, {"h1", "s", "h2"}, 40'000, Duration::us(3))};
  flows[1].after = {0};
  FlowRun r(g, flows, store_and_forward(), bare());
  r.run();
  const auto& results = r.traffic.results();
  EXPECT_EQ(results[1].start, results[0].received + Duration::us(3));
  EXPECT_TRUE(r.traffic.all_finished());
}

// Messages of one queue pair: one behind the other without a gap, in the order of their starts.
TEST(FlowTraffic, FlowsOfOneConnectionLeaveOneAfterAnother) {
  const Graph g = star(2, k100G, kUs);
  std::vector<FlowSpec> flows(5, flow_of(g, {"h0", "s", "h1"}, 40'000));
  for (FlowSpec& f : flows) f.connection = 7;
  flows[4].start = Duration::us(100);
  FlowRun r(g, flows, store_and_forward(), bare());
  r.run();
  const auto& results = r.traffic.results();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(results[static_cast<size_t>(i)].received - Time::zero(),
              Duration::ns((i + 1) * 10 * 320 + 320) + kUs * 2);
  }
  EXPECT_EQ(results[4].received - results[4].start, Duration::ns(10 * 320 + 320) + kUs * 2);
}

// Congestion control is a queue pair's: the next message goes on at the rate that the last one
// left, also after a pause.
TEST(FlowTraffic, FlowsOfOneConnectionShareItsControl) {
  struct HalfAfterTenPackets final : Controller {
    explicit HalfAfterTenPackets(Rate line) : Controller(line) {}
    void on_sent(Time, uint64_t) override {
      if (++packets_ == 10) rate_ = Rate::bits_per_second(50'000'000'000);
    }
    unsigned packets_ = 0;
  };
  const Graph g = star(2, k100G, kUs);
  for (const bool connected : {true, false}) {
    std::vector<FlowSpec> flows(2, flow_of(g, {"h0", "s", "h1"}, 40'000));
    flows[1].start = Duration::us(100);
    if (connected) flows[0].connection = flows[1].connection = 3;
    FlowRun r(g, flows, store_and_forward(), bare(), [](const FlowSpec&, Rate line, Duration) {
      FlowControl control;
      control.controller = std::make_unique<HalfAfterTenPackets>(line);
      return control;
    });
    r.run();
    const auto& results = r.traffic.results();
    const auto took = [&](int gap) { return Duration::ns(9 * gap + 2 * 320) + kUs * 2; };
    EXPECT_EQ(results[0].received - results[0].start, took(320));
    EXPECT_LT(results[0].acknowledged, results[1].start);
    EXPECT_EQ(results[1].received - results[1].start, took(connected ? 640 : 320));
  }
}

// Two ways of unequal length: packets come out of order and none is sent twice; with losses all
// come in the end.
TEST(FlowTraffic, SprayedPacketsMayComeInAnyOrder) {
  Graph g;
  for (const char* name : {"a", "b", "fast", "slow"}) {
    g.add_vertex({VertexKind::kSwitch, name, 0, 0, 1});
  }
  for (const VertexId way : {2u, 3u}) {
    g.connect(0, way, k100G, way == 2 ? kUs : kUs * 7);
    g.connect(way, 1, k100G, kUs);
  }
  for (unsigned i = 0; i < 2; ++i) {
    g.connect(g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}), i, k100G, kUs);
  }
  FlowSpec flow = flow_of(g, {"h0", "a", "fast", "b", "h1"}, 2'000'000);
  flow.spray = {flow.path, path_of(g, {"h0", "a", "slow", "b", "h1"})};
  FlowRun r(g, {flow}, store_and_forward(), bare());
  r.run();
  EXPECT_EQ(r.traffic.results()[0].delivered, 2'000'000u);
  EXPECT_EQ(r.traffic.results()[0].repeated, 0u);
  EXPECT_EQ(r.net.counters(flow.spray[0][1]).packets, 250u);
  EXPECT_EQ(r.net.counters(flow.spray[1][1]).packets, 250u);

  g.link(flow.spray[1][1]).loss = 0.1;
  FlowSettings f = bare();
  f.timeout = Duration::us(50);
  FlowRun lossy(g, {flow}, store_and_forward(), f);
  lossy.run();
  EXPECT_TRUE(lossy.traffic.all_finished());
  EXPECT_EQ(lossy.traffic.results()[0].delivered, 2'000'000u);
  EXPECT_GT(lossy.traffic.results()[0].repeated, 0u);
}

// Marks and CNPs as configured: everything above kmax is marked, one CNP an interval.
TEST(FlowTraffic, CnpsKeepTheirInterval) {
  const Graph g = star(3, k100G, kUs);
  NetworkSettings s = store_and_forward();
  s.classes[0].ecn = {{Rate::unlimited(), 8'000, 8'001, 1}};
  const std::vector<FlowSpec> flows = {flow_of(g, {"h0", "s", "h2"}, 2'000'000),
                                       flow_of(g, {"h1", "s", "h2"}, 2'000'000)};
  const auto with_cnps = [](const FlowSpec& spec, Rate line, Duration rtt) {
    FlowControl control = line_rate(spec, line, rtt);
    control.cnps = true;
    control.cnp_interval = Duration::us(50);
    return control;
  };
  FlowRun r(g, flows, s, bare(), with_cnps);
  r.run();
  for (const FlowResult& result : r.traffic.results()) {
    EXPECT_GT(result.marked, 400u);
    const auto intervals = (result.received - result.start).ps() / Duration::us(50).ps();
    EXPECT_LE(result.cnps, static_cast<uint64_t>(intervals) + 1);
    EXPECT_GE(result.cnps + 2, static_cast<uint64_t>(intervals));
  }
}

/// Line rate; notes when CNPs come.
class NotesCnps final : public Controller {
 public:
  NotesCnps(Rate line, std::vector<Time>& heard) : Controller(line), heard_(heard) {}
  void on_cnp(Time now) override { heard_.push_back(now); }

 private:
  std::vector<Time>& heard_;
};

// As a queue pair's (engine_ecn_test): a CNP that waited for its NIC's link puts off the next one.
// rules: A6.4
TEST(FlowTraffic, TheIntervalOfCnpsCountsFromWhenTheyLeave) {
  const Graph g = star(4, k100G, kUs);
  NetworkSettings s = store_and_forward();
  s.classes[0].ecn = {{Rate::unlimited(), 8'000, 8'001, 1}};
  // The receiver sends as well, packets of 320 ns: between h2 and h0 nothing else waits.
  const std::vector<FlowSpec> flows = {flow_of(g, {"h0", "s", "h2"}, 2'000'000),
                                       flow_of(g, {"h1", "s", "h2"}, 2'000'000),
                                       flow_of(g, {"h2", "s", "h3"}, 4'000'000)};
  constexpr Duration kInterval = Duration::ns(2'500);
  std::vector<Time> heard;
  const auto with_cnps = [&](const FlowSpec& spec, Rate line, Duration rtt) {
    FlowControl control = line_rate(spec, line, rtt);
    if (spec.from == flows[0].from) control.controller = std::make_unique<NotesCnps>(line, heard);
    control.cnps = true;
    control.cnp_interval = kInterval;
    return control;
  };
  FlowRun r(g, flows, s, bare(), with_cnps);
  r.run();
  ASSERT_GT(heard.size(), 50u);
  for (size_t i = 1; i < heard.size(); ++i) EXPECT_GE(heard[i] - heard[i - 1], kInterval) << i;
  // None waited longer than for the packet under way, behind a mark that comes every other packet.
  const Duration most = kInterval + Duration::ns(3 * 320);
  EXPECT_LE((heard.back() - heard.front()).ps(),
            (most * static_cast<int64_t>(heard.size() - 1)).ps());
}

// Weighted classes share a link by weight, a strict one takes what it wants.
TEST(FlowTraffic, ClassesShareALinkByWeight) {
  const Graph g = star(4, k100G, kUs);
  NetworkSettings s = store_and_forward(64 << 20);
  ClassSettings c = s.classes[0];
  c.pfc.reset();
  s.classes = {c, c, c};
  s.classes[0].priorities = 0x0f;
  s.classes[0].weight = 3;
  s.classes[1].priorities = 0x70;
  s.classes[2].priorities = 0x80;
  s.classes[2].weight = 0;
  std::vector<FlowSpec> flows = {flow_of(g, {"h0", "s", "h3"}, 8'000'000),
                                 flow_of(g, {"h1", "s", "h3"}, 8'000'000),
                                 flow_of(g, {"h2", "s", "h3"}, 400'000, Duration::us(100))};
  flows[1].priority = 5;
  flows[2].priority = 7;
  FlowRun r(g, flows, s, bare());
  r.run(Time::zero() + Duration::us(600));
  const auto& results = r.traffic.results();
  const Duration took = results[2].received - results[2].start;
  const Duration alone = Duration::ns(100 * 320 + 320) + kUs * 2;
  EXPECT_GE(took, alone);
  EXPECT_LE(took, alone + Duration::ns(320)) << "at most one packet in front of it";
  const double share =
      static_cast<double>(results[0].delivered) / static_cast<double>(results[1].delivered);
  EXPECT_NEAR(share, 3, 0.1);
}

/// Four switches in a ring, each flow over two of their links: under PFC with hardly any buffer
/// every switch waits for the next.
TEST(FlowTraffic, ADeadlockIsNamed) {
  Graph g;
  for (unsigned i = 0; i < 4; ++i) {
    g.add_vertex({VertexKind::kSwitch, numbered("s", i), 0, 0, 1});
  }
  for (unsigned i = 0; i < 4; ++i) g.connect(i, (i + 1) % 4, k100G, kUs);
  for (unsigned i = 0; i < 4; ++i) {
    const VertexId h = g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0});
    g.connect(h, i, k100G, kUs);
  }
  std::vector<FlowSpec> flows;
  for (unsigned i = 0; i < 4; ++i) {
    const auto n = [&](const char* prefix, unsigned k) { return numbered(prefix, (i + k) % 4); };
    flows.push_back(flow_of(g, {n("h", 0), n("s", 0), n("s", 1), n("s", 2), n("h", 2)}, 4'000'000));
  }
  FlowSettings patient = bare();
  patient.timeout = Duration();
  FlowRun r(g, flows, store_and_forward(100'000, 60'000), patient);
  r.drain();
  EXPECT_FALSE(r.traffic.all_finished());
  const std::vector<LinkId> cycle = r.net.deadlock();
  ASSERT_EQ(cycle.size(), 4u);
  for (size_t i = 0; i < cycle.size(); ++i) {
    EXPECT_EQ(g.link(cycle[i]).to, g.link(cycle[(i + 1) % 4]).from);
  }
  // With room enough nothing of the kind.
  FlowRun roomy(g, flows, store_and_forward(64 << 20, 60'000), bare());
  roomy.run();
  EXPECT_TRUE(roomy.traffic.all_finished());
  EXPECT_TRUE(roomy.net.deadlock().empty());
}

/// Random trees of switches with random flows under random settings.
class FlowLaws : public testing::TestWithParam<uint64_t> {};

TEST_P(FlowLaws, BytesAreConservedLinksKeepTheirRateAndHeadroomLosesNothing) {
  std::mt19937_64 random(GetParam());
  Graph g;
  const unsigned switches = 1 + static_cast<unsigned>(random() % 4);
  const Rate rates[] = {Rate::bits_per_second(25'000'000'000), k100G,
                        Rate::bits_per_second(400'000'000'000)};
  for (unsigned i = 0; i < switches; ++i) {
    g.add_vertex({VertexKind::kSwitch, numbered("s", i), 0, 0, 1});
    if (i > 0) g.connect(i - 1, i, rates[random() % 3], Duration::ns(100 + random() % 2000));
  }
  const unsigned hosts = 2 + static_cast<unsigned>(random() % 6);
  std::vector<unsigned> at(hosts);
  for (unsigned i = 0; i < hosts; ++i) {
    at[i] = static_cast<unsigned>(random() % switches);
    g.connect(g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}), at[i],
              rates[random() % 3], Duration::ns(100 + random() % 2000));
  }
  std::vector<FlowSpec> flows;
  for (unsigned n = 0; n < 12; ++n) {
    const auto a = static_cast<unsigned>(random() % hosts);
    auto b = static_cast<unsigned>(random() % hosts);
    if (a == b) b = (b + 1) % hosts;
    std::vector<std::string> names = {numbered("h", a)};
    for (unsigned s = at[a];; s = s < at[b] ? s + 1 : s - 1) {
      names.push_back(numbered("s", s));
      if (s == at[b]) break;
    }
    names.push_back(numbered("h", b));
    flows.push_back(flow_of(g, names, 1 + random() % 300'000, Duration::ns(random() % 20'000)));
  }
  FlowSettings f = bare();
  f.ack_every = 1 + static_cast<uint32_t>(random() % 4);
  NetworkSettings s = store_and_forward(200'000, 450'000);  // 3 x 400 Gbit/s x 2 us and packets
  s.cut_through = random() % 2 != 0;
  FlowRun r(g, flows, s, f);
  const Time limit = Time::zero() + Duration::ms(100);
  r.run(limit);
  ASSERT_TRUE(r.traffic.all_finished());
  EXPECT_EQ(r.lost(), 0u);
  r.drain();
  EXPECT_EQ(r.net.packets_in_flight(), 0u);
  for (size_t i = 0; i < flows.size(); ++i) {
    const FlowResult& result = r.traffic.results()[i];
    EXPECT_EQ(result.delivered, flows[i].bytes);
    EXPECT_EQ(result.packets, (flows[i].bytes + 3999) / 4000);
    // Never below the slowest link's time for all of its bytes and the latencies.
    Duration least, latency;
    for (const LinkId l : flows[i].path) {
      least = std::max(least, g.link(l).rate.time_for(flows[i].bytes));
      latency += g.link(l).latency;
    }
    EXPECT_GE(result.received - result.start, least + latency);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FlowLaws, testing::Range(uint64_t{1}, uint64_t{61}));

// Twice the rates and half of the latencies and waits: half of every time.
TEST(FlowTraffic, TimesScaleWithRatesAndLatencies) {
  const auto run = [](int64_t k) {
    Graph g;
    const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
    for (unsigned i = 0; i < 4; ++i) {
      g.connect(g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}), s,
                Rate::bits_per_second(25'000'000'000 * static_cast<uint64_t>(k)),
                Duration::us(4) / k);
    }
    std::vector<FlowSpec> flows;
    for (unsigned i = 0; i < 3; ++i) {
      flows.push_back(
          flow_of(g, {numbered("h", i), "s", "h3"}, 1'000'000, Duration::us(12) * i / k));
    }
    FlowRun r(g, flows, store_and_forward(1 << 20, 100'000), bare());
    r.run();
    std::vector<int64_t> times;
    for (const FlowResult& f : r.traffic.results()) {
      times.push_back(f.received.ps() * k);
      times.push_back(f.acknowledged.ps() * k);
    }
    return times;
  };
  EXPECT_EQ(run(1), run(2));
  EXPECT_EQ(run(1), run(4));
}

}  // namespace
}  // namespace understudy
