// Virtual time end to end, as `understudy simulate` drives it: `meson test --benchmark -v
// virtual_time_bench`. Time and rates are those of the CPU, with all set-up and the report.
//
// `data`: packets with payload in a CPU second, from their sender's queue to their receiver's, ACKs
// on top; what independent simulators count as well. `packets`: ACKs and credits among them.
#include <benchmark/benchmark.h>

#include <ctime>
#include <string>
#include <utility>

#include "ctrl/config/read/load.h"
#include "ctrl/run/simulate.h"
#include "tests/bench/bench_shard.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr uint64_t kPayload = 4096;

uint64_t count_of(const NamedCounts& counts, const std::string& name) {
  for (const auto& [what, count] : counts) {
    if (what == name) return count;
  }
  give_up("no counter " + name);
}
uint64_t sum_of(const NamedCounts& counts) {
  uint64_t sum = 0;
  for (const auto& [what, count] : counts) sum += count;
  return sum;
}

struct Done {
  uint64_t data = 0, packets = 0;
};

/// Simulates `text` over and over; `look` checks a report and counts.
template <typename Look>
void run(benchmark::State& state, const std::string& text, Look look) {
  const auto config = load_config_text(text, "bench");
  must(config.has_value(), config ? "" : describe(config.error()));
  Done all;
  double seconds = 0;
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    const auto report = compile_and_simulate(*config);
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    must(report.has_value(), report ? "" : report.error().text);
    state.SetIterationTime(took);
    seconds += took;
    const Done done = look(*report);
    all.data += done.data;
    all.packets += done.packets;
  }
  state.counters["data"] = static_cast<double>(all.data) / seconds;
  state.counters["packets"] = static_cast<double>(all.packets) / seconds;
}

const std::string kLinks = "link = { rate = \"400Gbit/s\", latency = \"1us\" }\n";

/// A ring all-reduce between a real rank and `ranks` - 1 emulated ones: two shards, frames whole,
/// two links a path.
void ring(benchmark::State& state) {
  constexpr uint64_t kBytes = 256 << 20;
  const auto ranks = static_cast<uint64_t>(state.range(0));
  run(state,
      "format = 1\n[fabric]\nmtu = 4096\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
      "[[node]]\nname = \"gpu\"\nreal = true\n" +
          kLinks + "[[node]]\nname = \"w\"\ncount = " + std::to_string(ranks - 1) + "\n" + kLinks +
          "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
          "[[job]]\nname = \"ring\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n"
          "ranks = [\"gpu\", \"" +
          (ranks > 2 ? "w*" : "w") + "\"]\nsizes = [\"256MiB\"]\n",
      [&](const RunReport& report) {
        must(report.verdict.faithful, "the verdict");
        must_equal("operations", report.jobs.at(0).collectives.size(), 1);
        const PortReport& port = report.ports.at(0);
        must_equal("dropped", sum_of(port.drops), 0);
        must_equal("sent again", count_of(port.rc_events, "retransmit"), 0);
        must_equal("duplicates", count_of(port.rc_events, "duplicate_request"), 0);
        // Each way 2 (n - 1) parts of an n-th each, cut into whole packets.
        const uint64_t data = 2 * 2 * (ranks - 1) * (kBytes / ranks / kPayload);
        const Done done = {data,
                           count_of(port.counters, "rx_roce") + count_of(port.counters, "tx_roce")};
        must(done.packets > data, "more packets than data alone");
        return done;
      });
}

/// Flows between pairs of nodes at one switch, with an ACK for each packet; nobody is real.
void flows(benchmark::State& state) {
  const auto pairs = static_cast<uint64_t>(state.range(0));
  const uint64_t packets = 1'000'000 / pairs;
  run(state,
      "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
      "[[node]]\nname = \"a\"\ncount = " +
          std::to_string(pairs) + "\n" + kLinks +
          "[[node]]\nname = \"b\"\ncount = " + std::to_string(pairs) + "\n" + kLinks +
          "[topology]\nkind = \"single_switch\"\n[flows]\nack_every = " +
          std::to_string(state.range(1)) +
          "\n[[traffic]]\npattern = \"flow\"\nfrom = \"a*\"\nto = \"b*\"\nsize = \"" +
          std::to_string(packets * kPayload) + "B\"\n",
      [&](const RunReport& report) {
        Done done;
        must_equal("flows", report.traffic->flows.size(), pairs);
        for (const FlowReport& flow : report.traffic->flows) {
          must(flow.acknowledged.has_value(), "the end of a flow");
          must_equal("packets sent", count_of(flow.packets, "sent"), packets);
          done.data += packets;
        }
        for (const TrafficLinkReport& link : report.traffic->links) {
          must_equal("lost", count_of(link.counters, "lost_buffer_full"), 0);
        }
        done.packets = count_of(report.traffic->work, "packets");
        return done;
      });
}

BENCHMARK(ring)->ArgName("ranks")->Arg(2)->Arg(4)->Arg(64)->UseManualTime()->Unit(
    benchmark::kMillisecond);
BENCHMARK(flows)
    ->ArgNames({"pairs", "ack_every"})
    ->Args({2, 1})
    ->Args({2, 64})
    ->Args({16, 1})
    ->Args({256, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
