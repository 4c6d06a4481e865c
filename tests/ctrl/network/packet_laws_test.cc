// Laws of every run packet by packet, over random networks, settings and traffic.
#include <set>

#include "ctrl/compile/shard_config.h"
#include "ctrl/report/json.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"
#include "tests/rigs/law_watch.h"
#include "tests/rigs/lone_run.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kSeeds = 120;

/// Runs to its end and lets what is under way arrive. False: PFC has locked it up.
bool finish(LawWatch& watch, const FlowTraffic& traffic) {
  Network& network = watch.network();
  for (uint64_t n = 1; !network.next().is_never(); ++n) {
    watch.step();
    if (n % 4096 == 0 && !traffic.all_finished() && !network.deadlock().empty()) return false;
  }
  return true;
}

struct Watched {
  explicit Watched(const LawCase& c)
      : settings(network_settings(c.config)),
        traffic(c.graph(), c.flows, c.config.queues.flows, flow_controls(c.config)),
        watch(c, settings, traffic) {}
  NetworkSettings settings;
  FlowTraffic traffic;
  LawWatch watch;
};

/// What came into a switch has gone out of it or was lost there.
void expect_conserved(const LawCase& c, Watched& run) {
  const Graph& graph = c.graph();
  std::vector<int64_t> inside(graph.vertices().size());
  std::array<uint64_t, kPacketLosses> lost{};
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    const NetworkLinkCounters& n = run.watch.network().counters(link);
    const auto count = [&](PacketLoss why) { return n.lost[static_cast<size_t>(why)]; };
    const uint64_t on_wire = count(PacketLoss::kLink) + count(PacketLoss::kOutage);
    const uint64_t in_front = count(PacketLoss::kBuffer) + count(PacketLoss::kHeadroom);
    inside[graph.link(link).to] += static_cast<int64_t>(n.packets - on_wire);
    inside[graph.link(link).from] -= static_cast<int64_t>(n.packets + in_front);
    for (size_t why = 0; why < kPacketLosses; ++why) lost[why] += n.lost[why];
    EXPECT_EQ(run.watch.network().queued_bytes(link), 0u);
  }
  for (VertexId v = 0; v < inside.size(); ++v) {
    if (graph.vertices()[v].kind != VertexKind::kSwitch) continue;
    EXPECT_EQ(inside[v], 0) << graph.vertices()[v].name;
  }
  EXPECT_EQ(lost, run.watch.lost());
  uint64_t all_lost = 0;
  for (const uint64_t n : lost) all_lost += n;
  EXPECT_EQ(run.watch.in_flight(), 0u);
  EXPECT_EQ(run.watch.pulled(), run.watch.delivered() + all_lost);
  EXPECT_EQ(run.watch.network().packets_in_flight(), 0u);
  for (size_t i = 0; i < c.flows.size(); ++i) {
    EXPECT_EQ(run.traffic.results()[i].delivered, c.flows[i].bytes) << c.flows[i].name;
  }
}

uint64_t all_lost(const LawWatch& watch) {
  uint64_t sum = 0;
  for (const uint64_t n : watch.lost()) sum += n;
  return sum;
}

/// Nothing is faster than the capacity out of any set of vertices allows. NICs and random sets.
void expect_cut_bound(const LawCase& c, const std::vector<FlowResult>& results,
                      std::mt19937_64& random) {
  const Graph& graph = c.graph();
  const FlowSettings& frames = c.config.queues.flows;
  const size_t vertices = graph.vertices().size();
  for (size_t cut = 0; cut < 2 * vertices + 20; ++cut) {
    std::vector<bool> inside(vertices);
    for (size_t v = 0; v < vertices; ++v) {
      inside[v] = cut < vertices       ? v == cut
                  : cut < 2 * vertices ? v != cut - vertices
                                       : random() % 2 != 0;
    }
    uint64_t rate = 0, bytes = 0;
    Duration latency = Duration::max();
    for (const GraphLink& link : graph.links()) {
      if (!inside[link.from] || inside[link.to]) continue;
      rate += link.rate.bps();
      latency = std::min(latency, link.latency);
    }
    Time first = Time::never(), last;
    for (size_t i = 0; i < c.flows.size(); ++i) {
      const FlowSpec& f = c.flows[i];
      if (!inside[f.from] || inside[f.to]) continue;
      const uint64_t packets = (f.bytes + frames.payload - 1) / frames.payload;
      bytes += f.bytes + packets * (frames.overhead + frames.gap);
      first = std::min(first, results[i].start);
      last = std::max(last, results[i].received);
    }
    if (bytes == 0) continue;
    EXPECT_GE(last - first, Rate::bits_per_second(rate).time_for(bytes) + latency) << "cut " << cut;
  }
}

