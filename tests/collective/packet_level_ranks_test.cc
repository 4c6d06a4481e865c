// All ranks of a collective, packet by packet: every schedule runs to its end, and rings take to
// the picosecond what the plan's recurrence gives where nothing but the model delays them.
#include "dataplane/collective/packet_level_ranks.h"

#include <random>

#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kKiB = 1024;

/// NICs at a switch by two cables each: the second, for credits and acknowledgements, takes no
/// time but its latency.
Graph two_stars(unsigned hosts, Rate rate, Duration latency) {
  Graph g;
  const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  for (unsigned i = 0; i < hosts; ++i) {
    const VertexId nic = g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0});
    g.connect(nic, s, rate, latency);
    g.connect(nic, s, Rate::bits_per_second(uint64_t{1} << 62), latency);
  }
  return g;
}

struct Case {
  Communicator communicator;
  std::vector<Operation> operations;  ///< one after another
  Rate rate = Rate::bits_per_second(100'000'000'000);
  Duration latency = Duration::us(1);  ///< of a cable
  Duration step_cost = {};
  std::vector<Duration> entry = {};
};

class Ranks {
 public:
  explicit Ranks(const Case& c)
      : g_(two_stars(c.communicator.nodes, c.rate, c.latency)), ranks_(operations(c), costs(c)) {
    std::vector<VertexId> nics;
    for (unsigned i = 0; i < c.communicator.nodes; ++i) nics.push_back(g_.find(numbered("h", i)));
    ranks_.add_flows(
        specs_,
        [&](const Connection& way) {
          return message_ways({&nics[c.communicator.node_of(way.from)], 1},
                              {&nics[c.communicator.node_of(way.to)], 1});
        },
        0);
    uint32_t pairs = 0;  // connections: of credits, then of data
    for (const FlowSpec& flow : specs_) pairs = std::max(pairs, (flow.connection + 1) / 2);
    for (FlowSpec& flow : specs_) {
      const size_t credit = flow.connection < pairs ? 1 : 0;
      flow.path = {g_.out(flow.from)[credit], reverse(g_.out(flow.to)[credit])};
      flow.back = {g_.out(flow.to)[1], reverse(g_.out(flow.from)[1])};
    }
    settings_.classes.emplace_back();
    traffic_ = std::make_unique<FlowTraffic>(g_, specs_, frames_, line_rate);
    net_ = std::make_unique<Network>(g_, settings_, *traffic_);
    ranks_.attach(*traffic_);
    traffic_->start(*net_);
    ranks_.start();
  }
  /// False if not all came to their ends.
  bool run() {
    while (!net_->next().is_never()) net_->step();
    return ranks_.finished() && traffic_->all_finished();
  }
  const PacketLevelRanks& ranks() const { return ranks_; }
  const FlowSettings& frames() const { return frames_; }

 private:
  static std::vector<RankOperation> operations(const Case& c) {
    std::vector<RankOperation> out;
    for (const Operation& operation : c.operations) {
      const Result<void> checked = check_operation(c.communicator, operation);
      EXPECT_TRUE(checked) << (checked ? "" : checked.error().text);
      OperationCut cut;
      if (!is_p2p(operation.collective)) cut = cut_group(c.communicator, {&operation, 1})->at(0);
      RankOperation part;
      for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
        part.ranks.push_back(rank_schedule(c.communicator, operation, cut, r));
      }
      for (const Duration delay : c.entry) part.steps.push_back({.delay = delay});
      out.push_back(std::move(part));
    }
    return out;
  }
  static PacketLevelRanksSettings costs(const Case& c) {
    PacketLevelRanksSettings settings;
    settings.step_cost = c.step_cost;
    return settings;
  }

  Graph g_;
  PacketLevelRanks ranks_;
  std::vector<FlowSpec> specs_;
  FlowSettings frames_;
  NetworkSettings settings_;
  std::unique_ptr<FlowTraffic> traffic_;
  std::unique_ptr<Network> net_;
};

