// The fold is exact: real ranks beside the plan of all others end, and hear of every message, when
// they do in a packet-by-packet run of all ranks, which knows no plan. Cases are drawn from a seed
// that is printed; FOLD_SEED, FOLD_CASES and FOLD_TABLE=1 (all of them, the worst first) change it.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <queue>
#include <random>
#include <set>

#include "collective_model/environment.h"
#include "dataplane/node/rank_traffic.h"
#include "tests/network_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kSeed = 3, kCases = 300;  // with this seed so many cover every pair of factors

struct Case {
  std::string name;
  Communicator communicator;
  Operation operation;
  std::vector<uint32_t> real;  ///< ranks
  std::vector<Duration> entry;
  Duration step_cost;
  uint64_t hop_seed = 0;
  uint32_t payload = 4096;  ///< of a packet

  RingHop hop(uint32_t from_node, uint32_t to_node) const {
    std::mt19937_64 random(hop_seed + from_node * 1000 + to_node);
    constexpr uint64_t kGigabits[] = {25, 100, 200, 400};
    const uint64_t gigabits = kGigabits[random() % std::size(kGigabits)];
    return {Rate::bits_per_second(gigabits * 1'000'000'000),
            Duration::ns(static_cast<int64_t>(random() % 5'000))};
  }
  OperationCut cut() const {
    if (is_p2p(operation.collective)) return {};
    return cut_group(communicator, {&operation, 1})->at(0);
  }
  std::unique_ptr<RankSchedule> schedule(uint32_t rank) const {
    return rank_schedule(communicator, operation, cut(), rank);
  }
};

FlowSettings frames(const Case& c) {
  FlowSettings f;
  f.payload = c.payload;
  f.timeout = Duration();
  return f;
}

std::vector<RankOperation> operations_of(const Case& c) {
  std::vector<RankOperation> out(1);
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) out[0].ranks.push_back(c.schedule(r));
  out[0].entry_delay = c.entry;
  return out;
}

RankTrafficSettings costs(const Case& c) {
  RankTrafficSettings settings;
  settings.step_cost = c.step_cost;
  return settings;
}

std::vector<bool> who_plays(const Case& c, bool all) {
  std::vector<bool> out(c.communicator.ranks(), all);
  for (const uint32_t rank : c.real) out[rank] = true;
  return out;
}

EnvironmentConfig plan_of(const Case& c) {
  EnvironmentConfig config;
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    config.ranks.push_back(c.schedule(r));
    std::vector<RingHop>& hops = config.hops.emplace_back();
    for (const Connection& connection : config.ranks.back()->connections()) {
      hops.push_back(
          c.hop(c.communicator.node_of(connection.from), c.communicator.node_of(connection.to)));
    }
  }
  const FlowSettings f = frames(c);
  config.real = c.real;
  config.entry_delay = c.entry;
  config.wire = {f.payload, f.overhead + f.gap, 0, 0};
  config.step_cost = c.step_cost;
  return config;
}

/// Ranks of which some may be the plan's.
class Ranks : public RankTraffic {
 public:
  Ranks(const Case& c, bool all)
      : RankTraffic(operations_of(c), costs(c), who_plays(c, all)), c_(c), frames_(frames(c)) {
    std::vector<VertexId> nics;
    for (uint32_t i = 0; i < c.communicator.nodes; ++i) {
      nics.push_back(g_.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}));
    }
    const auto nic_of = [&](uint32_t rank, const Connection&) {
      return nics[c.communicator.node_of(rank)];
    };
    const uint32_t connections = add_flows(specs_, nic_of, 0);
    lay_cables(connections);
    settings_.classes.emplace_back();
    traffic_ = std::make_unique<FlowTraffic>(g_, specs_, frames_, line_rate);
    net_ = std::make_unique<Network>(g_, settings_, *traffic_);
    attach(*traffic_);
    traffic_->start(*net_);
    RankTraffic::start();
    if (!all) fold();
  }

  /// False if not all came to their ends.
  bool run() {
    for (;;) {
      take_outputs();
      const Time next = net_->next();
      if (!outputs_.empty() && outputs_.top().time <= next) {
        speak(outputs_.top());
        outputs_.pop();
      } else if (next.is_never()) {
        return finished() && traffic_->all_finished() && (!env_ || env_->finished());
      } else {
        net_->step();
      }
    }
  }

