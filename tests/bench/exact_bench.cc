// Nanoseconds per packet of exact payload to a real rank, by ranks whose contributions are in it:
// `meson test --benchmark -v exact_bench`. The argument is the number of ranks.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "collective_model/schedule/group.h"
#include "dataplane/collective/exact_values.h"

namespace understudy {
namespace {

/// One real rank, the first; what it sends is zeros.
struct Job final : ExactValues::Reader {
  Job(Collective collective, Algorithm algorithm, uint32_t ranks, DataType type) {
    Communicator communicator;
    communicator.nodes = ranks;
    Operation operation;
    operation.collective = collective;
    operation.algorithm = algorithm;
    operation.type = type;
    operation.count = uint64_t{1} << 20;
    const auto made = *kernel_schedules(communicator, {&operation, 1});
    std::vector<const RankSchedule*> all;
    for (const auto& rank : made) all.push_back(rank.get());
    const auto far = *far_ends(all);
    shape.values = std::make_shared<AllRanks>(AllRanks{made, far});
    shape.real = {made[0]};
    shape.far = {far[0]};
    job.real = {0};
    job.real_index.assign(ranks, CollectiveJob::kEmulated);
    job.real_index[0] = 0;
    job.operations = {&shape};
    job.exact = true;
    job.type = type;
    values = std::make_unique<ExactValues>(job, std::vector<uint64_t>(ranks, 1));
  }
  const uint8_t* read(const ExactValues::Place& place, std::span<uint8_t>) const override {
    const FarEnd& sender = shape.values->far[place.rank][place.connection];
    return sender.rank == 0 ? sent.data() : nullptr;
  }

  CollectiveShape shape;
  CollectiveJob job;
  std::unique_ptr<ExactValues> values;
  std::vector<uint8_t> sent = std::vector<uint8_t>(8 << 20);
};

/// Packets of message `k` of the first connection that the real rank receives on.
void packets(benchmark::State& state, Collective collective, Algorithm algorithm, uint64_t k,
             DataType type = DataType::kFloat32) {
  Job job(collective, algorithm, static_cast<uint32_t>(state.range(0)), type);
  const std::vector<Connection>& all = job.shape.real[0]->connections();
  uint32_t c = 0;
  while (all[c].direction != Direction::kReceive || all[c].messages == 0) ++c;
  if (k >= all[c].messages) k = all[c].messages - 1;
  std::vector<uint8_t> packet(4096);
  for (auto _ : state) {
    job.values->received(&job, {0, 0, c, k, 0}, packet);
    benchmark::DoNotOptimize(packet.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(packet.size()));
}

/// The last one that is reduced has all emulated ranks' contributions.
void ring_reduced(benchmark::State& state) {
  packets(state, Collective::kAllReduce, Algorithm::kRing,
          2 * (static_cast<uint64_t>(state.range(0)) - 2));
}
void ring_copied(benchmark::State& state) {
  packets(state, Collective::kAllGather, Algorithm::kRing, ~uint64_t{0});
}
void tree(benchmark::State& state) { packets(state, Collective::kAllReduce, Algorithm::kTree, 0); }
void pat(benchmark::State& state) {
  packets(state, Collective::kReduceScatter, Algorithm::kPat, 0);
}
void ring_float16(benchmark::State& state) {
  packets(state, Collective::kAllReduce, Algorithm::kRing,
          2 * (static_cast<uint64_t>(state.range(0)) - 2), DataType::kFloat16);
}

BENCHMARK(ring_reduced)->RangeMultiplier(4)->Range(4, 256);
BENCHMARK(ring_copied)->RangeMultiplier(4)->Range(4, 256);
BENCHMARK(tree)->RangeMultiplier(4)->Range(4, 256);
BENCHMARK(pat)->RangeMultiplier(4)->Range(4, 256);
BENCHMARK(ring_float16)->Arg(16);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
