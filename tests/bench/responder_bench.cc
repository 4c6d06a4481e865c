// What comes in, as it comes: `meson test --benchmark -v responder_bench`. WRITEs of a peer, 32 a
// burst, verified in full, executed and acknowledged; the time is that of a packet, without its
// making. Hot frames fit the second-level cache, cold ones go beyond the last level.
#include <benchmark/benchmark.h>

#include "tests/bench/responders.h"

namespace understudy {
namespace {

/// WRITEs of one packet with 64 bytes; each of them, or each 16th only, asks for an ACK.
void small(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = 64;
  setup.feed.ack_every = static_cast<uint32_t>(state.range(0));
  setup.cold = state.range(1) != 0;
  run_responders(state, setup);
}

/// The same where one frame in 1,000 has a flipped bit: it is dropped and comes again.
void damaged(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = static_cast<uint32_t>(state.range(0));
  setup.feed.damage_every = 1000;
  setup.cold = true;
  run_responders(state, setup);
}

/// WRITEs of 1024 bytes to queue pairs of one node in random order, each with an ACK.
void queue_pairs(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = 1024;
  setup.queue_pairs = static_cast<uint32_t>(state.range(0));
  setup.cold = state.range(1) != 0;
  run_responders(state, setup);
}

/// A queue pair on each of so many nodes.
void nodes(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = 1024;
  setup.nodes = setup.queue_pairs = static_cast<uint32_t>(state.range(0));
  setup.cold = state.range(1) != 0;
  run_responders(state, setup);
}

/// WRITEs of 16 packets of one queue pair, over nothing, two links, and the six of a fat tree.
void between(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = static_cast<uint32_t>(state.range(0));
  setup.feed.message_packets = 16;
  setup.between = static_cast<Between>(state.range(1));
  setup.cold = state.range(2) != 0;
  run_responders(state, setup);
}

BENCHMARK(small)->ArgNames({"ack_every", "cold"})->ArgsProduct({{1, 16}, {0, 1}})->UseManualTime();
BENCHMARK(damaged)->ArgName("bytes")->Arg(64)->Arg(1024)->UseManualTime();
BENCHMARK(queue_pairs)
    ->ArgNames({"queue_pairs", "cold"})
    ->ArgsProduct({{1, 64, 1024, 16'384, 65'536}, {0, 1}})
    ->UseManualTime();
BENCHMARK(nodes)
    ->ArgNames({"nodes", "cold"})
    ->ArgsProduct({{1, 64, 16'384}, {0, 1}})
    ->UseManualTime();
BENCHMARK(between)
    ->ArgNames({"bytes", "between", "cold"})
    ->ArgsProduct({{64, 1024, 4096}, {0, 1, 2}, {0, 1}})
    ->UseManualTime();

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
