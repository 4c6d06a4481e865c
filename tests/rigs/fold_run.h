// Real ranks, packet by packet, beside all others or beside the plan of these, on any network.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "collective_model/plan/pair_hops.h"
#include "collective_model/plan/symmetric_ranks.h"
#include "collective_model/schedule/all_to_all.h"
#include "dataplane/collective/inner_messages.h"
#include "dataplane/collective/packet_level_ranks.h"
#include "tests/rigs/fold_case.h"
#include "tests/rigs/network_rig.h"

namespace understudy {

inline FlowSettings frames(const FoldCase& c) {
  FlowSettings f;
  f.payload = c.payload;
  f.timeout = Duration();
  return f;
}

inline std::vector<RankOperation> operations_of(const FoldCase& c) {
  std::vector<RankOperation> out(1);
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) out[0].ranks.push_back(c.schedule(r));
  for (const Duration delay : c.entry) out[0].steps.push_back({.delay = delay});
  return out;
}

inline std::vector<bool> who_plays(const FoldCase& c, bool all) {
  std::vector<bool> out(c.communicator.ranks(), all);
  for (const uint32_t rank : c.real) out[rank] = true;
  return out;
}

/// What is between the nodes of a case.
struct FoldNetwork {
  FoldNetwork() { settings.classes.emplace_back(); }
  virtual ~FoldNetwork() = default;
  /// Gives flows their paths; may lay cables for them. Called once with all of a run.
  virtual void route(std::vector<FlowSpec>& flows) = 0;
  /// What the plan charges a message from one node to another.
  virtual Hop hop(uint32_t from_node, uint32_t to_node) const = 0;
  /// The same of acknowledgement and credit of another message, where they take its links.
  virtual uint32_t beside() const { return 0; }
  virtual FlowControl control(const FlowSpec& flow, Rate line, Duration base_rtt) const {
    return line_rate(flow, line, base_rtt);
  }

  Graph graph;
  std::vector<VertexId> nics;  ///< by node
  NetworkSettings settings;
  PacketLevelRanksSettings costs;  ///< without the step cost
};

inline PlanInput plan_of(const FoldCase& c, const FoldNetwork& network) {
  PlanInput config;
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    config.ranks.push_back(c.schedule(r));
    std::vector<Hop>& hops = config.hops.emplace_back();
    for (const Connection& connection : config.ranks.back()->connections()) {
      hops.push_back(network.hop(c.communicator.node_of(connection.from),
                                 c.communicator.node_of(connection.to)));
    }
  }
  const FlowSettings f = frames(c);
  config.real = c.real;
  config.entry_delay = c.entry;
  config.wire = {f.payload, f.overhead + f.gap, network.costs.first_header,
                 network.costs.last_header, network.beside()};
  config.step_cost = c.step_cost;
  config.inside = c.inside;
  return config;
}

/// The ways of a plan that lists no connections.
class FoldHops : public PairHops {
 public:
  FoldHops(const FoldCase& c, const FoldNetwork& network) : communicator_(c.communicator) {
    const uint32_t nodes = c.communicator.nodes;
    for (uint32_t from = 0; from < nodes; ++from) {
      for (uint32_t to = 0; to < nodes; ++to) hops_.push_back(network.hop(from, to));
    }
  }
  Hop hop(uint32_t from, uint32_t to) const override {
    return hops_[communicator_.node_of(from) * communicator_.nodes + communicator_.node_of(to)];
  }

 private:
  const Communicator communicator_;
  std::vector<Hop> hops_;  ///< by nodes
};

/// Who speaks for the ranks that are not real: nobody, for all of them are played; the plan; or the
/// plan, while the network carries what they say among themselves.
enum class Others : uint8_t { kPlayed, kPlan, kCarriedPlan };

/// Ranks of which some may be the plan's.
class FoldRun : public PacketLevelRanks, public InnerListener {
 public:
  FoldRun(const FoldCase& c, Others others, FoldNetwork& network)
      : PacketLevelRanks(operations_of(c), costs_of(c, network),
                         who_plays(c, others == Others::kPlayed)),
        c_(c),
        others_(others),
        network_(network),
        frames_(frames(c)) {
    const auto ways_of = [&](const Connection& connection) {
      return way_of(network, c.communicator.node_of(connection.from),
                    c.communicator.node_of(connection.to));
    };
    const uint32_t connections = add_flows(specs_, ways_of, 0);
    if (others != Others::kPlayed) fold(connections);
    number_connections();
    network.route(specs_);
    traffic_ = std::make_unique<FlowTraffic>(
        network.graph, specs_, frames_, [&](const FlowSpec& flow, Rate line, Duration base_rtt) {
          return network.control(flow, line, base_rtt);
        });
    net_ = std::make_unique<Network>(network.graph, network.settings, *traffic_);
    first_later_ = attach(*traffic_);
    if (inner_) inner_->attach(*traffic_, false);
    traffic_->start(*net_);
    PacketLevelRanks::start();
  }

