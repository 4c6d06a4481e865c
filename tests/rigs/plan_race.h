// Two plans of one operation side by side, and real ranks that answer at random, causal times: the
// same outputs after every input, to the picosecond, and the same completions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/pair_hops.h"

namespace understudy {

using Random = std::mt19937_64;

inline uint64_t among(Random& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}
/// 0, or spread over the magnitudes up to `most`.
inline int64_t spread(Random& random, int64_t most) {
  return random() % 4 == 0 ? 0 : most >> random() % 12;
}
/// A number in the environment, or else another one.
inline uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// A way; half of them, or none, between NICs that take something beside their links.
inline Hop draw_hop(Random& random, bool with_nics = true) {
  Hop hop{Rate::bits_per_second(1'000'000'000ULL << among(random, 0, 9)),
          Duration::ps(spread(random, 5'000'000))};
  if (!with_nics || random() % 2 == 0) return hop;
  const auto time = [&] { return Duration::ps(spread(random, 1'000'000)); };
  const Duration lead[] = {time(), time()}, tail[] = {time(), time()}, ack_delay = time();
  hop.latency += lead[0] + tail[1];
  hop.credit_more = lead[1] + tail[0] - lead[0] - tail[1];
  hop.ack_more = ack_delay + tail[0] - lead[0] - tail[1] * 2;
  if (random() % 2 == 0) hop.limits.least = time();
  if (random() % 2 == 0) hop.limits.pcie = Rate::bits_per_second(hop.rate.bps() / 2);
  return hop;
}

/// One of a few ways for each pair.
class DrawnHops : public PairHops {
 public:
  DrawnHops(Random& random, uint32_t ranks) : seed_(random()), ranks_(ranks) {
    for (uint64_t kinds = among(random, 1, 4); kinds > 0; --kinds) {
      hops_.push_back(draw_hop(random));
    }
  }
  Hop hop(uint32_t from, uint32_t to) const override {
    return hops_[Random(seed_ + from * ranks_ + to)() % hops_.size()];
  }

 private:
  const uint64_t seed_;
  const uint32_t ranks_;
  std::vector<Hop> hops_;
};

/// An operation for the general evaluator, and for one that lists no connections.
struct RaceCase {
  std::string name;
  Communicator communicator;
  Operation operation;
  PlanInput listed, ruled;
  std::vector<std::vector<FarEnd>> far;
  std::vector<bool> real;
  bool bound = false;    ///< real ranks wait for what they need
  int64_t sluggish = 0;  ///< ps that a real rank takes at most for anything
};

/// Which ranks are real, when ranks enter, and what all costs. The communicator and what `ruled`
/// knows of the operation stand already.
inline void draw_rest(RaceCase& c, Random& random, const OperationCut& cut) {
  const Communicator& communicator = c.communicator;
  PlanInput& ruled = c.ruled;
  const uint32_t n = communicator.ranks();
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
  c.listed.alike = {};
  c.listed.pair_hops = {};
  c.listed.ranks = rank_schedules(communicator, c.operation, cut);
  std::vector<const RankSchedule*> all;
  for (const auto& rank : c.listed.ranks) {
    all.push_back(rank.get());
    std::vector<Hop>& hops = c.listed.hops.emplace_back();
    for (const Connection& connection : rank->connections()) {
      hops.push_back(ruled.pair_hops->hop(connection.from, connection.to));
    }
  }
  c.far = *far_ends(all);
  c.name = std::string(name_of(kCollectiveNames, c.operation.collective)) + ", 2." +
           std::to_string(communicator.version.minor) + ", " + std::to_string(communicator.nodes) +
           " x " + std::to_string(communicator.gpus) + ", " + std::to_string(real_nodes) +
           " real nodes, " + std::to_string(communicator.channels) + " channels, " +
           std::to_string(c.operation.bytes()) + " bytes" + (c.bound ? ", bound" : "");
}

/// Two plans side by side, and real ranks that answer at random.
class Race {
 public:
  Race(const RaceCase& c, Plan& a, Plan& b, uint64_t seed) : c_(c), a_(a), b_(b), random_(seed) {}

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
  using Kind = PlanOutput::Kind;
  using Output = std::tuple<uint32_t, uint32_t, uint64_t, int64_t, Kind>;

  static std::vector<Output> take(Plan& plan) {
    std::vector<Output> all;
    for (PlanOutput o; plan.next(o);) {
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

  const RaceCase& c_;
  Plan& a_;
  Plan& b_;
  Random random_;
  std::map<std::pair<uint32_t, uint32_t>, Real> state_;
  std::set<std::pair<uint32_t, uint32_t>> waiting_;  ///< connections with a credit to use
  std::priority_queue<Event> events_;
};

}  // namespace understudy
