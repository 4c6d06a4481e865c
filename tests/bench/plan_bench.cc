// What plans cost beside one real rank: `meson test --benchmark -v plan_bench`. `make_*`: from the
// communicator to a plan that can start, with all that stays allocated; `message_*`: a message that
// crosses between real and emulated ranks, either way, with its credit and acknowledgement, the
// operation's start and end included, and the real rank's own part; `plan_*`: what of it the plan
// takes, by repeating what that rank said: `per_message`, and `start_per_rank` of all ranks'
// entries.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/plan/general_plan.h"
#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/pair_hops.h"
#include "collective_model/plan/symmetric_ranks.h"
#include "collective_model/schedule/all_to_all.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

struct Shape {
  const char* name;
  Collective collective;
  Algorithm algorithm;
  uint64_t bytes;  ///< of an all-reduce's, broadcast's or send/recv's buffer, else of a rank's part
  uint32_t leaf = 0;  ///< ranks of a leaf switch, from which on the way is longer; 0: one for all
  uint32_t gpus = 1;  ///< ranks of a node, inside which messages take time
  uint32_t channels = 1;
};
constexpr uint64_t kKiB = 1024;

/// The same for all pairs.
class OneHop : public PairHops {
 public:
  explicit OneHop(const Hop& hop) : hop_(hop) {}
  Hop hop(uint32_t, uint32_t) const override { return hop_; }

 private:
  const Hop hop_;
};