  /// When message `k` of a rank's connection, which it sends, had come in.
  Time received(uint32_t rank, uint32_t connection, uint64_t k) const {
    return traffic_->results()[flow_of(0, rank, connection, k)].received;
  }

 private:
  /// Each connection has two cables of its own: the second, for credits and acknowledgements, takes
  /// no time but its latency.
  void lay_cables(uint32_t connections) {
    std::vector<LinkId> cables(connections, kNoLink);
    for (FlowSpec& flow : specs_) {
      const bool credit = flow.connection % 2 != 0;
      LinkId& cable = cables[flow.connection / 2 * 2];
      if (cable == kNoLink) {  // a connection's data come first
        const RingHop hop = c_.hop(g_.vertices()[flow.from].node, g_.vertices()[flow.to].node);
        cable = g_.connect(flow.from, flow.to, hop.rate, hop.latency);
        cables[flow.connection + 1] =
            g_.connect(flow.to, flow.from, Rate::bits_per_second(uint64_t{1} << 62), hop.latency);
      }
      const LinkId control = cables[flow.connection / 2 * 2 + 1];
      flow.path = {credit ? control : cable};
      flow.back = {credit ? reverse(control) : control};
    }
  }

  void fold() {
    EnvironmentConfig config = plan_of(c_);
    for (const std::vector<RingHop>& hops : config.hops) {
      heard_.emplace_back(hops.size());
      acked_.emplace_back(hops.size());
    }
    Result<Environment> made = Environment::make(std::move(config));
    ASSERT_TRUE(made) << made.error().text;
    env_ = std::make_unique<Environment>(std::move(*made));
    env_->start(Time::zero());
  }
  void take_outputs() {
    if (!env_) return;
    for (EnvironmentOutput out; env_->next(out);) outputs_.push(out);
  }
  void speak(const EnvironmentOutput& out) {
    if (out.kind == EnvironmentOutput::Kind::kData) {
      other_posts(0, out.rank, out.connection, out.time);
    } else {
      other_grants(0, out.rank, out.connection, out.message, out.time);
    }
  }
  void other_received(uint32_t, uint32_t rank, uint32_t connection, Time now) override {
    EXPECT_TRUE(env_->on_real_data(rank, connection, heard_[rank][connection]++, now));
  }
  void other_acknowledged(uint32_t, uint32_t rank, uint32_t connection, Time now) override {
    EXPECT_TRUE(env_->on_acknowledged(rank, connection, acked_[rank][connection]++, now));
  }

  struct Later {
    bool operator()(const EnvironmentOutput& a, const EnvironmentOutput& b) const {
      return a.time > b.time || (a.time == b.time && a.message > b.message);
    }
  };

  const Case& c_;
  Graph g_;
  std::vector<FlowSpec> specs_;
  FlowSettings frames_;
  NetworkSettings settings_;
  std::unique_ptr<FlowTraffic> traffic_;
  std::unique_ptr<Network> net_;
  std::unique_ptr<Environment> env_;
  std::vector<std::vector<uint64_t>> heard_, acked_;  ///< messages, by rank and connection
  std::priority_queue<EnvironmentOutput, std::vector<EnvironmentOutput>, Later> outputs_;
};

struct Outcome {
  std::string name;
  Duration worst;     ///< largest difference of any message to or from a real rank
  Duration took;      ///< of the slowest real rank
  uint64_t messages;  ///< to and from real ranks
  Duration allowed;
};

/// Every packet's end is rounded to a picosecond, the plan's messages are.
Duration allowed(const Case& c) {
  uint64_t most = 0;
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    const auto schedule = c.schedule(r);
    for (const Connection& connection : schedule->connections()) {
      most = std::max(most, connection.messages);
    }
  }
  return Duration::ps(static_cast<int64_t>(most * 2 + c.communicator.ranks() * 2));
}