Operation operation(Collective collective, Algorithm algorithm, Protocol protocol, uint64_t count) {
  Operation o;
  o.collective = collective;
  o.algorithm = algorithm;
  o.protocol = protocol;
  o.count = count;
  return o;
}

TEST(PacketLevelRanks, EveryScheduleRunsToItsEnd) {
  struct Kind {
    Collective collective;
    Algorithm algorithm;
    bool simple_only = false;
  };
  const Kind kinds[] = {
      {Collective::kAllReduce, Algorithm::kRing},
      {Collective::kAllReduce, Algorithm::kTree},
      {Collective::kAllGather, Algorithm::kRing},
      {Collective::kReduceScatter, Algorithm::kRing},
      {Collective::kBroadcast, Algorithm::kRing},
      {Collective::kReduce, Algorithm::kRing},
      {Collective::kAllGather, Algorithm::kPat, true},
      {Collective::kReduceScatter, Algorithm::kPat, true},
      {Collective::kSendRecv, Algorithm::kRing, true},
      {Collective::kAllToAll, Algorithm::kRing, true},
      {Collective::kGather, Algorithm::kRing, true},
      {Collective::kScatter, Algorithm::kRing, true},
  };
  std::mt19937 random(7);
  const auto draw = [&](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  for (const Kind& kind : kinds) {
    for (unsigned i = 0; i < 12; ++i) {
      Case c;
      c.communicator.nodes = draw(2, 9);
      c.communicator.gpus = kind.algorithm == Algorithm::kPat ? 1 : 1u << draw(0, 2);
      c.communicator.channels = draw(1, 4);
      const auto protocol =
          kind.simple_only ? Protocol::kSimple : static_cast<Protocol>(draw(0, 2));
      c.operations.assign(draw(1, 2), operation(kind.collective, kind.algorithm, protocol,
                                                uint64_t{1} << draw(0, 18)));
      c.operations[0].count += draw(0, 999);
      c.step_cost = Duration::ns(draw(0, 1) * 700);
      for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
        c.entry.push_back(Duration::us(draw(0, 20)));
      }
      Ranks ranks(c);
      EXPECT_TRUE(ranks.run()) << name_of(kCollectiveNames, kind.collective) << " case " << i
                               << ": " << c.communicator.nodes << " nodes of "
                               << c.communicator.gpus;
    }
  }
}

/// A rank without a message.
struct Idle final : RankSchedule {
  Message message(uint32_t, uint64_t) const override { return {}; }
  Waits waits(uint32_t, uint64_t) const override { return {}; }
};

TEST(PacketLevelRanks, ARankWithoutMessagesIsDoneWhenItEnters) {
  std::vector<RankOperation> operations(2);
  for (RankOperation& operation : operations) {
    operation.ranks.push_back(std::make_unique<Idle>());
    operation.steps.push_back({.delay = Duration::us(3)});
  }
  PacketLevelRanks ranks(std::move(operations), {});
  const Graph g = two_stars(2, Rate::bits_per_second(1'000'000'000), Duration::us(1));
  std::vector<FlowSpec> flows;
  ranks.add_flows(
      flows, [](const Connection&) { return MessageWays(); }, 0);
  NetworkSettings settings;
  settings.classes.emplace_back();
  const FlowSettings frames;
  FlowTraffic traffic(g, flows, frames, line_rate);
  Network net(g, settings, traffic);
  ranks.attach(traffic);
  traffic.start(net);
  ranks.start();
  while (!net.next().is_never()) net.step();
  EXPECT_TRUE(ranks.finished());
  EXPECT_EQ(ranks.completion(0, 0), Time::zero() + Duration::us(3));
  EXPECT_EQ(ranks.completion(1, 0), Time::zero() + Duration::us(6));
}

}  // namespace
}  // namespace understudy
