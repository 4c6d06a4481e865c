// Closed forms equal the general evaluator: thousands of drawn operations, whose real ranks send
// and acknowledge at random, causal times, give the same outputs after every input, to the
// picosecond, and the same completions. CLOSED_SEED and CLOSED_CASES change what is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <tuple>

#include "collective_model/plan/closed_ring.h"
#include "collective_model/plan/closed_tree.h"
#include "collective_model/plan/general_plan.h"
#include "collective_model/plan/uncongested_plan.h"
#include "collective_model/schedule/ring.h"
#include "tests/rigs/plan_race.h"

namespace understudy {
namespace {

using Kind = PlanOutput::Kind;
struct Case {
  std::string name;
  Communicator communicator;
  Operation operation;
  PlanInput config;
  bool bound = false;    ///< real ranks wait for what they need
  int64_t sluggish = 0;  ///< ps that a real rank takes at most for anything
};

void add_schedules(Case& c) {
  OperationCut cut;
  if (!is_p2p(c.operation.collective)) cut = cut_group(c.communicator, {&c.operation, 1})->at(0);
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    c.config.ranks.push_back(rank_schedule(c.communicator, c.operation, cut, r));
  }
}

/// Shape of the communicator, real nodes and costs.
void draw_rest(Case& c, Random& random, uint64_t i, uint64_t most_nodes) {
  const uint32_t n = c.communicator.ranks();
  const int64_t skew = spread(random, 1'000'000'000);
  for (uint32_t r = 0; r < n; ++r) {
    c.config.entry_delay.push_back(
        Duration::ps(skew == 0 ? 0 : static_cast<int64_t>(random() % uint64_t(skew))));
  }
  if (random() % 3 == 0) {  // one straggler
    c.config.entry_delay[random() % n] = Duration::us(static_cast<int64_t>(random() % 3000));
  }
  c.config.step_cost = Duration::ps(spread(random, 8'000'000));
  std::vector<uint32_t> nodes(c.communicator.nodes);
  for (uint32_t k = 0; k < nodes.size(); ++k) nodes[k] = k;
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(random() % 2 == 0 ? 1 : among(random, 1, std::min(most_nodes, nodes.size() - 1)));
  for (const uint32_t node : nodes) {
    for (uint32_t g = 0; g < c.communicator.gpus; ++g) {
      c.config.real.push_back(node * c.communicator.gpus + g);
    }
  }
  c.bound = random() % 2 == 0;
  c.sluggish = spread(random, 100'000'000);
  c.name = "case " + std::to_string(i) + ": " +
           std::string(name_of(kCollectiveNames, c.operation.collective)) + " " +
           std::string(name_of(kAlgorithmNames, c.operation.algorithm)) + " " +
           std::string(name_of(kProtocolNames, c.operation.protocol)) + ", " +
           std::to_string(c.communicator.nodes) + " x " + std::to_string(c.communicator.gpus) +
           ", " + std::to_string(nodes.size()) + " real nodes, " +
           std::to_string(c.communicator.channels) + " channels, " +
           std::to_string(c.operation.bytes()) + " bytes, step " +
           std::to_string(c.config.step_cost.ps()) + " ps" + (c.bound ? ", bound" : "");
}

/// Rings of several loops, chunks of several sizes; a third of them with hops of several kinds.
enum class RingKind : uint8_t { kRing, kPipeline };
Case draw_ring_of(RingKind kind, uint64_t seed, uint64_t i) {
  Random random(seed * 1'000'003 + i);
  Case c;
  c.communicator.gpus = static_cast<uint32_t>(random() % 2 == 0 ? 1 : among(random, 2, 5));
  c.communicator.nodes = static_cast<uint32_t>(among(random, 2, random() % 4 == 0 ? 40 : 9));
  c.communicator.channels = static_cast<uint32_t>(among(random, 1, 3));
  const bool pipeline = kind == RingKind::kPipeline;
  constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kAllGather,
                                   Collective::kReduceScatter};
  c.operation.collective = kKinds[random() % 3];
  if (pipeline) {
    c.operation.collective = random() % 2 == 0 ? Collective::kBroadcast : Collective::kReduce;
    c.operation.root = static_cast<uint32_t>(random() % c.communicator.ranks());
  }
  c.operation.protocol = static_cast<Protocol>(random() % 3);
  c.communicator.buffers.simple >>= random() % 2 == 0 ? 0 : among(random, 1, 6);
  // Few bytes a rank; half of the counts divide evenly.
  uint64_t bytes = uint64_t{16} << among(random, 0, 16);
  if (random() % 2 == 0) bytes += 4 * among(random, 0, bytes / 8);
  if (c.operation.collective == Collective::kAllReduce) bytes *= c.communicator.ranks();
  c.operation.count = bytes / 4;
  add_schedules(c);
  const uint64_t kinds = random() % 3 == 0 ? among(random, 2, 3) : 1, often = among(random, 2, 8);
  std::vector<Hop> hops;
  for (uint64_t k = 0; k < kinds; ++k) hops.push_back(draw_hop(random));
  for (const auto& rank : c.config.ranks) {
    const uint64_t kind = random() % often == 0 ? random() % kinds : 0;
    c.config.hops.emplace_back(rank->connections().size(), hops[kind]);
  }
  if (random() % 3 == 0) {
    const Hop way = draw_hop(random);
    c.config.inside = NodeWay{way.rate, way.latency};
  }
  draw_rest(c, random, i, 3);
  return c;
}

/// Longer rings, whose hops are longer from leaf switch to leaf switch, and longer still from pod
/// to pod; a third of them between drawn nodes.
Case draw_leaves(uint64_t seed, uint64_t i) {
  Random random(seed * 1'000'003 + i);
  Case c;
  c.communicator.gpus = static_cast<uint32_t>(random() % 4 == 0 ? 2 : 1);
  c.communicator.nodes = static_cast<uint32_t>(among(random, 24, 120));
  c.communicator.channels = 1;
  c.operation.collective = random() % 2 == 0 ? Collective::kAllReduce : Collective::kAllGather;
  c.operation.protocol = static_cast<Protocol>(random() % 3);
  uint64_t bytes = uint64_t{1024} << among(random, 0, 8);
  if (random() % 2 == 0) bytes += 4 * among(random, 0, bytes / 8);
  if (c.operation.collective == Collective::kAllReduce) {
    bytes *= c.communicator.ranks();
  } else if (random() % 3 == 0) {
    c.communicator.buffers.simple >>= among(random, 1, 6);  // more loops
  }
  c.operation.count = bytes / 4;
  add_schedules(c);
  const uint64_t leaf = among(random, 1, 40), pod = leaf * among(random, 2, 4);
  const bool regular = random() % 3 != 0;
  const Hop near = draw_hop(random);
  Hop kinds[] = {near, near, near};
  for (int k = 1; k < 3; ++k) {
    kinds[k].latency = kinds[k - 1].latency + Duration::ps(spread(random, 20'000'000));
    if (random() % 4 == 0) kinds[k].rate = draw_hop(random).rate;
  }
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) {
    const uint32_t node = r / c.communicator.gpus + 1;
    size_t kind = node % pod == 0 ? 2 : node % leaf == 0 ? 1 : 0;
    if (!regular) kind = random() % leaf == 0 ? 1 + random() % 2 : 0;
    c.config.hops.emplace_back(c.config.ranks[r]->connections().size(), kinds[kind]);
  }
  if (random() % 4 == 0) {
    const Hop way = draw_hop(random);
    c.config.inside = NodeWay{way.rate, way.latency};
  }
  draw_rest(c, random, i, 3);
  return c;
}

