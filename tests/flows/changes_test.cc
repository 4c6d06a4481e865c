// What is changed while flows run: links go down, come up and lose packets, NICs stand still,
// groups of flows stop and go on.
#include "dataplane/flows/flow_model.h"
#include "dataplane/flows/flow_traffic.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

const Rate k100G = Rate::bits_per_second(100'000'000'000);
const Duration kUs = Duration::us(1);

Time at_us(int64_t us) { return Time::zero() + Duration::us(us); }

FlowSettings quick() {
  FlowSettings f = bare();
  f.timeout = Duration::us(100);
  return f;
}

/// Runs all that happens before `at`.
void until(FlowRun& run, Time at) {
  while (run.net.next() < at) run.net.step();
}

struct OneFlow {
  explicit OneFlow(FlowSpec (*change)(FlowSpec) = [](FlowSpec f) { return f; })
      : run(graph, {change(flow_of(graph, {"h0", "s", "h1"}, 400'000))}, store_and_forward(),
            quick()) {}
  Graph graph = star(2, k100G, kUs);
  FlowRun run;
  LinkId up = path_of(graph, {"h0", "s"})[0], last = path_of(graph, {"s", "h1"})[0];
  const FlowResult& result() { return run.traffic.results()[0]; }
  uint64_t lost(LinkId link, PacketLoss why) {
    return run.net.counters(link).lost[static_cast<size_t>(why)];
  }
};

TEST(NetworkChanges, AnOutageByCommandIsAsOneThatWasKnown) {
  OneFlow by_command;
  until(by_command.run, at_us(10));
  by_command.run.net.change({.at = at_us(10), .link = by_command.last, .down = true});
  EXPECT_TRUE(by_command.run.net.is_closed(by_command.last, at_us(10)));
  until(by_command.run, at_us(60));
  by_command.run.net.change({.at = at_us(60), .link = by_command.last, .down = false});
  EXPECT_FALSE(by_command.run.net.is_closed(by_command.last, at_us(60)));
  by_command.run.run();

  Graph g = star(2, k100G, kUs);
  const LinkId last = path_of(g, {"s", "h1"})[0];
  g.link(last).down = {{at_us(10), at_us(60)}};
  FlowRun known(g, {flow_of(g, {"h0", "s", "h1"}, 400'000)}, store_and_forward(), quick());
  known.run();
  ASSERT_TRUE(by_command.run.traffic.all_finished() && known.traffic.all_finished());
  EXPECT_EQ(by_command.result().received, known.traffic.results()[0].received);
  EXPECT_EQ(by_command.result().lost, known.traffic.results()[0].lost);
  EXPECT_EQ(by_command.lost(by_command.last, PacketLoss::kOutage), 1u);
}

TEST(NetworkChanges, ANicHoldsWhatItHasWhileItsLinkIsDown) {
  OneFlow one;
  one.run.net.change({.at = at_us(0), .link = one.up, .down = true});
  until(one.run, at_us(1000));
  EXPECT_EQ(one.result().packets, 0u);
  one.run.net.change({.at = at_us(1000), .link = one.up, .down = false});
  one.run.run();
  // 100 packets of 320 ns, one more behind the switch, and both latencies.
  EXPECT_EQ(one.result().received, at_us(1000 + 2) + Duration::ns(101 * 320));
  EXPECT_EQ(one.result().lost, 0u);
}

TEST(NetworkChanges, ANicThatStandsStillTakesNothing) {
  OneFlow one;
  until(one.run, at_us(10));
  for (const LinkId link : {one.last, reverse(one.last)}) {
    one.run.net.change({.at = at_us(10), .link = link, .paused = true});
  }
  until(one.run, at_us(400));
  const uint64_t before = one.result().delivered;
  EXPECT_LT(before, 400'000u);
  EXPECT_GT(one.lost(one.last, PacketLoss::kOutage), 50u);
  for (const LinkId link : {one.last, reverse(one.last)}) {
    one.run.net.change({.at = at_us(400), .link = link, .paused = false});
  }
  one.run.run();
  EXPECT_EQ(one.result().delivered, 400'000u);
}

TEST(NetworkChanges, LossHasDrawsOfSeedLinkAndPacket) {
  const auto lost = [](uint64_t seed) {
    const Graph g = star(2, k100G, kUs);
    NetworkSettings settings = store_and_forward();
    settings.seed = seed;
    FlowRun run(g, {flow_of(g, {"h0", "s", "h1"}, 4'000'000)}, settings, quick());
    run.net.change({.at = at_us(0), .link = path_of(g, {"s", "h1"})[0], .loss = 0.01});
    run.run();
    EXPECT_TRUE(run.traffic.all_finished());
    return run.traffic.results()[0].lost;
  };
  EXPECT_GT(lost(1), 0u);
  EXPECT_EQ(lost(1), lost(1));
}

FlowSpec in_group(FlowSpec flow) {
  flow.group = 0;
  return flow;
}
FlowSpec held(FlowSpec flow) {
  flow.group = 0;
  flow.held = true;
  flow.start = Duration::us(5);
  return flow;
}

TEST(FlowGroups, StoppedFlowsStandStillAndGoOn) {
  OneFlow plain, stopped(in_group);
  plain.run.run();
  until(stopped.run, at_us(10));
  stopped.run.traffic.set_running(0, false, at_us(10));
  EXPECT_TRUE(stopped.run.traffic.at_rest());
  until(stopped.run, at_us(1000));
  const uint64_t packets = stopped.result().packets;
  EXPECT_LT(packets, 40u);
  stopped.run.traffic.set_running(0, true, at_us(1000));
  EXPECT_FALSE(stopped.run.traffic.at_rest());
  stopped.run.run();
  EXPECT_EQ(stopped.result().packets, 100u);
  // Its NIC was in a packet when it stopped.
  const Duration late = stopped.result().received - plain.result().received;
  EXPECT_GT(late, Duration::us(989));
  EXPECT_LE(late, Duration::us(990));
}

TEST(FlowGroups, AHeldFlowCountsItsTimeFromTheCommand) {
  OneFlow one(held);
  until(one.run, at_us(700));
  EXPECT_TRUE(one.result().start.is_never());
  one.run.traffic.set_running(0, true, at_us(700));
  one.run.run();
  EXPECT_EQ(one.result().start, at_us(705));
}

TEST(FlowGroups, TimesToComeMoveByTheTimeThatItStood) {
  const Graph g = star(2, k100G, kUs);
  std::vector<FlowSpec> flows = {in_group(flow_of(g, {"h0", "s", "h1"}, 4'000)),
                                 in_group(flow_of(g, {"h0", "s", "h1"}, 4'000, Duration::us(50))),
                                 in_group(flow_of(g, {"h0", "s", "h1"}, 4'000))};
  flows[2].after = {1};
  flows[2].start = Duration::us(10);
  FlowRun run(g, flows, store_and_forward(), quick());
  until(run, at_us(20));
  run.traffic.set_running(0, false, at_us(20));
  until(run, at_us(120));
  run.traffic.set_running(0, true, at_us(120));
  run.run();
  const auto& results = run.traffic.results();
  EXPECT_EQ(results[1].start, at_us(150));
  EXPECT_EQ(results[2].start, results[1].received + Duration::us(10));
}

void run(FlowModel& model) {
  model.start();
  while (model.finished() < model.times().size() && !model.next().is_never()) model.step();
}

struct Rates {
  explicit Rates(std::vector<FlowSpec> listed) : flows(std::move(listed)) {
    for (uint32_t i = 0; i < flows.size(); ++i) {
      senders.paths.push_back(flows[i].path);
      senders.of.push_back(i);
    }
  }
  FlowModel model(std::vector<RateChange> changes, const std::vector<GroupChange>& groups = {}) {
    return {graph, flows, senders, frames, true, std::move(changes), groups};
  }
  Graph graph = star(2, k100G, kUs);
  std::vector<FlowSpec> flows;
  FlowSenders senders;
  FlowSettings frames = bare();
};

TEST(FlowGroups, RatesStopAndGoOn) {
  const Graph g = star(2, k100G, kUs);
  // 320 us at 100 Gbit/s each, alone.
  Rates rates({in_group(flow_of(g, {"h0", "s", "h1"}, 4'000'000)),
               flow_of(g, {"h0", "s", "h1"}, 4'000'000)});
  FlowModel model = rates.model({}, {{at_us(100), 0, false}, {at_us(500), 0, true}});
  run(model);
  ASSERT_EQ(model.finished(), 2u);
  // Half each for 100 us; then the other has 270 us left alone; this one 270 us from 500 us on.
  EXPECT_EQ(model.times()[1].received, at_us(100 + 270 + 2));
  EXPECT_EQ(model.times()[0].received, at_us(500 + 270 + 2));
}

TEST(FlowGroups, HeldRatesWaitForTheirStart) {
  const Graph g = star(2, k100G, kUs);
  Rates rates({held(flow_of(g, {"h0", "s", "h1"}, 4'000'000))});
  FlowModel never = rates.model({});
  run(never);
  EXPECT_EQ(never.finished(), 0u);
  EXPECT_EQ(never.stopped(), 1u);
  FlowModel model = rates.model({}, {{at_us(40), 0, true}});
  run(model);
  EXPECT_EQ(model.times()[0].start, at_us(45));
}

TEST(NetworkChanges, RatesStandWhileALinkIsDownOrANodeIsPaused) {
  const Graph g = star(2, k100G, kUs);
  Rates rates({flow_of(g, {"h0", "s", "h1"}, 4'000'000)});
  const LinkId link = rates.flows[0].path[0];
  FlowModel model = rates.model({{.at = at_us(100), .link = link, .down = true},
                                 {.at = at_us(150), .link = link, .paused = true},
                                 {.at = at_us(200), .link = link, .down = false},
                                 {.at = at_us(300), .link = link, .paused = false}});
  run(model);
  EXPECT_EQ(model.times()[0].received, at_us(320 + 200 + 2));
}

}  // namespace
}  // namespace understudy