TEST(PacketLaws, WithLossesAndControls) {
  uint64_t losses = 0, most_kinds = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    LawOptions options;
    options.losses = options.controls = options.spray = true;
    const LawCase c(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    Watched run(c);
    ASSERT_TRUE(finish(run.watch, run.traffic));
    ASSERT_TRUE(run.traffic.all_finished());
    expect_conserved(c, run);
    std::mt19937_64 random(seed);
    expect_cut_bound(c, run.traffic.results(), random);
    losses += all_lost(run.watch);
    uint64_t kinds = 0;
    for (const uint64_t n : run.watch.lost()) kinds += n != 0 ? 1 : 0;
    most_kinds = std::max(most_kinds, kinds);
  }
  EXPECT_GT(losses, 100u);
  EXPECT_GE(most_kinds, 2u);
}

TEST(PacketLaws, WithPfcAndHeadroomNothingIsLost) {
  uint64_t pauses = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    LawOptions options;
    options.controls = seed % 2 == 0;
    options.spray = true;
    options.cycles = false;
    const LawCase c(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    Watched run(c);
    ASSERT_TRUE(finish(run.watch, run.traffic));
    ASSERT_TRUE(run.traffic.all_finished());
    EXPECT_EQ(all_lost(run.watch), 0u);
    expect_conserved(c, run);
    std::mt19937_64 random(seed);
    expect_cut_bound(c, run.traffic.results(), random);
    for (LinkId link = 0; link < c.graph().links().size(); ++link) {
      pauses += run.watch.network().counters(link).pauses;
    }
  }
  EXPECT_GT(pauses, 100u);
}

/// All times of a run, and what was counted on the way.
struct Trace {
  explicit Trace(const LawCase& c, int64_t k = 1) {
    const auto run = run_packets(c.config, c.graph(), c.next_hops(), c.flows);
    if (!run) {
      ADD_FAILURE() << run.error().text;
      return;
    }
    for (const FlowResult& f : run->flows) {
      for (const Time t : {f.start, f.received, f.acknowledged}) times.push_back(t.ps() * k);
      for (const uint64_t n : {f.packets, f.repeated, f.marked, f.lost, f.cnps})
        counts.push_back(n);
    }
    for (const NetworkLinkCounters& l : run->links) {
      for (const uint64_t n :
           {l.packets, l.wire_bytes, l.marked, l.not_ect, l.queue_peak, l.pauses, l.resumes}) {
        counts.push_back(n);
      }
      counts.insert(counts.end(), l.lost.begin(), l.lost.end());
      for (const Duration d : {l.queue_peak_at - Time::zero(), l.paused})
        times.push_back(d.ps() * k);
    }
  }
  std::vector<int64_t> times;
  std::vector<uint64_t> counts;
};

TEST(PacketLaws, KTimesTheRatesAndTheKthPartOfAllTimesIsTheSameRun) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    LawOptions options;
    options.losses = seed % 3 == 0;
    options.cycles = seed % 2 == 0;
    options.pfc = !options.cycles;
    const LawCase c(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    const Trace one(c);
    for (const int64_t k : {2, 4}) {
      options.k = k;
      const LawCase faster(seed, options);
      ASSERT_TRUE(faster.ok);
      const Trace other(faster, k);
      EXPECT_EQ(one.counts, other.counts) << "k = " << k;
      EXPECT_EQ(one.times, other.times) << "k = " << k;
    }
  }
}

/// Links from a switch to a NIC that all packets come to by one and the same link, with that link.
std::vector<std::pair<LinkId, LinkId>> fed_by_one(const LawCase& c) {
  const Graph& graph = c.graph();
  std::vector<std::set<LinkId>> feeds(graph.links().size());
  Routes routes = c.topology.routes(c.config.seed);
  for (const FlowSpec& flow : c.flows) {
    std::vector<std::vector<LinkId>> paths = routes.paths(flow.from, flow.to, flow.most_paths);
    if (flow.most_paths == 1) paths = {path_of(routes, flow)};
    paths.push_back(path_back_of(routes, flow));
    for (const auto& path : paths) feeds[path.back()].insert(path[path.size() - 2]);
  }
  std::vector<std::pair<LinkId, LinkId>> found;
  for (LinkId link = 0; link < feeds.size(); ++link) {
    if (feeds[link].size() == 1) found.emplace_back(link, *feeds[link].begin());
  }
  return found;
}