Case draw_ring(uint64_t seed, uint64_t i) { return draw_ring_of(RingKind::kRing, seed, i); }
/// Of a broadcast or reduce.
Case draw_pipeline(uint64_t seed, uint64_t i) { return draw_ring_of(RingKind::kPipeline, seed, i); }

/// Trees; a third of them with hops of several kinds. Real ranks send nothing down before all has
/// come up.
Case draw_tree(uint64_t seed, uint64_t i) {
  Random random(seed * 1'000'003 + i);
  Case c;
  c.communicator.gpus = static_cast<uint32_t>(random() % 2 == 0 ? 1 : among(random, 2, 4));
  c.communicator.nodes = static_cast<uint32_t>(among(random, 2, random() % 3 == 0 ? 64 : 16));
  c.communicator.channels = static_cast<uint32_t>(among(random, 1, 4));
  c.operation.algorithm = Algorithm::kTree;
  c.operation.protocol = static_cast<Protocol>(random() % 3);
  const uint64_t bytes = uint64_t{16} << among(random, 0, random() % 3 == 0 ? 23 : 19);
  c.operation.count = (bytes + among(random, 0, bytes / 2)) / 4;
  add_schedules(c);
  const uint64_t kinds = random() % 3 == 0 ? among(random, 2, 3) : 1;
  const bool nics = random() % 4 == 0;  // of these there is no closed form
  std::vector<Hop> hops;
  for (uint64_t k = 0; k < kinds; ++k) hops.push_back(draw_hop(random, nics));
  for (const auto& rank : c.config.ranks) {
    std::vector<Hop>& own = c.config.hops.emplace_back();
    for (size_t k = 0; k < rank->connections().size(); ++k) {
      own.push_back(hops[random() % 8 == 0 ? random() % kinds : 0]);
    }
  }
  draw_rest(c, random, i, 3);
  c.bound = true;
  return c;
}

