// What stays allocated for queue pairs and nodes that do nothing: `meson test --benchmark -v
// scale_bench`. Bytes by operator new, whether they are ever touched or not; no time worth a look.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/services/endpoints.h"
#include "tests/bench/bench_shard.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

/// Of each of `count`, beside what is there without any.
double each(long long bytes, uint32_t count) {
  return static_cast<double>(bytes) / static_cast<double>(count);
}

/// The engine alone: queue pairs of one node that only answer (send_queue 0), or may send as well.
/// `slots`: what the shard keeps ready for each; `qp`: the queue pair with its queues.
void engine(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  const auto send_queue = static_cast<uint32_t>(state.range(1));
  const auto reads = static_cast<uint8_t>(state.range(2));
  for (auto _ : state) {
    const long long start = live_bytes;
    const auto none = std::make_unique<BenchShard>(bench_config(1, 0, Between::kTwoLinks));
    const long long empty = live_bytes - start;
    const auto some = std::make_unique<BenchShard>(bench_config(1, count, Between::kTwoLinks));
    const long long slots = live_bytes - start - 2 * empty;
    MemoryTarget target;
    Slab<Qp> memory;
    std::vector<Slab<Qp>::Pointer> qps;
    qps.reserve(count);
    const long long before = live_bytes;
    for (uint32_t i = 0; i < count; ++i) {
      QpConfig q = some->qp_config(i, 1, 4096);
      q.send_queue = send_queue;
      q.max_dest_rd_atomic = reads;
      qps.push_back(memory.make(q, some->shard.regions(), some->shard.rc_counters(), target));
      Command add;
      add.kind = CommandKind::kAddQp;
      add.qp = qps.back().get();
      add.endpoint = &target;
      some->command(add);
    }
    const long long made = live_bytes - before;
    state.counters["slots"] = each(slots, count);
    state.counters["qp"] = each(made, count);
    state.counters["all"] = each(slots + made, count);
    state.counters["sizeof"] = sizeof(Qp);
  }
}

/// With all that control keeps: clients of an emulated node's service that have connected.
/// `control`: the queue pair and what control knows of it, its memory region among that.
void service(benchmark::State& state, Behaviour behaviour) {
  const auto count = static_cast<uint32_t>(state.range(0));
  const auto text = [](uint32_t n) {
    return "format = 1\n[limits]\nqueue_pairs = " + std::to_string(n) +
           "\nregions = " + std::to_string(n) +
           "\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
           "[[node]]\nname = \"gpu\"\nreal = true\n"
           "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
           "[[node]]\nname = \"w\"\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
           "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
           "[[service]]\nnode = \"w\"\nport = 18515\n";
  };
  for (auto _ : state) {
    const auto config = load_config_text(text(count), "bench"),
               one = load_config_text(text(1), "bench");
    must(config.has_value(), config ? "" : describe(config.error()));
    must(one.has_value(), one ? "" : describe(one.error()));
    const long long start = live_bytes;
    const auto smallest = std::make_unique<Shard>(emulator_shard(*one, {0}, {}));
    const long long empty = live_bytes - start;
    const auto shard = std::make_unique<Shard>(emulator_shard(*config, {0}, {}));
    const long long slots = live_bytes - start - 2 * empty;
    ShardControl control(*shard);
    ServiceEndpoints endpoints(*config, {&control});
    struct Nothing final : TxSink {
      uint8_t* reserve(uint32_t) override { return nullptr; }
      void commit(uint32_t, Time) override {}
    } sink;
    EndpointRequest request;
    request.behaviour = behaviour;
    request.local = *config->nodes[1].nics[0].v4;
    request.remote = *config->nodes[0].nics[0].v4;
    request.region_bytes = 65'536;
    request.traffic.window = 128;
    request.traffic.bytes = 4096;
    request.traffic.count = 1;
    const long long before = live_bytes;
    for (uint32_t i = 0; i < count; ++i) {
      request.remote_qpn = i + 1;
      must(endpoints.create(1, i, request).has_value(), "a queue pair for each client");
      shard->poll(Time::zero(), sink);
      must_equal("commands without an answer", control.poll(), 0);
    }
    const long long made = live_bytes - before;
    state.counters["slots"] = each(slots, count - 1);
    state.counters["control"] = each(made, count);
    state.counters["all"] = each(slots, count - 1) + each(made, count);
  }
}

/// Emulated nodes, with a link each way, that have no queue pair.
void nodes(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  for (auto _ : state) {
    const long long start = live_bytes;
    const auto one = std::make_unique<BenchShard>(bench_config(1, 1, Between::kTwoLinks));
    const long long smallest = live_bytes - start;
    const auto many = std::make_unique<BenchShard>(bench_config(count, 1, Between::kTwoLinks));
    state.counters["each"] = each(live_bytes - start - 2 * smallest, count - 1);
    state.counters["MiB"] = static_cast<double>(live_bytes - start - smallest) / (1 << 20);
  }
}

BENCHMARK(engine)
    ->ArgNames({"queue_pairs", "send_queue", "reads"})
    ->Args({65'536, 0, 1})
    ->Args({65'536, 0, 16})
    ->Args({65'536, 128, 16})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(service, memory_target, Behaviour::kMemoryTarget)
    ->ArgName("queue_pairs")
    ->Arg(16'384)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(service, traffic, Behaviour::kTraffic)
    ->ArgName("queue_pairs")
    ->Arg(16'384)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(nodes)->ArgName("nodes")->Arg(16'384)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
