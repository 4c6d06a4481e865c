// The loop of congestion control closed: the reference node sends through a marking switch to an
// emulated node, which answers by CNPs that cut the reference node's rate; against the same flow as
// [[traffic]], packet by packet, under the same control.
#include <cmath>
#include <cstdio>

#include "ctrl/compile/qp_control.h"
#include "ctrl/compile/rank_job.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/network/lone_packets.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/shards/shard_control.h"
#include "ctrl/traffic/flow_routes.h"
#include "dataplane/node/services.h"
#include "dataplane/node/traffic_source.h"
#include "dataplane/virtual_time/simulation.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr Duration kStep = Duration::us(200);  ///< between two looks at what has been sent
constexpr Duration kNever = Duration::ps(INT64_MAX);

/// Bytes that the sender's NIC had sent by each multiple of kStep, frames with their overhead.
struct Curve {
  std::vector<uint64_t> sent;
  Duration took;  ///< until the last acknowledgement was at the sender

  uint64_t at(size_t i) const { return i < sent.size() ? sent[i] : sent.back(); }
};

/// A ring all-reduce of four, and the data of one of its ranks alone: 2 * 3 of 4 parts go from
/// "gpu" to "slow", to which the switch has a link of 25 Gbit/s only.
struct Loop {
  std::string control;   ///< [[control]] table but for its name and interval
  std::string interval;  ///< of CNPs
  std::string ecn = "{ kmin = \"200KB\", kmax = \"200KB\", pmax = 1 }";
  uint64_t seed = 1;
  std::string buffer = "8MiB", rate = "25Gbit/s";  ///< of the switch, of its link to "slow"
  std::string more = "";                           ///< keys of that link

  std::string network(bool real = true) const {
    const std::string fast = "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
    return "format = 1\nseed = " + std::to_string(seed) +
           "\n[fabric]\nmtu = 4096\ncnp_interval = \"" + interval +
           "\"\n"
           "[queues]\nbuffer = \"" +
           buffer +
           "\"\n[[queues.class]]\npriorities = [6]\nscheduling = "
           "\"strict\"\n[[queues.class]]\necn = " +
           ecn + "\n[[control]]\nname = \"c\"\nlaw = \"dcqcn\"\ncnp_interval = \"" + interval +
           "\"\n" + control +
           "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
           "[[node]]\nname = \"gpu\"\nreal = " +
           (real ? "true\n" : "false\n") + fast + "[[node]]\nname = \"slow\"\n" + fast +
           "[[node]]\nname = \"w\"\ncount = 2\n" + fast +
           (real ? "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\nrate = \"100Gbit/s\"\n" : "") +
           "[topology]\nkind = \"single_switch\"\n"
           "[[topology.override]]\nlink = \"switch0 -> slow\"\nrate = \"" +
           rate + "\"\n" + more;
  }
  Config ring(bool real) const {
    return config_of(network(real) +
                     "[[job]]\nname = \"ring\"\ncollective = \"all_reduce\"\nranks = [\"gpu\", "
                     "\"slow\", \"w*\"]\nsizes = [\"16MiB\"]\nentry = \"scheduled\"\n"
                     "traffic_class = 2\ncontrol = \"c\"\n");
  }
  /// The network with the control in use.
  Config write() const {
    return config_of(network() + "[[service]]\nnode = \"slow\"\nport = 1\ncontrol = \"c\"\n");
  }
  Config flow() const {
    return config_of(network() +
                     "[flows]\nack_every = 64\n"
                     "[[traffic]]\npattern = \"flow\"\nfrom = \"gpu\"\nto = \"slow\"\n"
                     "size = \"24MiB\"\ncontrol = \"c\"\n");
  }
};