/// Two plans side by side, and real ranks that answer at random.
class Race {
 public:
  Race(const Case& c, Plan& a, Plan& b, uint64_t seed) : c_(c), a_(a), b_(b), random_(seed) {
    std::vector<const RankSchedule*> all;
    for (const auto& rank : c.config.ranks) all.push_back(rank.get());
    far_ = *far_ends(all);
    is_real_.resize(all.size());
    for (const uint32_t rank : c.config.real) is_real_[rank] = true;
  }

  /// False at the first difference.
  bool run(Time entry, bool rank_by_rank) {
    state_.clear();
    events_ = {};
    done_[0].clear();
    done_[1].clear();
    if (rank_by_rank) {
      a_.begin();
      b_.begin();
      for (uint32_t r = 0; r < is_real_.size(); ++r) {
        if (!is_real_[r]) events_.push({entry + c_.config.entry_delay[r], What::kEnter, r, 0, 0});
      }
    } else {
      a_.start(entry);
      b_.start(entry);
    }
    if (!compare(entry)) return false;
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      if (e.what == What::kEnter) {
        a_.enter(e.rank, e.time);
        b_.enter(e.rank, e.time);
      } else if (e.what == What::kData) {
        if (!a_.on_real_data(e.rank, e.connection, e.k, e.time)) return false;
        if (!b_.on_real_data(e.rank, e.connection, e.k, e.time)) return false;
      } else {
        if (!a_.on_acknowledged(e.rank, e.connection, e.k, e.time)) return false;
        if (!b_.on_acknowledged(e.rank, e.connection, e.k, e.time)) return false;
      }
      if (!compare(e.time)) return false;
    }
    EXPECT_TRUE(a_.finished());
    EXPECT_TRUE(b_.finished());
    uint32_t emulated = 0;
    for (uint32_t r = 0; r < is_real_.size(); ++r) {
      if (is_real_[r]) continue;
      ++emulated;
      if (a_.completion(r) == b_.completion(r)) continue;
      ADD_FAILURE() << "rank " << r << " ends at " << a_.completion(r).ps() << " and "
                    << b_.completion(r).ps();
      return false;
    }
    EXPECT_EQ(done_[0].size(), emulated);
    std::ranges::sort(done_[0]);
    std::ranges::sort(done_[1]);
    EXPECT_EQ(done_[0], done_[1]);
    return a_.finished() && b_.finished() && done_[0] == done_[1];
  }

 private:
  enum class What : uint8_t { kEnter, kData, kAcknowledged };
  struct Event {
    Time time;
    What what;
    uint32_t rank, connection;
    uint64_t k;
    bool operator<(const Event& o) const {
      return std::tie(o.time, o.k, o.rank, o.connection, o.what) <
             std::tie(time, k, rank, connection, what);
    }
  };
  /// A real rank's connection.
  struct Real {
    std::vector<Time> came;  ///< data that came, or credits
    uint64_t sent = 0, acknowledged = 0;
    Time last;
  };
  using Output = std::tuple<uint32_t, uint32_t, uint64_t, int64_t, Kind>;

  static std::vector<Output> take(Plan& plan) {
    std::vector<Output> all;
    for (PlanOutput o; plan.next(o);) {
      all.emplace_back(o.rank, o.connection, o.message, o.time.ps(), o.kind);
    }
    std::ranges::sort(all);
    return all;
  }
  Duration lazy() {
    return Duration::ps(c_.sluggish == 0 ? 0
                                         : static_cast<int64_t>(random_() % uint64_t(c_.sluggish)));
  }

  bool compare(Time now) {
    const std::vector<Output> a = take(a_), b = take(b_);
    if (a != b) {
      const auto show = [](const std::vector<Output>& all) {
        std::string text;
        for (const auto& [rank, connection, k, ps, kind] : all) {
          text += " (" + std::to_string(rank) + "." + std::to_string(connection) +
                  (kind == Kind::kData ? " data " : " credit ") + std::to_string(k) + " at " +
                  std::to_string(ps) + ")";
        }
        return text;
      };
      ADD_FAILURE() << "at " << now.ps() << ":" << show(a) << "\n against" << show(b);
      return false;
    }
    for (uint32_t rank; a_.next_done(rank);) done_[0].push_back(rank);
    for (uint32_t rank; b_.next_done(rank);) done_[1].push_back(rank);
    for (const auto& [rank, connection, k, ps, kind] : a) {
      const FarEnd far = far_[rank][connection];
      Real& real = state_[{far.rank, far.connection}];
      const Time t = std::max(Time::from_ps(ps), now) + lazy();
      real.came.push_back(real.came.empty() ? t : std::max(t, real.came.back()));
      if (kind == Kind::kData) {
        // Some are acknowledged together.
        if (random_() % 3 != 0 ||
            k + 1 == c_.config.ranks[rank]->connections()[connection].messages ||
            real.came.size() >= real.acknowledged + 2) {
          real.acknowledged = real.came.size();
          events_.push({real.came.back(), What::kAcknowledged, rank, connection, k});
        }
      }
      push_real(now);
    }
    return true;
  }
  /// What real ranks can send.
  void push_real(Time now) {
    for (auto& [where, real] : state_) {
      const auto [rank, c] = where;
      const Connection& connection = c_.config.ranks[rank]->connections()[c];
      if (connection.direction != Direction::kSend) continue;
      while (real.sent < real.came.size()) {
        Time t = std::max({real.came[real.sent], real.last, now});
        if (c_.bound && !depends(rank, c, real.sent, t)) break;
        real.last = t + lazy();
        const FarEnd far = far_[rank][c];
        events_.push({real.last, What::kData, far.rank, far.connection, real.sent++});
      }
    }
  }
  bool depends(uint32_t rank, uint32_t c, uint64_t k, Time& t) {
    if (dynamic_cast<const RingRankSchedule*>(c_.config.ranks[rank].get()) != nullptr) {
      return ring_depends(rank, c, k, t);
    }
    for (const Wait& wait : c_.config.ranks[rank]->waits(c, k)) {
      if (wait.moment != Wait::Moment::kArrival) continue;
      const FarEnd far = far_[rank][wait.connection];
      if (is_real_[far.rank]) {
        if (!depends(far.rank, far.connection, wait.message, t)) return false;
        continue;
      }
      const Real& in = state_[{rank, wait.connection}];
      if (in.came.size() <= wait.message) return false;
      t = std::max(t, in.came[wait.message]);
    }
    return true;
  }
  /// Through the real ranks of the block: message k needs what came for it as many steps before.
  bool ring_depends(uint32_t rank, uint32_t c, uint64_t k, Time& t) {
    const uint64_t slices = c_.config.ranks[rank]->connections()[c].chunk_steps /
                            c_.config.ranks[rank]->connections()[c].slice_steps;
    uint32_t at = rank;
    uint64_t need = k;
    for (;;) {
      if (need < slices) return true;
      need -= slices;
      const FarEnd from = far_[at][c + 1];
      if (!is_real_[from.rank]) break;
      at = from.rank;
    }
    const Real& in = state_[{at, c + 1}];
    if (in.came.size() <= need) return false;
    t = std::max(t, in.came[need]);
    return true;
  }

  const Case& c_;
  Plan& a_;
  Plan& b_;
  Random random_;
  std::vector<std::vector<FarEnd>> far_;
  std::vector<bool> is_real_;
  std::map<std::pair<uint32_t, uint32_t>, Real> state_;
  std::priority_queue<Event> events_;
  std::vector<uint32_t> done_[2];
};