/// `listed`: with the connections of all ranks, for the general evaluator.
PlanInput config_of(const Shape& shape, uint32_t ranks, bool listed = false) {
  Communicator communicator;
  communicator.nodes = ranks / shape.gpus;
  communicator.gpus = shape.gpus;
  Operation operation;
  operation.collective = shape.collective;
  operation.algorithm = shape.algorithm;
  operation.count = shape.bytes / 4;
  communicator.channels = shape.channels;
  OperationCut cut;
  if (!is_p2p(shape.collective)) cut = cut_group(communicator, {&operation, 1})->at(0);
  PlanInput config;
  const Hop hop{Rate::bits_per_second(100'000'000'000), Duration::us(2)};
  config.real = {ranks / 3};
  config.step_cost = Duration::us(3);
  if (shape.gpus > 1) {
    config.inside = NodeWay{Rate::bits_per_second(2'400'000'000'000), Duration::us(1)};
  }
  const bool all_to_all = AllToAll::is_one(operation);
  if ((all_to_all || SymmetricRanks::is_one(operation)) && !listed) {
    if (all_to_all) {
      config.all_to_all = std::make_shared<AllToAll>(communicator, operation);
    } else {
      config.alike = std::make_shared<SymmetricRanks>(communicator, operation, cut);
    }
    config.pair_hops = std::make_shared<OneHop>(hop);
    config.ranks.resize(ranks);
    config.ranks[config.real.front()] =
        rank_schedule(communicator, operation, cut, config.real.front());
    return config;
  }
  config.ranks = rank_schedules(communicator, operation, cut);
  for (uint32_t r = 0; r < ranks; ++r) {
    Hop way = hop;
    if (shape.leaf != 0 && (r + 1) % shape.leaf == 0) way.latency = hop.latency * 3;
    config.hops.emplace_back(config.ranks[r]->connections().size(), way);
  }
  return config;
}

void make(benchmark::State& state, Shape shape) {
  for (auto _ : state) {
    const long long before = live_bytes;
    const auto plan = make_plan(config_of(shape, static_cast<uint32_t>(state.range(0))));
    benchmark::DoNotOptimize(plan->get());
    state.counters["MiB"] = static_cast<double>(live_bytes - before) / (kKiB * kKiB);
  }
}

/// With every rank emulated, made and carried out.
void ideal(benchmark::State& state, Shape shape) {
  for (auto _ : state) {
    const auto plan =
        make_uncongested_plan(config_of(shape, static_cast<uint32_t>(state.range(0))));
    (*plan)->start(Time::zero());
    benchmark::DoNotOptimize((*plan)->finished());
  }
}

/// The real rank: sends as soon as it has what it passes on, and a credit.
class RealRank {
 public:
  explicit RealRank(const PlanInput& config)
      : schedule_(config.ranks[config.real.front()]),
        connections_(schedule_->connections().size()) {
    if (config.all_to_all) {
      far_ = config.all_to_all->far_ends(*schedule_);
    } else if (config.alike) {
      far_ = config.alike->far_ends(config.real.front());
    } else {
      std::vector<const RankSchedule*> all;
      for (const auto& rank : config.ranks) all.push_back(rank.get());
      far_ = (*far_ends(all))[config.real.front()];
    }
    for (uint32_t c = 0; c < far_.size(); ++c) own_[{far_[c].rank, far_[c].connection}] = c;
  }

  /// What the plan was told, and when after the operation's start.
  struct Told {
    bool data = false;  ///< else that its message is acknowledged
    uint32_t rank = 0, connection = 0;
    uint64_t message = 0;
    Duration after;
    bool taken = false;  ///< not: an acknowledgement of several had said it already
  };

  uint64_t carry_out(Plan& plan, Time& now, std::vector<Told>* told = nullptr) {
    told_ = told;
    start_ = now;
    uint64_t messages = 0;
    std::ranges::fill(connections_, Progress{});
    plan.start(now);
    take(plan);
    while (!events_.empty()) {
      const PlanOutput out = events_.top().out;
      events_.pop();
      now = std::max(now, out.time);
      ++messages;
      ++connections_[own_.find({out.rank, out.connection})->second].came;
      if (out.kind == PlanOutput::Kind::kData) {
        const bool taken = plan.on_acknowledged(out.rank, out.connection, out.message, now);
        note({false, out.rank, out.connection, out.message, now - start_, taken});
      }
      for (uint32_t c = 0; c < far_.size(); ++c) send(plan, c, now);
      take(plan);
    }
    if (!plan.finished()) {
      std::fputs("the operation did not end\n", stderr);
      std::exit(1);
    }
    return messages;
  }

 private:
  struct Progress {
    uint64_t came = 0, sent = 0;  ///< messages or credits; messages
  };
  struct Later {
    PlanOutput out;
    bool operator<(const Later& other) const { return other.out.time < out.time; }
  };

  void note(const Told& told) {
    if (told_ != nullptr) told_->push_back(told);
  }
  void take(Plan& plan) {
    for (PlanOutput out; plan.next(out);) events_.push({out});
  }
  bool may(uint32_t connection, uint64_t k) const {
    for (const Wait& wait : schedule_->waits(connection, k)) {
      const Connection& other = schedule_->connections()[wait.connection];
      const Progress& p = connections_[wait.connection];
      const uint64_t done = other.direction == Direction::kSend ? p.sent : p.came;
      if (wait.message >= done) return false;
    }
    return true;
  }
  void send(Plan& plan, uint32_t c, Time now) {
    if (schedule_->connections()[c].direction != Direction::kSend) return;
    Progress& p = connections_[c];
    while (p.sent < p.came && may(c, p.sent)) {
      const uint64_t k = p.sent++;
      const bool taken = plan.on_real_data(far_[c].rank, far_[c].connection, k, now);
      note({true, far_[c].rank, far_[c].connection, k, now - start_, taken});
    }
  }

  std::shared_ptr<const RankSchedule> schedule_;
  std::vector<FarEnd> far_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> own_;  ///< connection, by its other end
  std::vector<Progress> connections_;
  std::priority_queue<Later> events_;
  std::vector<Told>* told_ = nullptr;
  Time start_;
};

void message(benchmark::State& state, Shape shape, bool general) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  PlanInput config = config_of(shape, ranks, general);
  RealRank real(config);
  std::unique_ptr<Plan> plan;
  if (general) {
    plan = std::make_unique<GeneralPlan>(*GeneralPlan::make(std::move(config)));
  } else {
    plan = std::move(*make_plan(std::move(config)));
  }
  Time now = Time::zero();
  uint64_t messages = 0;
  for (auto _ : state) messages += real.carry_out(*plan, now);
  state.counters["per_message"] = benchmark::Counter(
      static_cast<double>(messages), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// The plan alone: one operation is carried out with the real rank and then repeated.
void plan_alone(benchmark::State& state, Shape shape) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  PlanInput config = config_of(shape, ranks);
  RealRank real(config);
  const std::unique_ptr<Plan> plan = std::move(*make_plan(std::move(config)));
  std::vector<RealRank::Told> told;
  Time now;
  const uint64_t messages = real.carry_out(*plan, now, &told);
  const auto seconds = [] {  // of this thread on its core
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  double starting = 0, running = 0;
  for (auto _ : state) {
    now += Duration::ms(1);
    const Time start = now;
    const double begin = seconds();
    plan->start(start);
    const double started = seconds();
    uint64_t came = 0;
    bool right = true;
    PlanOutput out;
    while (plan->next(out)) ++came;
    for (const RealRank::Told& t : told) {
      now = start + t.after;
      right &= t.taken == (t.data ? plan->on_real_data(t.rank, t.connection, t.message, now)
                                  : plan->on_acknowledged(t.rank, t.connection, t.message, now));
      while (plan->next(out)) ++came;
    }
    const double end = seconds();
    if (!right || came != messages || !plan->finished()) {
      std::fputs("the repeated operation is another one\n", stderr);
      std::exit(1);
    }
    starting += started - begin;
    running += end - started;
    state.SetIterationTime(end - begin);
  }
  const auto operations = static_cast<double>(state.iterations());
  state.counters["per_message"] = running / operations / static_cast<double>(messages) * 1e9;
  state.counters["start_per_rank"] = starting / operations / ranks * 1e9;
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  using understudy::Algorithm;
  using understudy::Collective;
  using understudy::kKiB;
  constexpr uint64_t kMiB = kKiB * kKiB;
  const understudy::Shape shapes[] = {
      {"ring", Collective::kAllReduce, Algorithm::kRing, 64 * kMiB},
      // Two loops up to 64 ranks; chunks that are shorter than the others.
      {"ring_uneven", Collective::kAllReduce, Algorithm::kRing, 256 * kMiB + 52},
      // Four and a half loops over any number of ranks.
      {"ring_loops", Collective::kAllGather, Algorithm::kRing, 9 * kMiB},
      {"ring_leaves", Collective::kAllReduce, Algorithm::kRing, 64 * kMiB, 32},
      {"ring_leaves_8", Collective::kAllReduce, Algorithm::kRing, 512 * kMiB, 32, 1, 8},
      {"broadcast", Collective::kBroadcast, Algorithm::kRing, 256 * kMiB},
      {"ring_nodes", Collective::kAllReduce, Algorithm::kRing, 256 * kMiB + 52, 0, 8},
      {"tree", Collective::kAllReduce, Algorithm::kTree, 64 * kMiB},
      {"send_recv", Collective::kSendRecv, Algorithm::kRing, kMiB},
      {"pat_small", Collective::kAllGather, Algorithm::kPat, kKiB},
      {"pat_small_8", Collective::kAllGather, Algorithm::kPat, kKiB, 0, 1, 8},
      {"all_to_all", Collective::kAllToAll, Algorithm::kRing, 16 * kKiB},
      {"all_to_all_8", Collective::kAllToAll, Algorithm::kRing, 16 * kKiB, 0, 1, 8},
      // 20 messages a pair: senders wait for receivers.
      {"all_to_all_large", Collective::kAllToAll, Algorithm::kRing, 2560 * kKiB},
  };
  benchmark::Initialize(&argc, argv);
  for (const understudy::Shape& shape : shapes) {
    const std::string name = shape.name;
    const bool pat = shape.algorithm == Algorithm::kPat;
    const bool all_to_all = shape.collective == Collective::kAllToAll;
    auto* ideal = benchmark::RegisterBenchmark(("ideal_" + name).c_str(), understudy::ideal, shape)
                      ->Unit(benchmark::kMillisecond)
                      ->Arg(256);
    ideal->Arg(4096);
    if (shape.gpus > 1) continue;  // there is one real rank
    benchmark::RegisterBenchmark(("make_" + name).c_str(), understudy::make, shape)
        ->Unit(benchmark::kMillisecond)
        ->Arg(256)
        ->Arg(4096);
    auto* plan =
        benchmark::RegisterBenchmark(("message_" + name).c_str(), understudy::message, shape, false)
            ->Unit(benchmark::kMillisecond);
    auto* alone =
        benchmark::RegisterBenchmark(("plan_" + name).c_str(), understudy::plan_alone, shape)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
    auto* general = benchmark::RegisterBenchmark(("message_general_" + name).c_str(),
                                                 understudy::message, shape, true)
                        ->Unit(benchmark::kMillisecond);
    for (const int ranks : {4, 64, 1024, 4096, 65536}) {
      if (ranks <= (pat || all_to_all ? 4096 : 65536)) {
        plan->Arg(ranks);
        alone->Arg(ranks);
      }
      if (ranks <= (pat || all_to_all ? 64 : 1024)) general->Arg(ranks);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
