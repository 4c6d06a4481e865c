// Two rails: `meson test --benchmark -v rails_bench`. A shard each, nothing shared; each answers a
// peer's WRITEs of its own, 65,536 frames a pass, beyond the last level. In one run: one of them
// alone, both by a thread each on a core each, and both by one thread in turn, a burst each.
//
// `ns`: of a frame of the one alone, whose passes the time is. `two_threads`: rate of both threads
// against it, by the wall; `two_threads_cpu`: the same by the time that the threads had their
// cores, which says what they cost one another where others take the cores from them; `in_turn`:
// time of a frame in turn, against alone. Both rails in turn are what two cores do where there is
// but one.
#include <benchmark/benchmark.h>
#include <pthread.h>

#include <ctime>
#include <latch>
#include <thread>

#include "tests/bench/responders.h"

namespace understudy {
namespace {

double core_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void stay_on(size_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  must(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0, "a core for each thread");
}

class Rail {
 public:
  explicit Rail(const RespondersSetup& setup) : nodes_(setup) {}

  size_t frames() { return nodes_.feed().frames(); }
  void number() { nodes_.feed().number(0, frames()); }
  void burst(size_t first) { nodes_.handle(nodes_.feed().burst(first)); }
  void pass() {
    for (size_t i = 0; i < frames(); i += kBurst) burst(i);
    handled_ += frames();
  }
  void passed_in_turn() { handled_ += frames(); }
  void check() { nodes_.check(handled_); }

 private:
  Responders nodes_;
  uint64_t handled_ = 0;
};

struct Took {
  double core = 0, begin = 0, end = 0;
};

void rails(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = static_cast<uint32_t>(state.range(0));
  setup.feed.message_packets = setup.feed.payload > 64 ? 16 : 1;
  setup.cold = true;
  Rail a(setup), b(setup);
  double alone = 0, both_wall = 0, both_core = 0, in_turn = 0;
  const auto timed = [](auto work) {
    Took took{core_seconds(), wall_seconds(), 0};
    work();
    took.end = wall_seconds();
    took.core = core_seconds() - took.core;
    return took;
  };
  for (auto _ : state) {
    a.number();
    const Took one = timed([&] { a.pass(); });
    alone += one.core;
    state.SetIterationTime(one.core);

    a.number();
    b.number();
    std::latch ready(2);
    Took by_a, by_b;
    const auto thread = [&](size_t core, Rail& rail, Took& took) {
      stay_on(core);
      ready.arrive_and_wait();
      took = timed([&] { rail.pass(); });
    };
    std::thread other([&] { thread(1, b, by_b); });
    std::thread first([&] { thread(0, a, by_a); });
    other.join();
    first.join();
    both_wall += std::max(by_a.end, by_b.end) - std::min(by_a.begin, by_b.begin);
    both_core += (by_a.core + by_b.core) / 2;

    a.number();
    b.number();
    in_turn += timed([&] {
                 for (size_t i = 0; i < a.frames(); i += kBurst) {
                   a.burst(i);
                   b.burst(i);
                 }
               }).core;
    a.passed_in_turn();
    b.passed_in_turn();
  }
  a.check();
  b.check();
  const auto passes = static_cast<double>(state.iterations());
  const auto frames = static_cast<double>(a.frames());
  state.counters["ns"] = alone / passes / frames * 1e9;
  state.counters["two_threads"] = 2 * alone / both_wall;
  state.counters["two_threads_cpu"] = 2 * alone / both_core;
  state.counters["in_turn"] = in_turn / 2 / alone;
}

BENCHMARK(rails)->ArgName("bytes")->Arg(64)->Arg(1024)->Arg(4096)->UseManualTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