/// Gives the number of cases that have a closed form.
uint64_t race(Case (*draw)(uint64_t, uint64_t),
              const std::function<std::unique_ptr<Plan>(const PlanInput&)>& make, uint64_t cases) {
  const uint64_t seed = number("CLOSED_SEED", 1), first = number("CLOSED_FIRST", 0);
  cases = number("CLOSED_CASES", cases);
  uint64_t closed = 0;
  for (uint64_t i = first; i < first + cases; ++i) {
    const Case c = draw(seed, i);
    SCOPED_TRACE(c.name);
    const std::unique_ptr<Plan> plan = make(c.config);
    if (!plan) continue;
    ++closed;
    Result<GeneralPlan> general = GeneralPlan::make(c.config);
    EXPECT_TRUE(general);
    Race race(c, *general, *plan, seed + i);
    if (!race.run(Time::zero() + Duration::us(3), i % 2 == 0) ||
        !race.run(Time::zero() + Duration::ms(30), i % 4 == 0)) {
      ADD_FAILURE() << c.name;
      break;
    }
  }
  std::printf("seed %llu: closed form in %llu of %llu cases\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(closed),
              static_cast<unsigned long long>(cases));
  return closed * 100 / cases;
}

TEST(ClosedForm, RingsEqualTheGeneralEvaluator) {
  EXPECT_GT(race(draw_ring, ClosedRing::make, 1000), 50u);
}