/// What a capture shows of the data from "gpu" to "slow", whose marks and CNPs must be right.
Curve curve_of(const Config& config, const std::string& capture) {
  const Analysis analysis = judged(capture, nullptr);
  for (const Rule rule : {Rule::kA6_1, Rule::kA6_2, Rule::kA6_3, Rule::kA6_4}) {
    EXPECT_EQ(analysis.findings.verdict(rule) == Verdict::kFails, false);
  }
  const NicConfig& from = config.nodes[0].nics[0];
  const NicConfig& to = config.nodes[1].nics[0];
  Curve curve;
  Time start;
  uint64_t sent = 0;
  for (const PacketRecord& p : analysis.table.packets) {
    const Flow& flow = analysis.table.flows[p.flow];
    if (flow.src != *from.v4 || flow.dst != *to.v4) continue;
    if (p.payload_bytes <= 64) continue;  // credits, and no payload
    if (sent == 0) start = p.at;
    while (p.at - start >= kStep * static_cast<int64_t>(curve.sent.size())) {
      curve.sent.push_back(sent);
    }
    sent += p.wire_bytes;
    curve.took = p.at - start;
  }
  curve.sent.push_back(sent);
  return curve;
}

Curve of_ring(const Config& config) {
  const ScratchFile capture("ring.pcapng");
  const RunReport report = simulated(config, capture.path());
  EXPECT_FALSE(report.jobs.at(0).failed);
  EXPECT_EQ(report.ports.at(0).senders.size(), 2u);
  const SenderReport& reference = report.ports[0].senders.back();
  EXPECT_TRUE(reference.reference);
  EXPECT_GE(reference.cnps, 100u);
  EXPECT_GE(reference.rate_cuts, 50u);
  Curve curve = curve_of(config, capture.path());
  curve.took = report.jobs[0].collectives.at(0).node_reported.value();
  return curve;
}

/// The same ring with all ranks emulated, which knows no plan.
Curve of_ranks(const Config& config) {
  const auto topology = build_topology(config);
  EXPECT_TRUE(topology);
  std::vector<FlowSpec> flows;
  uint32_t connections = 0;
  const auto job = build_rank_job(config, config.jobs[0], *topology, flows, connections);
  EXPECT_TRUE(job);
  EXPECT_TRUE(route_flows(*topology, config.seed, flows));
  FlowTraffic ends(topology->graph, flows, config.queues.flows, flow_controls(config));
  const NetworkSettings settings = network_settings(config);
  NextHops routing = topology->next_hops(config.seed);
  Network network(topology->graph, settings, ends, &routing);
  job->ranks->attach(ends);
  ends.start(network);
  job->ranks->start();
  Curve curve;
  Time first = Time::never();
  while (!job->ranks->finished()) {
    uint64_t sent = 0;
    for (size_t i = 0; i < flows.size(); ++i) {
      const FlowResult& flow = ends.results()[i];
      if (flows[i].from != topology->nics[0][0] || flows[i].bytes <= 64) continue;  // credits
      sent += flow.packets * (config.queues.flows.payload + config.queues.flows.overhead +
                              config.queues.flows.gap);
      first = std::min(first, flow.start);
    }
    curve.sent.push_back(sent);
    const Time start = first.is_never() ? Time::zero() : first;
    network.run(start + kStep * static_cast<int64_t>(curve.sent.size()));
  }
  curve.took = job->ranks->completion(0, 0) - job->ranks->entry(0, 0);
  return curve;
}

