// Nanoseconds per acknowledgement (and its timers) of each law: `meson test --benchmark -v
// cc_bench`.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "tests/cc/acks.h"

namespace understudy {
namespace {

constexpr size_t kAcks = 4096;
constexpr size_t kHops = 5;  // of a three-tier fat tree

/// A sender of 100 Gbit/s over five switches; every 16th acknowledgement is marked, queues and
/// round trips go up and down.
struct Stream {
  Stream() : hops(kAcks * kHops) {
    Acks source;
    for (size_t i = 0; i < kAcks; ++i) {
      const auto wave = static_cast<int64_t>(i % 256 < 128 ? i % 128 : 127 - i % 128);
      AckHeard ack = source.next(100, i % 16 == 0, Duration::us(20 + wave));
      for (size_t hop = 0; hop < kHops; ++hop) {
        const auto busy = static_cast<uint64_t>(ack.at.ps()) / 80;  // of 100 Gbit/s
        hops[i * kHops + hop] = {gbps(100), ack.at, busy, static_cast<uint64_t>(wave) * 1000};
      }
      ack.hops = std::span(hops).subspan(i * kHops, kHops);
      ack.switches = kHops;
      acks.push_back(ack);
    }
  }
  std::vector<IntHop> hops;
  std::vector<AckHeard> acks;
};

void on_ack(benchmark::State& state, const ControlPreset& preset) {
  static const Stream stream;
  auto controller = make_controller(preset.parameters, {gbps(100), Duration::us(10), 1000});
  size_t i = 0;
  for (auto _ : state) {
    if (i == kAcks) {
      i = 0;
      state.PauseTiming();
      controller = make_controller(preset.parameters, {gbps(100), Duration::us(10), 1000});
      state.ResumeTiming();
    }
    const AckHeard& ack = stream.acks[i++];
    while (controller->deadline() <= ack.at) controller->on_timer(controller->deadline());
    if (ack.marked) controller->on_cnp(ack.at);
    controller->on_ack(ack);
    benchmark::DoNotOptimize(controller->rate());
  }
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (const auto& preset : understudy::control_presets()) {
    const std::string name =
        "on_ack/" + std::string(preset.controller) + "/" + std::string(preset.name);
    benchmark::RegisterBenchmark(
        name.c_str(), [&preset](benchmark::State& state) { understudy::on_ack(state, preset); });
  }
  benchmark::RunSpecifiedBenchmarks();
}
