// Flows as rates at scale: `meson test --benchmark -v flow_bench`. 1,024 nodes in a three-tier fat
// tree; a ring all-reduce of 64 MiB is 2,095,104 flows, an all-to-all 1,047,552.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <tuple>

#include "ctrl/topology/topology.h"
#include "ctrl/traffic/traffic.h"
#include "tests/rigs/lone_run.h"

namespace understudy {
namespace {

/// A fat tree of switches with `k` ports.
Config config_of(unsigned k, const std::string& traffic) {
  const ConfigResult config = load_config_text(
      "format = 1\n[[node]]\nname = \"w\"\ncount = " + std::to_string(k * k * k / 4) +
          "\n"
          "link = { rate = \"100Gbit/s\", latency = \"600ns\" }\n"
          "[topology]\nkind = \"fat_tree\"\nk = " +
          std::to_string(k) +
          "\n"
          "uplink = { rate = \"100Gbit/s\", latency = \"700ns\" }\n"
          "core_uplink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
          "[fabric]\nfidelity = \"flow\"\n[[traffic]]\n" +
          traffic,
      "bench");
  if (!config) {
    std::fputs(describe(config.error()).c_str(), stderr);
    std::exit(1);
  }
  return *config;
}

void run(benchmark::State& state, unsigned k, const std::string& text) {
  const Config config = config_of(k, text);
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    const auto topology = build_topology(config);
    const auto traffic = build_traffic(config, *topology);
    state.counters["network_and_flows_ms"] =
        static_cast<double>(std::clock() - begin) * 1e3 / CLOCKS_PER_SEC;
    const auto run = run_flows(config, *topology, traffic->flows);
    state.counters["flows"] = static_cast<double>(run->flows.size());
    state.counters["modelled_ms"] = run->end.seconds() * 1e3;
    state.counters["filled"] = static_cast<double>(run->filled);
  }
}

}  // namespace
}  // namespace understudy

int main(int argc, char** argv) {
  const std::tuple<const char*, unsigned, const char*> cases[] = {
      {"ring_1024", 16, "pattern = \"ring\"\nfrom = \"w*\"\nsize = \"64KiB\"\nsteps = 2046\n"},
      {"permutation_1024", 16, "pattern = \"permutation\"\nfrom = \"w*\"\nsize = \"64MiB\"\n"},
      {"all_to_all_1024", 16, "pattern = \"all_to_all\"\nfrom = \"w*\"\nsize = \"64KiB\"\n"},
      {"all_to_all_4_at_once_128", 8,
       "pattern = \"all_to_all\"\nfrom = \"w*\"\nsize = \"64KiB\"\nconcurrent = 4\n"},
      {"all_to_all_4_at_once_250", 10,
       "pattern = \"all_to_all\"\nfrom = \"w*\"\nsize = \"64KiB\"\nconcurrent = 4\n"},
  };
  benchmark::Initialize(&argc, argv);
  for (const auto& [name, k, text] : cases) {
    benchmark::RegisterBenchmark(name, understudy::run, k, std::string(text))
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
}