/// One WRITE of the reference node to an emulated node's memory, as long as the flow is.
Curve of_write(const Config& config, SenderReport& reference, Time limit = Time::never()) {
  const Topology topology = build_topology(config).value();
  auto switched = SharedNetwork::create(config, topology, false);
  EXPECT_TRUE(switched);
  ShardConfig emulator_config = emulator_shard(config, {0}, MacAddress{}, &topology);
  (*switched)->enter(emulator_config);
  ShardConfig reference_config = reference_shard(config, {0});
  Shard emulator(emulator_config), node(reference_config);
  ShardControl far(emulator), near(node);
  MemoryTarget target;
  TrafficProgress progress;
  const uint32_t bytes = 24 << 20;
  TrafficSource source({WorkOp::kWrite, bytes, 1, 1}, progress);
  const auto region = far.add_region(1, bytes, kAccessRemoteWrite, RegionKind::kDiscard);
  QpConfig ours, theirs;
  ours.node = 0;
  theirs.node = 1;
  ours.qpn = theirs.remote_qpn = near.take_qpn();
  theirs.qpn = ours.remote_qpn = far.take_qpn();
  ours.mtu = theirs.mtu = config.fabric.mtu;
  const NicConfig &gpu = config.nodes[0].nics[0], &slow = config.nodes[1].nics[0];
  ours.addressing = addressing(gpu, slow, 2);
  ours.addressing.dst_mac = slow.mac;
  theirs.addressing = addressing(slow, gpu, 2);
  SenderConfig sender;
  sender.control = 0;
  near.add_qp(
      ours, source, false, [&](Qp& qp) { source.set_qp(qp); },
      make_qp_control(config, &(*switched)->topology(), sender, 1, 0, config.ports[0],
                      config.fabric.mtu, true));
  far.add_qp(theirs, target, false);
  const RemoteBuffer remote{region->va, region->rkey, 0};
  near.wake(source, reinterpret_cast<uint64_t>(&remote));
  const ScratchFile capture("write.pcapng");
  const bool whole = limit.is_never();
  auto simulation =
      Simulation::create({{"gpu", &emulator, &node}}, whole ? capture.path() : std::string());
  EXPECT_TRUE(simulation);
  EXPECT_TRUE((*simulation)->run(limit));
  EXPECT_TRUE((*simulation)->close());
  if (!whole) return {{}, progress.completed == 1 ? progress.last - progress.first : kNever};
  EXPECT_EQ(progress.completed, 1u);
  ShardSnapshot snapshot;
  node.fit(snapshot);
  node.snapshot(snapshot, progress.last);
  reference.cnps = snapshot.controls.at(0).cnps;
  reference.rate_cuts = snapshot.controls[0].cuts;
  Curve curve = curve_of(config, capture.path());
  curve.took = progress.last - progress.first;
  return curve;
}

Curve of_flow(const Config& config, FlowResult& result, Time limit = Time::never()) {
  const auto topology = build_topology(config);
  EXPECT_TRUE(topology);
  const auto traffic = build_traffic(config, *topology);
  EXPECT_TRUE(traffic);
  std::vector<FlowSpec> flows = traffic->flows;
  EXPECT_TRUE(route_flows(*topology, config.seed, flows));
  FlowTraffic ends(topology->graph, flows, config.queues.flows, flow_controls(config));
  const NetworkSettings settings = network_settings(config);
  NextHops routing = topology->next_hops(config.seed);
  Network network(topology->graph, settings, ends, &routing);
  ends.start(network);
  Curve curve;
  const LinkId uplink = topology->graph.out(flows[0].from).front();
  for (Time t = Time::zero(); !ends.all_finished() && t <= limit; t += kStep) {
    network.run(t);
    curve.sent.push_back(network.counters(uplink).wire_bytes);
  }
  result = ends.results()[0];
  curve.took = ends.all_finished() ? result.acknowledged - result.start : kNever;
  return curve;
}

/// Most that the bytes sent were ever apart, as a share of all.
double apart(const Curve& a, const Curve& b) {
  double most = 0;
  for (size_t i = 0; i < std::max(a.sent.size(), b.sent.size()); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.at(i)) - static_cast<double>(b.at(i))));
  }
  return most / static_cast<double>(b.sent.back());
}