Outcome compare(const Case& c) {
  Ranks full(c, true), folded(c, false);
  EXPECT_TRUE(full.run()) << c.name;
  EXPECT_TRUE(folded.run()) << c.name;
  Outcome out{c.name, {}, {}, 0, allowed(c)};
  const auto differ = [&](Time a, Time b) {
    EXPECT_FALSE(a.is_never() || b.is_never()) << c.name;
    out.worst = std::max(out.worst, a > b ? a - b : b - a);
  };
  Result<Environment> ideal = Environment::make_ideal(plan_of(c));
  ideal->start(Time::zero());
  ideal->start(Time::zero());  // one that has ended begins anew
  EXPECT_TRUE(ideal->finished());
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    differ(full.completion(0, r), ideal->completion(r));
  }
  for (const uint32_t rank : c.real) {
    differ(full.completion(0, rank), folded.completion(0, rank));
    out.took = std::max(out.took, full.completion(0, rank) - Time::zero());
  }
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    const auto schedule = c.schedule(r);
    for (uint32_t i = 0; i < schedule->connections().size(); ++i) {
      const Connection& connection = schedule->connections()[i];
      const auto is_real = [&](uint32_t rank) {
        return std::ranges::find(c.real, rank) != c.real.end();
      };
      if (connection.direction != Direction::kSend || !connection.network) continue;
      if (!is_real(connection.from) && !is_real(connection.to)) continue;
      for (uint64_t k = 0; k < connection.messages; ++k) {
        differ(full.received(r, i, k), folded.received(r, i, k));
      }
      out.messages += connection.messages;
    }
  }
  return out;
}

struct Kind {
  Collective collective;
  Algorithm algorithm;
};
constexpr Kind kKinds[] = {
    {Collective::kAllReduce, Algorithm::kRing},    {Collective::kAllReduce, Algorithm::kTree},
    {Collective::kAllGather, Algorithm::kPat},     {Collective::kAllToAll, Algorithm::kRing},
    {Collective::kAllGather, Algorithm::kRing},    {Collective::kReduceScatter, Algorithm::kRing},
    {Collective::kReduceScatter, Algorithm::kPat}, {Collective::kBroadcast, Algorithm::kRing},
    {Collective::kReduce, Algorithm::kRing},
};