  /// False if not all came to their ends.
  bool run() {
    while (!net_->next().is_never()) net_->step();
    return finished() && traffic_->all_finished() && (!plan_ || plan_->finished());
  }

  /// When message `k` of a rank's connection, which it sends, had come in.
  Time received(uint32_t rank, uint32_t connection, uint64_t k) const {
    return traffic_->results()[flow_of(0, rank, connection, k)].received;
  }
  const Network& network() const { return *net_; }
  const Graph& graph() const { return network_.graph; }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  /// What the plan is going to say, or the place of a message that it is going to hear of.
  struct Later {
    bool heard = false;
    PlanOutput out;
  };

  static MessageWays way_of(const FoldNetwork& network, uint32_t from, uint32_t to) {
    return message_ways({&network.nics[from], 1}, {&network.nics[to], 1});
  }

  static PacketLevelRanksSettings costs_of(const FoldCase& c, const FoldNetwork& network) {
    PacketLevelRanksSettings settings = network.costs;
    settings.step_cost = c.step_cost;
    settings.inside = c.inside;
    return settings;
  }

  void fold(uint32_t connections) {
    PlanInput config = plan_of(c_, network_);
    std::vector<const RankSchedule*> schedules;
    for (uint32_t r = 0; r < config.ranks.size(); ++r) {
      schedules.push_back(config.ranks[r].get());
      heard_.emplace_back(config.hops[r].size());
      acked_.emplace_back(config.hops[r].size());
      inner_at_.emplace_back(config.hops[r].size(), kNone);
    }
    if (others_ == Others::kCarriedPlan) {
      carry(config, *far_ends(schedules), connections);
    } else if (AllToAll::is_one(c_.operation)) {
      config.all_to_all = std::make_shared<AllToAll>(c_.communicator, c_.operation);
    } else if (SymmetricRanks::is_one(c_.operation)) {
      config.alike = std::make_shared<SymmetricRanks>(c_.communicator, c_.operation, c_.cut());
    }
    config.pair_hops = std::make_shared<FoldHops>(c_, network_);
    schedules_ = config.ranks;
    Result<std::unique_ptr<Plan>> made = make_plan(std::move(config));
    ASSERT_TRUE(made) << made.error().text;
    plan_ = std::move(*made);
    plan_->begin();
  }
  void carry(PlanInput& config, const std::vector<std::vector<FarEnd>>& ends,
             uint32_t connections) {
    const std::vector<bool> real = who_plays(c_, false);
    std::vector<InnerConnection> inner;
    for (const auto& hops : config.hops) config.carried.emplace_back(hops.size());
    for (uint32_t r = 0; r < ends.size(); ++r) {
      for (uint32_t i = 0; i < ends[r].size(); ++i) {
        const Connection& connection = config.ranks[r]->connections()[i];
        const FarEnd& far = ends[r][i];
        if (connection.direction != Direction::kSend || !connection.network) continue;
        if (real[r] || real[far.rank]) continue;
        config.carried[r][i] = config.carried[far.rank][far.connection] = true;
        inner_at_[r][i] = inner_at_[far.rank][far.connection] = static_cast<uint32_t>(inner.size());
        inner_ends_.push_back({{r, i}, far});
        inner.push_back(
            {way_of(network_, c_.communicator.node_of(r), c_.communicator.node_of(far.rank)),
             connection.window});
      }
    }
    inner_ = std::make_unique<InnerMessages>(std::move(inner), costs_of(c_, network_));
    inner_->listen(*this);
    inner_->add_flows(specs_, connections);
  }

  /// By their ranks, whoever speaks for these: flows that start at one moment do so in this order.
  void number_connections() {
    if (others_ == Others::kPlan) return;  // what these say among themselves meets nobody
    constexpr uint32_t kData = 1u << 30;   // behind all credits
    std::map<uint32_t, uint32_t> numbers;  // by those that they have
    uint32_t number = 0;
    for (uint32_t r = 0; r < c_.communicator.ranks(); ++r) {
      const std::vector<Connection>& connections = schedule(0, r).connections();
      for (uint32_t i = 0; i < connections.size(); ++i, ++number) {
        const Connection& connection = connections[i];
        if (connection.direction != Direction::kSend || !connection.network) continue;
        if (connection.messages == 0) continue;
        const uint32_t at = inner_at_.empty() ? kNone : inner_at_[r][i];
        uint32_t flow = at == kNone ? flow_of(0, r, i, 0) : inner_->first_flow(at, 0);
        const uint32_t data = specs_[flow].connection;
        while (specs_[flow].connection == data) ++flow;  // credits come behind
        numbers[data] = kData + number;
        numbers[specs_[flow].connection] = number;
      }
    }
    for (FlowSpec& flow : specs_) flow.connection = numbers.at(flow.connection);
  }