void compare(const Loop& loop, const Curve& its, const SenderReport& reference, double allowed) {
  FlowResult flow;
  const Curve alone = of_flow(loop.flow(), flow);
  EXPECT_GE(reference.cnps, 5u);
  EXPECT_GE(reference.rate_cuts, 5u);
  const double most = apart(its, alone);
  const double longer = (its.took - alone.took).seconds() / alone.took.seconds();
  std::printf(
      "[ loop     ] reference node %.4f ms, [[traffic]] %.4f ms: %+.3f %%; bytes sent at most "
      "%.3f %% apart at any time; %llu and %llu CNPs\n",
      its.took.seconds() * 1e3, alone.took.seconds() * 1e3, longer * 100, most * 100,
      static_cast<unsigned long long>(reference.cnps), static_cast<unsigned long long>(flow.cnps));
  EXPECT_LT(std::abs(longer), allowed);
  EXPECT_LT(most, allowed);
  // The rate was the control's, not the link's.
  EXPECT_GT(alone.took, Rate::bits_per_second(25'000'000'000).time_for(24 << 20));
}

// rules: A6.1 A6.2 A6.6
TEST(Loop, OneWriteOfTheReferenceNodeIsTheFlowOfPlainSimulation) {
  // Not 4 us for NVIDIA's set: that is its period of cuts too, and which of both comes first at one
  // instant would turn on the picoseconds that a WRITE's first header takes.
  const std::pair<const char*, const char*> cases[] = {
      {"preset = \"paper\"\n", "50us"},
      {"preset = \"timers-of-paper\"\necho = \"cnp\"\n", "4us"},
      {"preset = \"nvidia\"\nmin_rate = \"1Gbit/s\"\n", "5us"},
  };
  for (const auto& [control, interval] : cases) {
    SCOPED_TRACE(control);
    std::printf("[ loop     ] %s", control);
    const Loop loop{control, interval};
    SenderReport reference;
    const Curve curve = of_write(loop.write(), reference);
    compare(loop, curve, reference, 0.01);
  }
}

// Marks drawn at random fall on other packets, for the two differ by nanoseconds: over seeds it is
// the same distribution.
TEST(Loop, WithRandomMarksTheMeansAgree) {
  constexpr int kSeeds = 24;
  Loop loop{"preset = \"timers-of-paper\"\necho = \"cnp\"\n", "4us"};
  loop.ecn = "{ kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }";
  double sum[2] = {}, squares[2] = {};
  for (loop.seed = 1; loop.seed <= kSeeds; ++loop.seed) {
    SenderReport reference;
    FlowResult flow;
    const double took[] = {of_write(loop.write(), reference).took.seconds() * 1e3,
                           of_flow(loop.flow(), flow).took.seconds() * 1e3};
    for (int i = 0; i < 2; ++i) {
      sum[i] += took[i];
      squares[i] += took[i] * took[i];
    }
  }
  double mean[2], variance = 0;
  for (int i = 0; i < 2; ++i) {
    mean[i] = sum[i] / kSeeds;
    variance += (squares[i] / kSeeds - mean[i] * mean[i]) / (kSeeds - 1);
  }
  const double error = std::sqrt(variance);
  std::printf("[ loop     ] %d seeds: %.3f ms, %.3f ms: %+.3f %%, standard error %.3f %%\n", kSeeds,
              mean[0], mean[1], (mean[0] / mean[1] - 1) * 100, error / mean[1] * 100);
  EXPECT_LT(std::abs(mean[0] - mean[1]), 4 * error);
  EXPECT_LT(error / mean[1], 0.005);
}

// rules: A5.5
// The link to "slow" goes down under one packet, which both sides' go-back-N sends again.
TEST(Loop, ALostPacketIsRepairedAlike) {
  Loop loop{"preset = \"paper\"\n", "50us"};
  loop.more = "down = [{ from = \"300us\", to = \"310us\" }]\n";
  SenderReport reference;
  FlowResult flow;
  const Curve its = of_write(loop.write(), reference), alone = of_flow(loop.flow(), flow);
  EXPECT_EQ(flow.lost, 1u);
  EXPECT_GT(flow.repeated, 10u);
  EXPECT_NEAR(its.took.seconds() / alone.took.seconds(), 1, 0.001);
  EXPECT_EQ(its.sent.back() / 4178, alone.sent.back() / 4178);
}

// Where the switch's buffer overflows, all depends on whether the first packet that is sent again
// finds a place: a second gap is not told, so that its loss is found by the timeout only, 67 ms
// later, when the rate has recovered and the buffer overflows once more. What decides is the phase
// of arrivals and departures, nanoseconds. Where the rates are whole multiples of each other it is
// the same each time, and a WRITE's 16 bytes more in its first packet make the difference between
// no timeout and a hundred; else it falls as often for one as for the other.
TEST(Loop, WhereBuffersOverflowAsManyMeetATimeout) {
  constexpr uint64_t kDraws = 60;
  const Time limit = Time::zero() + Duration::ms(60);  // before the first timeout
  int late[2] = {};
  Loop loop{"preset = \"timers-of-paper\"\necho = \"cnp\"\n", "4us"};
  loop.buffer = "400KiB";
  loop.ecn = "{ kmin = \"20KB\", kmax = \"120KB\", pmax = 0.2 }";
  for (loop.seed = 1; loop.seed <= kDraws; ++loop.seed) {
    loop.rate = std::to_string(20000 + loop.seed * 157) + "Mbit/s";
    SenderReport reference;
    FlowResult flow;
    late[0] += of_write(loop.write(), reference, limit).took == kNever;
    late[1] += of_flow(loop.flow(), flow, limit).took == kNever;
    EXPECT_GT(flow.lost, 0u);
  }
  std::printf("[ loop     ] of %d runs %d and %d meet a timeout\n", static_cast<int>(kDraws),
              late[0], late[1]);
  EXPECT_GT(std::min(late[0], late[1]), 0);
  // Four standard deviations of a difference of two such counts.
  const double share = (late[0] + late[1]) / (2.0 * kDraws);
  EXPECT_LT(std::abs(late[0] - late[1]), 4 * std::sqrt(2 * share * (1 - share) * kDraws));
}

/// A ring beside the reference node against the same ring with all ranks emulated, over rates of
/// the link that marks.
struct Rings {
  double mean = 0, worst = 0, error = 0;  ///< of how much longer one takes: standard error
  double apart = 0;                       ///< most of the bytes sent, on the average
};

Rings compare_rings(const std::string& control, int draws) {
  Loop loop{control, "4us"};
  Rings rings;
  double squares = 0;
  for (int i = 0; i < draws; ++i) {
    loop.rate = std::to_string(20'000 + 9'500 * i / draws) + "Mbit/s";
    SCOPED_TRACE(loop.rate);
    const Curve ring = of_ring(loop.ring(true)), ranks = of_ranks(loop.ring(false));
    const double longer = ring.took.seconds() / ranks.took.seconds() - 1;
    rings.mean += longer / draws;
    rings.worst = std::max(rings.worst, std::abs(longer));
    rings.apart += apart(ring, ranks) / draws;
    squares += longer * longer / draws;
  }
  rings.error = std::sqrt((squares - rings.mean * rings.mean) / (draws - 1));
  std::printf(
      "[ loop     ] a ring beside the reference node and with all ranks emulated, %d rates: %+.3f "
      "%% "
      "on the average, standard error %.3f %%, at most %.3f %%; bytes sent %.3f %% apart\n",
      draws, rings.mean * 100, rings.error * 100, rings.worst * 100, rings.apart * 100);
  return rings;
}

const std::string kPapersTimers = "preset = \"timers-of-paper\"\necho = \"cnp\"\n";

// A whole job, against all its ranks packet by packet, each under the same control. One flow of as
// many bytes is another thing: a ring's messages wait for each other, and queues drain meanwhile.
TEST(Loop, ARingUnderDcqcnIsThatOfAllRanks) {
  const Rings rings = compare_rings(kPapersTimers + "rate_changes_gap = true\n", 16);
  EXPECT_LT(std::abs(rings.mean), 0.002);
  EXPECT_LT(rings.worst, 0.01);
  EXPECT_LT(rings.apart, 0.02);
}

// Where a packet's gap stays as long as the rate was when it left, the first congestion ends some
// 100 us sooner or later by the phase of packets and timers, nanoseconds: single runs differ.
TEST(Loop, ARingWhoseGapsStayIsThatOfAllRanksOnTheAverage) {
  const Rings rings = compare_rings(kPapersTimers, 40);
  EXPECT_LT(std::abs(rings.mean), 0.02);
  EXPECT_LT(rings.error, 0.005);
}

}  // namespace
}  // namespace understudy