/// Case `i` of a seed: the kinds in turn, all else drawn; operations of more than some 60,000
/// packets in all take larger packets.
Case draw(uint64_t seed, uint64_t i) {
  std::mt19937_64 random(seed * 1'000'003 + i);
  const auto among = [&](uint64_t least, uint64_t most) {
    return least + random() % (most - least + 1);
  };
  const Kind& kind = kKinds[i % std::size(kKinds)];
  Case c;
  c.communicator.gpus = kind.algorithm == Algorithm::kPat ? 1 : static_cast<uint32_t>(among(1, 8));
  const uint64_t most = std::max<uint64_t>(2, 64 / c.communicator.gpus);
  // Few nodes come as often as a quarter of all.
  const uint64_t bound = among(0, 3) == 0 ? std::min<uint64_t>(most, 4) : most;
  c.communicator.nodes = static_cast<uint32_t>(among(2, bound));
  c.communicator.channels = static_cast<uint32_t>(among(1, 8));
  c.operation.collective = kind.collective;
  c.operation.algorithm = kind.algorithm;
  if (kind.algorithm != Algorithm::kPat && !is_p2p(kind.collective)) {
    c.operation.protocol = static_cast<Protocol>(among(0, 2));
  }
  const uint64_t ranks = c.communicator.ranks();
  const uint64_t power = uint64_t{1} << among(3, 27);  // 8 B to 256 MiB
  const uint64_t bytes = power + among(0, power / 4) * 4;
  const bool parts = kind.collective == Collective::kAllGather ||
                     kind.collective == Collective::kReduceScatter ||
                     kind.collective == Collective::kAllToAll;
  c.operation.count = std::max<uint64_t>(1, bytes / 4 / (parts ? ranks : 1));
  c.operation.root = static_cast<uint32_t>(among(0, ranks - 1));
  const uint64_t real_nodes = among(1, std::min<uint64_t>(3, c.communicator.nodes));
  std::vector<uint32_t> nodes(c.communicator.nodes);
  for (uint32_t n = 0; n < nodes.size(); ++n) nodes[n] = n;
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(real_nodes);
  for (const uint32_t node : nodes) {
    for (uint32_t g = 0; g < c.communicator.gpus; ++g) {
      c.real.push_back(node * c.communicator.gpus + g);
    }
  }
  const bool skewed = among(0, 1) == 1;
  for (uint64_t r = 0; r < ranks; ++r) {
    c.entry.push_back(skewed ? Duration::ns(static_cast<int64_t>(among(0, 100'000))) : Duration());
  }
  c.step_cost = Duration::ns(static_cast<int64_t>(among(0, 2) * 750));
  c.hop_seed = random();
  while (ranks * 2 * bytes / c.payload > 60'000) c.payload *= 2;
  c.name = std::to_string(i) + ": " + std::string(name_of(kCollectiveNames, kind.collective)) +
           " " + std::string(name_of(kAlgorithmNames, kind.algorithm)) + " " +
           std::string(name_of(kProtocolNames, c.operation.protocol)) + ", " +
           std::to_string(c.communicator.nodes) + " x " + std::to_string(c.communicator.gpus) +
           " ranks, " + std::to_string(real_nodes) + " real nodes, " +
           std::to_string(c.communicator.channels) + " channels, " +
           std::to_string(c.operation.bytes()) + " bytes" + (skewed ? ", skewed" : "");
  return c;
}

/// Which of a few values each factor has.
std::vector<std::string> factors(const Case& c) {
  const auto bin = [](const char* name, uint64_t value, std::initializer_list<uint64_t> ends) {
    size_t i = 0;
    for (const uint64_t end : ends) i += value > end ? 1 : 0;
    return name + std::to_string(i);
  };
  const bool skewed = std::ranges::any_of(c.entry, [](Duration d) { return d > Duration(); });
  const std::string algorithm = is_p2p(c.operation.collective)
                                    ? "all_to_all"
                                    : std::string(name_of(kAlgorithmNames, c.operation.algorithm));
  return {algorithm,
          bin("ranks", c.communicator.ranks(), {4, 16, 32}),
          bin("gpus", c.communicator.gpus, {1, 4}),
          bin("channels", c.communicator.channels, {1, 4}),
          bin("bytes", c.operation.bytes(), {1 << 10, 1 << 16, 1 << 22}),
          bin("real", c.real.size() / c.communicator.gpus, {1}),
          bin("skew", skewed ? 1 : 0, {0})};
}

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// PAT has one GPU a node, and 5 GPUs on two nodes are more than 4 ranks.
TEST(Fold, CasesCoverEveryPairOfFactors) {
  std::map<std::string, std::set<std::string>> pairs;
  std::vector<std::set<std::string>> values(7);
  for (uint64_t i = 0; i < kCases; ++i) {
    const std::vector<std::string> all = factors(draw(kSeed, i));
    for (size_t a = 0; a < all.size(); ++a) {
      values[a].insert(all[a]);
      for (size_t b = a + 1; b < all.size(); ++b) pairs[all[a]].insert(all[b]);
    }
  }
  for (size_t a = 0; a < values.size(); ++a) {
    EXPECT_GE(values[a].size(), 2u);
    for (size_t b = a + 1; b < values.size(); ++b) {
      for (const std::string& x : values[a]) {
        for (const std::string& y : values[b]) {
          const bool impossible = (x == "pat" && y.starts_with("gpus") && y != "gpus0") ||
                                  (x == "ranks0" && y == "gpus2");
          EXPECT_NE(pairs[x].contains(y), impossible) << x << " with " << y;
        }
      }
    }
  }
}

TEST(Fold, RealRanksDoTheSameBesideThePlan) {
  const uint64_t seed = number("FOLD_SEED", kSeed), cases = number("FOLD_CASES", kCases);
  std::printf("seed %llu, %llu cases\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(cases));
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < cases; ++i) {
    outcomes.push_back(compare(draw(seed, i)));
    EXPECT_LE(outcomes.back().worst, outcomes.back().allowed) << outcomes.back().name;
  }
  if (number("FOLD_TABLE", 0) == 0) return;
  std::ranges::stable_sort(outcomes,
                           [](const Outcome& a, const Outcome& b) { return a.worst > b.worst; });
  std::printf("%12s %10s %14s  case\n", "worst (ps)", "messages", "took (us)");
  for (const Outcome& o : outcomes) {
    std::printf("%12lld %10llu %14.3f  %s\n", static_cast<long long>(o.worst.ps()),
                static_cast<unsigned long long>(o.messages), o.took.microseconds(), o.name.c_str());
  }
}

}  // namespace
}  // namespace understudy
