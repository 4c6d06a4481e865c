// roce-check's speed: `meson test --benchmark -v roce_check_bench`. Packets per second of CPU time from their
// bytes to findings, on one core, in parts of the default size; making them is not in the time.
// Arguments: bytes of payload, connections.
#include <benchmark/benchmark.h>

#include <ctime>

#include "tests/tools/roce_check/traffic.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {
namespace {

/// Of this thread alone: who else runs on the machine does not count.
double seconds_used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void judge(benchmark::State& state) {
  const TrafficShape shape{.connections = static_cast<uint32_t>(state.range(1)),
                           .mtu = static_cast<uint32_t>(state.range(0))};
  TrafficSource source(shape, UINT64_MAX);
  Analyser analyser({});
  uint64_t packets = 0;
  std::vector<SourceFrame> round;
  for (auto _ : state) {
    (void)_;
    round.clear();
    do {
      round.push_back(**source.next());
    } while (source.ready() != 0);
    const double began = seconds_used();
    for (const SourceFrame& frame : round) analyser.frame(frame, source.summary());
    state.SetIterationTime(seconds_used() - began);
    packets += round.size();
  }
  if (!analyser.finish(source.summary()).findings.hold()) state.SkipWithError("must hold");
  state.counters["packets/s"] =
      benchmark::Counter(static_cast<double>(packets), benchmark::Counter::kIsRate);
}
BENCHMARK(judge)->UseManualTime()->Args({256, 8})->Args({1024, 8})->Args({4096, 8})->Args({1024,
                                                                                           1000});

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