// Where all packets come by one link that is no faster, no queue forms. In cut-through the last
// byte leaves as it comes, so that a faster last link changes no time at all. (With switches that
// store it takes a packet's time less: see the chain below. A faster link in the middle has its
// packets begin later, to send them in one piece: up to one packet's time.) What happens at one and
// the same instant may happen in another order, so that odd latencies and starts keep instants
// apart here; and a buffer's threshold moves with what is in it, so that nothing is paused here.
TEST(PacketLaws, AFasterLinkThatIsNowhereTheBottleneckChangesNothing) {
  size_t raised = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    LawOptions options;
    options.spray = true;
    options.cycles = options.pfc = false;
    LawCase c(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    c.config.queues.network.cut_through = true;
    std::mt19937_64 random(seed);
    for (LinkId link = 0; link < c.graph().links().size(); ++link) {
      c.topology.graph.link(link).latency += Duration::ps(static_cast<int64_t>(random() % 100'000));
    }
    for (FlowSpec& flow : c.flows)
      flow.start += Duration::ps(static_cast<int64_t>(random() % 100'000));
    const auto links = fed_by_one(c);
    for (const auto& [link, feed] : links) {
      Rate& rate = c.topology.graph.link(link).rate;
      rate = std::max(rate, c.graph().link(feed).rate);
    }
    const auto base = run_packets(c.config, c.graph(), c.next_hops(), c.flows);
    for (const auto& [link, feed] : links) {
      Rate& rate = c.topology.graph.link(link).rate;
      rate = Rate::bits_per_second(rate.bps() * 3 + 7);
      ++raised;
    }
    const auto faster = run_packets(c.config, c.graph(), c.next_hops(), c.flows);
    ASSERT_TRUE(base && faster);
    for (size_t i = 0; i < c.flows.size(); ++i) {
      EXPECT_EQ(base->flows[i].start, faster->flows[i].start) << i;
      EXPECT_EQ(base->flows[i].received, faster->flows[i].received) << i;
      EXPECT_EQ(base->flows[i].acknowledged, faster->flows[i].acknowledged) << i;
    }
    EXPECT_EQ(base->packets, faster->packets);
  }
  EXPECT_GT(raised, kSeeds / 4);
}

// One flow of full packets over a chain, against the recursion over its links: so a link that is
// not the slowest changes a packet's time and no more.
TEST(PacketLaws, OneFlowOverAChainTakesTheTimeOfItsRecursion) {
  for (uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Graph graph;
    FlowSpec flow;
    flow.from = graph.add_vertex({VertexKind::kNic, "a", 0, 0, 0});
    const size_t hops = 2 + random() % 5;
    for (size_t i = 0; i < hops; ++i) {
      const bool last = i + 1 == hops;
      const VertexId to = graph.add_vertex(
          {last ? VertexKind::kNic : VertexKind::kSwitch, numbered("v", i), 1, 0, 0});
      flow.path.push_back(graph.connect(i == 0 ? flow.from : graph.link(flow.path.back()).to, to,
                                        Rate::bits_per_second(25'000'000'000u << random() % 5),
                                        Duration::ns(static_cast<int64_t>(random() % 3000))));
      flow.to = to;
    }
    const uint64_t packets = 1 + random() % 40;
    flow.bytes = packets * 4096;
    Config config;
    config.queues.network.classes = {ClassSettings()};
    config.queues.network.cut_through = random() % 2 == 0;
    const auto run = run_packets(config, graph, NextHops(graph, RouteChoice::kEcmp, 1), {flow});
    ASSERT_TRUE(run) << run.error().text;
    const uint32_t wire = 4096 + config.queues.flows.overhead + config.queues.flows.gap;
    std::vector<Duration> free(hops);  // when each link is idle again, with the latencies before it
    Duration end;
    for (uint64_t n = 0; n < packets; ++n) {
      Duration head = n == 0 ? Duration() : free[0], tail = head;
      for (size_t i = 0; i < hops; ++i) {
        const GraphLink& link = graph.link(flow.path[i]);
        const Duration time = link.rate.time_for(wire);
        const Duration may =
            !config.queues.network.cut_through ? tail : std::max(head, tail - time);
        const Duration begin = std::max(may, free[i]);
        free[i] = std::max(tail, begin + time);
        head = begin + link.latency;
        tail = free[i] + link.latency;
      }
      end = tail;
    }
    EXPECT_EQ(run->flows[0].received - Time::zero(), end);
  }
}

TEST(PacketLaws, EqualConfigurationsGiveEqualBytes) {
  for (uint64_t seed = 1; seed <= 25 && !testing::Test::HasFailure(); ++seed) {
    LawOptions options;
    options.losses = seed % 2 == 0;
    options.controls = options.spray = true;
    options.cycles = options.losses;
    const LawCase c(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text());
    ASSERT_TRUE(c.ok);
    const auto one = compile_and_simulate(c.config);
    const auto other = compile_and_simulate(LawCase(seed, options).config);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(report_json(*one), report_json(*other));
  }
}

}  // namespace
}  // namespace understudy
