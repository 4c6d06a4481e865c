// What plans cost beside one real rank: `meson test --benchmark -v plan_bench`. `make_*`: from the
// communicator to a plan that can start, with all that stays allocated; `message_*`: a message that
// crosses between real and emulated ranks, either way, with its credit and acknowledgement, the
// operation's start and end included.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collective_model/environment.h"
#include "collective_model/operation_plan.h"
#include "tests/live_bytes.h"

namespace understudy {
namespace {

struct Shape {
  const char* name;
  Collective collective;
  Algorithm algorithm;
  uint64_t bytes;  ///< of an all-reduce's buffer, else of a rank's part
};
constexpr uint64_t kKiB = 1024;

EnvironmentConfig config_of(const Shape& shape, uint32_t ranks) {
  Communicator communicator;
  communicator.nodes = ranks;
  Operation operation;
  operation.collective = shape.collective;
  operation.algorithm = shape.algorithm;
  operation.count = shape.bytes / 4;
  OperationCut cut;
  if (!is_p2p(shape.collective)) cut = cut_group(communicator, {&operation, 1})->at(0);
  EnvironmentConfig config;
  const RingHop hop{Rate::bits_per_second(100'000'000'000), Duration::us(2)};
  config.ranks = rank_schedules(communicator, operation, cut);
  for (const auto& rank : config.ranks) config.hops.emplace_back(rank->connections().size(), hop);
  config.real = {ranks / 3};
  config.step_cost = Duration::us(3);
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
    const auto plan = make_ideal_plan(config_of(shape, static_cast<uint32_t>(state.range(0))));
    (*plan)->start(Time::zero());
    benchmark::DoNotOptimize((*plan)->finished());
  }
}

/// The real rank: sends when it may, takes no time.
uint64_t carry_out(Plan& plan, Time& now) {
  uint64_t messages = 0;
  plan.start(now);
  for (EnvironmentOutput out; plan.next(out);) {
    now = std::max(now, out.time);
    ++messages;
    if (out.kind == EnvironmentOutput::Kind::kCredit) {
      plan.on_real_data(out.rank, out.connection, out.message, now);
    } else {
      plan.on_acknowledged(out.rank, out.connection, out.message, now);
    }
  }
  if (!plan.finished()) {
    std::fputs("the operation did not end\n", stderr);
    std::exit(1);
  }
  return messages;
}

void message(benchmark::State& state, Shape shape, bool general) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  EnvironmentConfig config = config_of(shape, ranks);
  std::unique_ptr<Plan> plan;
  if (general) {
    plan = std::make_unique<Environment>(*Environment::make(std::move(config)));
  } else {
    plan = std::move(*make_plan(std::move(config)));
  }
  Time now = Time::zero();
  uint64_t messages = 0;
  for (auto _ : state) messages += carry_out(*plan, now);
  state.counters["per_message"] = benchmark::Counter(
      static_cast<double>(messages), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  using understudy::Algorithm;
  using understudy::Collective;
  using understudy::kKiB;
  const understudy::Shape shapes[] = {
      {"ring", Collective::kAllReduce, Algorithm::kRing, 64 * kKiB * kKiB},
      {"tree", Collective::kAllReduce, Algorithm::kTree, 64 * kKiB * kKiB},
      {"pat_small", Collective::kAllGather, Algorithm::kPat, kKiB},
      {"all_to_all", Collective::kAllToAll, Algorithm::kRing, 16 * kKiB},
  };
  benchmark::Initialize(&argc, argv);
  for (const understudy::Shape& shape : shapes) {
    const std::string name = shape.name;
    auto* made = benchmark::RegisterBenchmark(("make_" + name).c_str(), understudy::make, shape)
                     ->Unit(benchmark::kMillisecond)
                     ->Arg(256);
    if (name != "all_to_all") made->Arg(4096);
    auto* ideal = benchmark::RegisterBenchmark(("ideal_" + name).c_str(), understudy::ideal, shape)
                      ->Unit(benchmark::kMillisecond)
                      ->Arg(256);
    if (name == "ring" || name == "tree") ideal->Arg(4096);
    auto* plan =
        benchmark::RegisterBenchmark(("message_" + name).c_str(), understudy::message, shape, false)
            ->Unit(benchmark::kMillisecond);
    auto* general = benchmark::RegisterBenchmark(("message_general_" + name).c_str(),
                                                 understudy::message, shape, true)
                        ->Unit(benchmark::kMillisecond);
    for (const int ranks : {4, 64, 1024, 4096, 65536}) {
      if (name == "ring" || name == "tree" || ranks <= 64) plan->Arg(ranks);
      if (ranks <= (name == "ring" || name == "tree" ? 1024 : 64)) general->Arg(ranks);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