TEST(ClosedForm, RingsOfManyHopsEqualTheGeneralEvaluator) {
  EXPECT_EQ(race(draw_leaves, ClosedRing::make, 60), 100u);
}

TEST(ClosedForm, PipelinesEqualTheGeneralEvaluator) {
  EXPECT_GT(race(draw_pipeline, ClosedRing::make, 500), 50u);
}

TEST(ClosedForm, TreesEqualTheGeneralEvaluator) {
  const auto make = [](const PlanInput& c) { return ClosedTree::make(c, 1000); };
  EXPECT_GT(race(draw_tree, make, 300), 50u);
}

// With all ranks emulated, for operations one after the other.
TEST(ClosedForm, IdealPlansEqualTheGeneralEvaluator) {
  const uint64_t seed = number("CLOSED_SEED", 1), cases = number("CLOSED_CASES", 400);
  uint64_t closed = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    const Case c = i % 3 == 0   ? draw_ring(seed, i)
                   : i % 3 == 1 ? draw_pipeline(seed, i)
                                : draw_tree(seed, i);
    SCOPED_TRACE(c.name);
    const std::unique_ptr<Plan> plan = UncongestedPlan::make(c.config);
    if (!plan) continue;
    ++closed;
    Result<GeneralPlan> general = GeneralPlan::make_ideal(c.config);
    ASSERT_TRUE(general);
    general->start(Time::zero());
    plan->start(Time::zero());
    for (int operation = 0; operation < 3; ++operation) {
      ASSERT_TRUE(plan->finished());
      std::vector<Time> ends;
      for (uint32_t rank = 0; rank < c.communicator.ranks(); ++rank) {
        ends.push_back(general->completion(rank));
        ASSERT_EQ(plan->completion(rank), ends.back()) << rank;
      }
      general->begin();
      plan->begin();
      for (uint32_t rank = 0; rank < ends.size(); ++rank) {
        general->enter(rank, ends[rank]);
        plan->enter(rank, ends[rank]);
      }
    }
  }
  EXPECT_GT(closed * 3, cases);
}

}  // namespace
}  // namespace understudy
