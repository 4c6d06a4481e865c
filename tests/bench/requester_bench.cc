// What emulated nodes send: `meson test --benchmark -v requester_bench`. 16 queue pairs keep 128
// WRITEs each under way; the real node's ACKs come in bursts. The time is that of a packet, with
// its share of ACKs, completions and new requests, into memory like a device's, without the real
// node.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

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

/// Building a frame alone: headers, contents, ICRC.
void build(benchmark::State& state) {
  const auto payload = static_cast<uint32_t>(state.range(0));
  const ShardConfig config = bench_config(1, 1, Between::kTwoLinks);
  const BenchShard rig(config);
  const RoceAddressing a = rig.qp_config(0, 1, 4096).addressing;
  RingSink sink;
  RoceFields f;
  f.opcode = Opcode::kWriteMiddle;
  for (auto _ : state) {
    f.psn = f.psn.next();
    const uint32_t bytes = roce_frame_bytes(a, f.opcode, payload);
    uint8_t* const out = sink.reserve(bytes);
    uint8_t* const contents = begin_roce(out, a, f, payload);
    PayloadRef{}.write({contents, payload});
    finish_roce(out, a, f.opcode, payload);
    sink.commit(bytes, Time());
  }
}

/// What of it the contents are: zeros, and their CRC.
void contents(benchmark::State& state) {
  const auto payload = static_cast<uint32_t>(state.range(0));
  RingSink sink;
  for (auto _ : state) {
    uint8_t* const out = sink.reserve(payload);
    PayloadRef{}.write({out, payload});
    benchmark::DoNotOptimize(crc32_gzip_refl(0, out, payload));
    sink.commit(payload, Time());
  }
}

BENCHMARK(synthetic)->ArgNames({"bytes", "packets"})->Args({0, 1})->UseManualTime();
BENCHMARK(synthetic)
    ->ArgNames({"bytes", "packets"})
    ->ArgsProduct({{64, 1024, 4096}, {1, 16}})
    ->UseManualTime();
BENCHMARK(build)->ArgName("bytes")->Arg(0)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(contents)->ArgName("bytes")->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(controlled)
    ->ArgNames({"bytes", "between", "control"})
    ->ArgsProduct({{64, 4096}, {0, 1, 2}, {0, 1, 2}})
    ->UseManualTime();

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
