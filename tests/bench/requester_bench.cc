// What emulated nodes send: `meson test --benchmark -v requester_bench`. 16 queue pairs keep 128
// WRITEs each under way; the real node's ACKs come in bursts. The time is that of a packet, with
// its share of ACKs, completions and new requests, into memory like a device's, without the real
// node.
#include <benchmark/benchmark.h>

#include "tests/bench/requesters.h"

namespace understudy {
namespace {

/// Contents that nobody has given: zeros, written into the frame. No bytes: all that a frame costs
/// without its contents.
void synthetic(benchmark::State& state) {
  RequestersSetup setup;
  setup.payload = static_cast<uint32_t>(state.range(0));
  setup.message_packets = static_cast<uint32_t>(state.range(1));
  run_requesters(state, setup);
}

void controlled(benchmark::State& state) {
  RequestersSetup setup;
  setup.payload = static_cast<uint32_t>(state.range(0));
  setup.message_packets = 16;
  setup.between = static_cast<Between>(state.range(1));
  setup.control = static_cast<Control>(state.range(2));
  run_requesters(state, setup);
}

BENCHMARK(synthetic)->ArgNames({"bytes", "packets"})->Args({0, 1})->UseManualTime();
BENCHMARK(synthetic)
    ->ArgNames({"bytes", "packets"})
    ->ArgsProduct({{64, 1024, 4096}, {1, 16}})
    ->UseManualTime();
BENCHMARK(controlled)
    ->ArgNames({"bytes", "between", "control"})
    ->ArgsProduct({{64, 4096}, {0, 1, 2}, {0, 1, 2}})
    ->UseManualTime();

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
