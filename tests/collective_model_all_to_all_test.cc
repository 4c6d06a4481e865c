// The plan of an all-to-all, which lists no connections, equals the general evaluator: drawn
// operations, whose real ranks send and acknowledge at random, causal times, give the same outputs
// after every input, to the picosecond, and the same completions. ALL_TO_ALL_SEED and
// ALL_TO_ALL_CASES change what is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "collective_model/all_to_all.h"
#include "collective_model/environment.h"
#include "collective_model/pair_hops.h"

namespace understudy {
namespace {

using Kind = EnvironmentOutput::Kind;
using Random = std::mt19937_64;

uint64_t among(Random& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}
/// 0, or spread over the magnitudes up to `most`.
int64_t spread(Random& random, int64_t most) {
  return random() % 4 == 0 ? 0 : most >> random() % 12;
}

/// One of a few ways for each pair.
class DrawnHops : public PairHops {
 public:
  DrawnHops(Random& random, uint32_t ranks) : seed_(random()), ranks_(ranks) {
    for (uint64_t kinds = among(random, 1, 4); kinds > 0; --kinds) {
      hops_.push_back({Rate::bits_per_second(1'000'000'000ULL << among(random, 0, 9)),
                       Duration::ps(spread(random, 5'000'000))});
    }
  }
  RingHop hop(uint32_t from, uint32_t to) const override {
    return hops_[Random(seed_ + from * ranks_ + to)() % hops_.size()];
  }

 private:
  const uint64_t seed_;
  const uint32_t ranks_;
  std::vector<RingHop> hops_;
};

struct Case {
  std::string name;
  Communicator communicator;
  Operation operation;
  EnvironmentConfig listed, ruled;  ///< for the general evaluator, and for the other
  std::vector<std::vector<FarEnd>> far;
  std::vector<bool> real;
  bool bound = false;    ///< real ranks wait for what they need
  int64_t sluggish = 0;  ///< ps that a real rank takes at most for anything
};

Case draw(uint64_t seed, uint64_t i) {
  Random random(seed * 1'000'003 + i);
  Case c;
  Communicator& communicator = c.communicator;
  communicator.gpus = static_cast<uint32_t>(random() % 2 == 0 ? 1 : among(random, 2, 8));
  const uint64_t most = (random() % 8 == 0 ? 80 : 24) / communicator.gpus;
  communicator.nodes = static_cast<uint32_t>(among(random, 2, std::max<uint64_t>(most, 3)));
  communicator.channels = static_cast<uint32_t>(among(random, 1, 8));
  communicator.version.minor = static_cast<uint32_t>(among(random, 22, 30));
  if (random() % 3 == 0) communicator.channels_per_peer = 1u << among(random, 0, 3);
  communicator.nic_gigabytes = static_cast<uint32_t>(among(random, 0, 50));
  communicator.buffers.p2p_chunk >>= among(random, 0, 4);
  const uint32_t n = communicator.ranks();
  const auto draw_bytes = [&]() -> uint64_t {
    if (random() % 16 == 0) return 0;
    // Up to some 40 messages.
    const uint64_t bytes = uint64_t{4} << among(random, 0, 20);
    return std::min<uint64_t>(bytes + among(random, 0, bytes / 4) * 4,
                              40 * communicator.buffers.p2p_chunk);
  };
  if (random() % 2 == 0) {
    c.operation.collective = Collective::kAllToAll;
    c.operation.count = draw_bytes() / 4;
  } else {
    c.operation.collective = Collective::kAllToAllV;
    const uint64_t base = draw_bytes() / 4 * 4;
    const bool alike = random() % 4 == 0;
    const uint64_t mute = random() % 3 == 0 ? among(random, 2, 8) : 0;  // one pair of so many
    for (uint32_t pair = 0; pair < n * n; ++pair) {
      c.operation.pair_bytes.push_back(alike ? base : draw_bytes() / 4 * 4);
      if (mute != 0 && random() % mute == 0) c.operation.pair_bytes.back() = kNoPair;
    }
  }
  const auto checked = check_operation(communicator, c.operation);
  EXPECT_TRUE(checked) << (checked ? "" : checked.error().text);
  EnvironmentConfig& ruled = c.ruled;
  ruled.all_to_all = std::make_shared<AllToAll>(communicator, c.operation);
  ruled.pair_hops = std::make_shared<DrawnHops>(random, n);
  const int64_t skew = spread(random, 1'000'000'000);
  for (uint32_t r = 0; r < n; ++r) {
    ruled.entry_delay.push_back(
        Duration::ps(skew == 0 ? 0 : static_cast<int64_t>(random() % uint64_t(skew))));
  }
  if (random() % 3 == 0) ruled.entry_delay[random() % n] = Duration::us(3000);
  ruled.step_cost = Duration::ps(spread(random, 8'000'000));
  if (random() % 2 == 0) {
    ruled.inside = NodeWay{Rate::bits_per_second(1'000'000'000ULL << among(random, 0, 11)),
                           Duration::ps(spread(random, 2'000'000))};
  }
  c.real.resize(n);
  const uint64_t real_nodes = among(random, 1, std::min<uint64_t>(3, communicator.nodes - 1));
  while (ruled.real.size() < real_nodes * communicator.gpus) {
    const auto node = static_cast<uint32_t>(random() % communicator.nodes);
    if (c.real[node * communicator.gpus]) continue;
    for (uint32_t g = 0; g < communicator.gpus; ++g) {
      ruled.real.push_back(node * communicator.gpus + g);
      c.real[ruled.real.back()] = true;
    }
  }
  c.bound = random() % 2 == 0;
  c.sluggish = spread(random, 100'000'000);

  c.listed = ruled;
  c.listed.all_to_all = {};
  c.listed.pair_hops = {};
  c.listed.ranks = rank_schedules(communicator, c.operation, {});
  std::vector<const RankSchedule*> all;
  for (const auto& rank : c.listed.ranks) {
    all.push_back(rank.get());
    std::vector<RingHop>& hops = c.listed.hops.emplace_back();
    for (const Connection& connection : rank->connections()) {
      hops.push_back(ruled.pair_hops->hop(connection.from, connection.to));
    }
  }
  c.far = *far_ends(all);
  c.name = "case " + std::to_string(i) + ": " +
           std::string(name_of(kCollectiveNames, c.operation.collective)) + ", 2." +
           std::to_string(communicator.version.minor) + ", " + std::to_string(communicator.nodes) +
           " x " + std::to_string(communicator.gpus) + ", " + std::to_string(real_nodes) +
           " real nodes, " + std::to_string(communicator.channels) + " channels, " +
           std::to_string(communicator.p2p_channels_per_peer()) + " per peer, chunk " +
           std::to_string(communicator.buffers.p2p_chunk) + ", " +
           std::to_string(c.operation.bytes()) + " bytes" + (c.bound ? ", bound" : "");
  return c;
}

/// Two plans side by side, and real ranks that answer at random.
class Race {
 public:
  Race(const Case& c, Plan& a, Plan& b, uint64_t seed) : c_(c), a_(a), b_(b), random_(seed) {}

  /// False at the first difference.
  bool run(Time entry, bool rank_by_rank) {
    state_.clear();
    waiting_.clear();
    events_ = {};
    if (rank_by_rank) {
      a_.begin();
      b_.begin();
      for (uint32_t r = 0; r < c_.real.size(); ++r) {
        if (c_.real[r]) continue;
        events_.push({entry + c_.ruled.entry_delay[r], What::kEnter, r, 0, 0});
      }
    } else {
      a_.start(entry);
      b_.start(entry);
    }
    if (!compare(entry)) return false;
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      for (Plan* plan : {&a_, &b_}) {
        if (e.what == What::kEnter) {
          plan->enter(e.rank, e.time);
        } else if (e.what == What::kData) {
          // Messages that are not due change nothing.
          EXPECT_FALSE(plan->on_real_data(e.rank, e.connection, e.k + 1, e.time));
          EXPECT_TRUE(plan->on_real_data(e.rank, e.connection, e.k, e.time));
        } else {
          EXPECT_TRUE(plan->on_acknowledged(e.rank, e.connection, e.k, e.time));
          EXPECT_FALSE(plan->on_acknowledged(e.rank, e.connection, e.k, e.time));
        }
      }
      if (!compare(e.time)) return false;
    }
    EXPECT_TRUE(a_.finished());
    EXPECT_TRUE(b_.finished());
    return a_.finished() && b_.finished();
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
    std::vector<Time> came;  ///< data, or credits
    uint64_t sent = 0, acknowledged = 0;
    Time last;
  };
  using Output = std::tuple<uint32_t, uint32_t, uint64_t, int64_t, Kind>;

  static std::vector<Output> take(Plan& plan) {
    std::vector<Output> all;
    for (EnvironmentOutput o; plan.next(o);) {
      all.emplace_back(o.rank, o.connection, o.message, o.time.ps(), o.kind);
    }
    std::ranges::sort(all);
    return all;
  }
  static std::vector<uint32_t> take_done(Plan& plan) {
    std::vector<uint32_t> all;
    for (uint32_t rank; plan.next_done(rank);) all.push_back(rank);
    std::ranges::sort(all);
    return all;
  }
  static std::string show(const std::vector<Output>& all) {
    std::string text;
    for (const auto& [rank, connection, k, ps, kind] : all) {
      text += " (" + std::to_string(rank) + "." + std::to_string(connection) +
              (kind == Kind::kData ? " data " : " credit ") + std::to_string(k) + " at " +
              std::to_string(ps) + ")";
    }
    return text;
  }
  Duration lazy() {
    return Duration::ps(c_.sluggish == 0 ? 0
                                         : static_cast<int64_t>(random_() % uint64_t(c_.sluggish)));
  }

  bool compare(Time now) {
    const std::vector<Output> a = take(a_), b = take(b_);
    const std::vector<uint32_t> done = take_done(a_);
    bool same = a == b && done == take_done(b_);
    for (const uint32_t rank : done) same &= a_.completion(rank) == b_.completion(rank);
    if (!same) {
      ADD_FAILURE() << c_.name << "\nat " << now.ps() << ":" << show(a) << "\n against" << show(b);
      return false;
    }
    for (const auto& [rank, connection, k, ps, kind] : a) {
      const FarEnd far = c_.far[rank][connection];
      Real& real = state_[{far.rank, far.connection}];
      const Time t = std::max(Time::from_ps(ps), now) + lazy();
      real.came.push_back(real.came.empty() ? t : std::max(t, real.came.back()));
      if (kind == Kind::kCredit) {
        waiting_.insert({far.rank, far.connection});
        continue;
      }
      // Some are acknowledged together.
      if (random_() % 3 != 0 ||
          k + 1 == c_.listed.ranks[rank]->connections()[connection].messages ||
          real.came.size() >= real.acknowledged + 2) {
        real.acknowledged = real.came.size();
        events_.push({real.came.back(), What::kAcknowledged, rank, connection, k});
      }
    }
    std::erase_if(waiting_, [&](const auto& where) {
      return send(where.first, where.second, state_[where], now);
    });
    return true;
  }
  /// False if it must wait with something.
  bool send(uint32_t rank, uint32_t c, Real& real, Time now) {
    const FarEnd far = c_.far[rank][c];
    while (real.sent < real.came.size()) {
      Time t = std::max({real.came[real.sent], real.last, now});
      if (c_.bound && !may(rank, c, real.sent, t)) return false;
      real.last = t + lazy();
      events_.push({real.last, What::kData, far.rank, far.connection, real.sent++});
    }
    return true;
  }
  bool may(uint32_t rank, uint32_t c, uint64_t k, Time& t) {
    for (const Wait& wait : c_.listed.ranks[rank]->waits(c, k)) {
      if (c_.real[c_.far[rank][wait.connection].rank]) continue;
      const Real& other = state_[{rank, wait.connection}];
      const Connection& connection = c_.listed.ranks[rank]->connections()[wait.connection];
      if (connection.direction == Direction::kSend) {
        if (other.sent <= wait.message) return false;
        t = std::max(t, other.last);
      } else {
        if (other.came.size() <= wait.message) return false;
        t = std::max(t, other.came[wait.message]);
      }
    }
    return true;
  }

  const Case& c_;
  Plan& a_;
  Plan& b_;
  Random random_;
  std::map<std::pair<uint32_t, uint32_t>, Real> state_;
  std::set<std::pair<uint32_t, uint32_t>> waiting_;  ///< connections with a credit to use
  std::priority_queue<Event> events_;
};

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(AllToAll, EqualsTheGeneralEvaluator) {
  const uint64_t seed = number("ALL_TO_ALL_SEED", 1), cases = number("ALL_TO_ALL_CASES", 100);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = number("ALL_TO_ALL_FIRST", 0); i < cases; ++i) {
    const Case c = draw(seed, i);
    Result<Environment> general = Environment::make(c.listed);
    ASSERT_TRUE(general) << c.name;
    const auto plan = make_plan(c.ruled);
    ASSERT_TRUE(plan) << c.name;
    Race race(c, *general, **plan, seed + i);
    ASSERT_TRUE(race.run(Time::zero() + Duration::us(3), i % 2 == 0)) << c.name;
    ASSERT_TRUE(race.run(Time::zero() + Duration::ms(30), i % 4 == 0)) << c.name;
  }
}

// With all ranks emulated, for operations one after the other.
TEST(AllToAll, IdealPlansEqualTheGeneralEvaluator) {
  const uint64_t seed = number("ALL_TO_ALL_SEED", 1), cases = number("ALL_TO_ALL_CASES", 100);
  for (uint64_t i = 0; i < cases; ++i) {
    const Case c = draw(seed + 7, i);
    Result<Environment> general = Environment::make_ideal(c.listed);
    ASSERT_TRUE(general) << c.name;
    const auto plan = make_ideal_plan(c.ruled);
    ASSERT_TRUE(plan) << c.name;
    general->start(Time::zero());
    (*plan)->start(Time::zero());
    for (int operation = 0; operation < 2; ++operation) {
      ASSERT_TRUE((*plan)->finished()) << c.name;
      std::vector<Time> ends;
      for (uint32_t rank = 0; rank < c.communicator.ranks(); ++rank) {
        ends.push_back(general->completion(rank));
        ASSERT_EQ((*plan)->completion(rank), ends.back()) << c.name << ", rank " << rank;
      }
      general->begin();
      (*plan)->begin();
      for (uint32_t rank = 0; rank < ends.size(); ++rank) {
        general->enter(rank, ends[rank]);
        (*plan)->enter(rank, ends[rank]);
      }
    }
  }
}

// The other ends of a rank's connections are where its list and those of all others say.
TEST(AllToAll, KnowsFarEndsWithoutAList) {
  for (uint64_t i = 0; i < 60; ++i) {
    const Case c = draw(11, i);
    for (const uint32_t rank : c.ruled.real) {
      const std::vector<FarEnd> ends = c.ruled.all_to_all->far_ends(*c.listed.ranks[rank]);
      ASSERT_EQ(ends.size(), c.far[rank].size()) << c.name;
      for (size_t k = 0; k < ends.size(); ++k) {
        ASSERT_EQ(ends[k].rank, c.far[rank][k].rank) << c.name << ", connection " << k;
        ASSERT_EQ(ends[k].connection, c.far[rank][k].connection) << c.name << ", connection " << k;
      }
    }
  }
}

TEST(AllToAll, NamesWhatDoesNotFit) {
  const auto why = [](const EnvironmentConfig& config) {
    const auto plan = make_plan(config);
    return plan ? "" : plan.error().text;
  };
  EnvironmentConfig config;
  Communicator communicator;
  communicator.nodes = 4;
  communicator.gpus = 2;
  Operation operation;
  operation.collective = Collective::kAllToAll;
  operation.count = 1000;
  config.all_to_all = std::make_shared<AllToAll>(communicator, operation);
  Random random(1);
  config.pair_hops = std::make_shared<DrawnHops>(random, 8);
  EXPECT_EQ(why(config), "plan: real: no rank is real");
  config.real = {8};
  EXPECT_EQ(why(config), "plan: real: rank 8 of 8");
  config.real = {4};
  EXPECT_EQ(why(config), "plan: real: ranks 4 and 5 share a node, and one of them is not real");
  config.real = {4, 5};
  EXPECT_EQ(why(config), "");
  config.entry_delay.resize(7);
  EXPECT_EQ(why(config), "plan: entry_delay: 7 given for 8 ranks");
  config.entry_delay = {};
  config.wire.mtu = 0;
  EXPECT_EQ(why(config), "plan: wire.mtu: must not be 0");
  config.wire.mtu = 4096;
  config.pair_hops = nullptr;
  EXPECT_EQ(why(config), "plan: pair_hops: missing");
}

}  // namespace
}  // namespace understudy