  // The plan hears what it does when a played rank would, and what it says is said at its time.
  void other_starts(uint32_t rank) override {
    traffic_->wake_listener(Time::zero() + c_.entry[rank], first_later_ + rank);
  }
  void on_wake(uint32_t index, Time now) override {
    if (index < first_later_) return PacketLevelRanks::on_wake(index, now);
    index -= first_later_;
    if (index < c_.communicator.ranks()) {
      plan_->enter(index, now);
      return take_outputs(now);
    }
    index -= c_.communicator.ranks();
    free_.push_back(index);
    const Later later = later_[index];
    later.heard ? hear(later.out.rank, later.out.connection, now) : speak(later.out);
  }
  void wake(const Later& later) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(later_.size()));
      later_.emplace_back();
    }
    later_[free_.back()] = later;
    traffic_->wake_listener(later.out.time, first_later_ + c_.communicator.ranks() + free_.back());
    free_.pop_back();
  }
  void take_outputs(Time now) {
    for (PlanOutput out; plan_->next(out);) {
      EXPECT_GE(out.time, now);
      out.time > now ? wake({false, out}) : speak(out);
    }
  }
  void hear(uint32_t rank, uint32_t connection, Time now) {
    EXPECT_TRUE(
        plan_->on_real_data(rank, connection, heard_[rank][connection]++, now - c_.step_cost));
    take_outputs(now);
  }
  void speak(const PlanOutput& out) {
    const bool data = out.kind == PlanOutput::Kind::kData;
    if (const uint32_t at = inner_at_[out.rank][out.connection]; at == kNone) {
      data ? other_posts(0, out.rank, out.connection, out.time)
           : other_grants(0, out.rank, out.connection, out.message, out.time);
    } else if (data) {
      inner_->post(at, schedules_[out.rank]->message(out.connection, out.message).wire, out.time);
    } else {
      inner_->grant(at, out.time);
    }
  }
  void other_received(uint32_t, uint32_t rank, uint32_t connection, Time now) override {
    if (c_.step_cost == Duration()) return hear(rank, connection, now);
    PlanOutput at;
    at.rank = rank;
    at.connection = connection;
    at.time = now + c_.step_cost;
    wake({true, at});
  }
  void other_acknowledged(uint32_t, uint32_t rank, uint32_t connection, Time now) override {
    EXPECT_TRUE(plan_->on_acknowledged(rank, connection, acked_[rank][connection]++, now));
    take_outputs(now);
  }
  void inner_received(uint32_t at, Time now) override {
    const FarEnd& end = inner_ends_[at].second;
    other_received(0, end.rank, end.connection, now);
  }
  void inner_acknowledged(uint32_t at, Time now) override {
    const FarEnd& end = inner_ends_[at].first;
    other_acknowledged(0, end.rank, end.connection, now);
  }
  void inner_reaches(uint32_t, Time) override { ADD_FAILURE() << "no NIC here takes time"; }

  const FoldCase& c_;
  const Others others_;
  FoldNetwork& network_;
  FlowSettings frames_;
  std::vector<FlowSpec> specs_;
  std::unique_ptr<FlowTraffic> traffic_;
  std::unique_ptr<Network> net_;
  std::unique_ptr<Plan> plan_;
  std::vector<std::shared_ptr<const RankSchedule>> schedules_;
  std::unique_ptr<InnerMessages> inner_;
  std::vector<std::vector<uint32_t>> inner_at_;        ///< by rank and connection
  std::vector<std::pair<FarEnd, FarEnd>> inner_ends_;  ///< sender's and receiver's
  std::vector<std::vector<uint64_t>> heard_, acked_;   ///< messages, likewise
  std::vector<Later> later_;                           ///< by wake-up, behind the ranks'
  std::vector<uint32_t> free_;
  uint32_t first_later_ = 0;
};

/// How far a run of the plan is from the run of all ranks.
struct FoldDifference {
  Duration worst;         ///< of any message to or from a real rank, and of these ranks' ends
  Duration took;          ///< of the slowest real rank
  uint64_t messages = 0;  ///< to and from real ranks
};

inline FoldDifference difference(const FoldCase& c, const FoldRun& full, const FoldRun& folded) {
  FoldDifference out;
  const auto differ = [&](Time a, Time b) {
    EXPECT_FALSE(a.is_never() || b.is_never()) << c.name;
    out.worst = std::max(out.worst, a > b ? a - b : b - a);
  };
  for (const uint32_t rank : c.real) {
    differ(full.completion(0, rank), folded.completion(0, rank));
    out.took = std::max(out.took, full.completion(0, rank) - Time::zero());
  }
  const std::vector<bool> real = who_plays(c, false);
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    const auto schedule = c.schedule(r);
    for (uint32_t i = 0; i < schedule->connections().size(); ++i) {
      const Connection& connection = schedule->connections()[i];
      if (connection.direction != Direction::kSend || !connection.network) continue;
      if (!real[connection.from] && !real[connection.to]) continue;
      for (uint64_t k = 0; k < connection.messages; ++k) {
        differ(full.received(r, i, k), folded.received(r, i, k));
      }
      out.messages += connection.messages;
    }
  }
  return out;
}

}  // namespace understudy
