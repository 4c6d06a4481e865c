// Cases of the fold: an operation, its ranks, which of them are real, drawn from a seed.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "collective_model/plan/operation_plan.h"

namespace understudy {

struct FoldCase {
  std::string name;
  Communicator communicator;
  Operation operation;
  std::vector<uint32_t> real;  ///< ranks
  std::vector<Duration> entry;
  Duration step_cost;
  std::optional<NodeWay> inside;
  uint64_t hop_seed = 0;
  bool equal_hops = false;
  uint32_t payload = 4096;  ///< of a packet

  Hop hop(uint32_t from_node, uint32_t to_node) const {
    std::mt19937_64 random(hop_seed + (equal_hops ? 0 : from_node * 1000 + to_node));
    constexpr uint64_t kGigabits[] = {25, 100, 200, 400};
    const uint64_t gigabits = kGigabits[random() % std::size(kGigabits)];
    return {Rate::bits_per_second(gigabits * 1'000'000'000),
            Duration::ns(static_cast<int64_t>(random() % 5'000))};
  }
  OperationCut cut() const {
    if (is_p2p(operation.collective)) return {};
    return cut_group(communicator, {&operation, 1})->at(0);
  }
  std::unique_ptr<RankSchedule> schedule(uint32_t rank) const {
    return rank_schedule(communicator, operation, cut(), rank);
  }
};

struct FoldKind {
  Collective collective;
  Algorithm algorithm;
};
inline constexpr FoldKind kFoldKinds[] = {
    {Collective::kAllReduce, Algorithm::kRing},    {Collective::kAllReduce, Algorithm::kTree},
    {Collective::kAllGather, Algorithm::kPat},     {Collective::kAllToAll, Algorithm::kRing},
    {Collective::kAllGather, Algorithm::kRing},    {Collective::kReduceScatter, Algorithm::kRing},
    {Collective::kReduceScatter, Algorithm::kPat}, {Collective::kBroadcast, Algorithm::kRing},
    {Collective::kReduce, Algorithm::kRing},
};

/// Case `i` of a seed: the kinds in turn, all else drawn; operations of more than some
/// `packets` in all take larger ones.
inline FoldCase draw_fold(uint64_t seed, uint64_t i, uint64_t packets = 60'000) {
  std::mt19937_64 random(seed * 1'000'003 + i);
  const auto among = [&](uint64_t least, uint64_t most) {
    return least + random() % (most - least + 1);
  };
  const FoldKind& kind = kFoldKinds[i % std::size(kFoldKinds)];
  FoldCase c;
  c.communicator.gpus = kind.algorithm == Algorithm::kPat ? 1 : static_cast<uint32_t>(among(1, 8));
  const uint64_t most = std::max<uint64_t>(2, 64 / c.communicator.gpus);
  // Few nodes come as often as a quarter of all.
  const uint64_t bound = among(0, 3) == 0 ? std::min<uint64_t>(most, 4) : most;
  c.communicator.nodes = static_cast<uint32_t>(among(2, bound));
  c.communicator.channels = static_cast<uint32_t>(among(1, 8));
  c.operation.collective = kind.collective;
  c.operation.algorithm = kind.algorithm;
  if (kind.algorithm != Algorithm::kPat && !is_p2p(kind.collective)) {
    c.operation.protocol = static_cast<Protocol>(among(0, 2));
  }
  const uint64_t ranks = c.communicator.ranks();
  const uint64_t power = uint64_t{1} << among(3, 27);  // 8 B to 256 MiB
  const uint64_t bytes = power + among(0, power / 4) * 4;
  const bool parts = kind.collective == Collective::kAllGather ||
                     kind.collective == Collective::kReduceScatter ||
                     kind.collective == Collective::kAllToAll;
  c.operation.count = std::max<uint64_t>(1, bytes / 4 / (parts ? ranks : 1));
  c.operation.root = static_cast<uint32_t>(among(0, ranks - 1));
  const uint64_t real_nodes = among(1, std::min<uint64_t>(3, c.communicator.nodes));
  std::vector<uint32_t> nodes(c.communicator.nodes);
  for (uint32_t n = 0; n < nodes.size(); ++n) nodes[n] = n;
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(real_nodes);
  for (const uint32_t node : nodes) {
    for (uint32_t g = 0; g < c.communicator.gpus; ++g) {
      c.real.push_back(node * c.communicator.gpus + g);
    }
  }
  const bool skewed = among(0, 1) == 1;
  for (uint64_t r = 0; r < ranks; ++r) {
    c.entry.push_back(skewed ? Duration::ns(static_cast<int64_t>(among(0, 100'000))) : Duration());
  }
  c.step_cost = Duration::ns(static_cast<int64_t>(among(0, 2) * 750));
  c.hop_seed = random();
  if (among(0, 1) == 1) {
    c.inside = NodeWay{Rate::bits_per_second(among(100, 3'600) * 1'000'000'000),
                       Duration::ps(static_cast<int64_t>(among(0, 1'000'000)))};
  }
  while (ranks * 2 * bytes / c.payload > packets) c.payload *= 2;
  c.name = std::to_string(i) + ": " + std::string(name_of(kCollectiveNames, kind.collective)) +
           " " + std::string(name_of(kAlgorithmNames, kind.algorithm)) + " " +
           std::string(name_of(kProtocolNames, c.operation.protocol)) + ", " +
           std::to_string(c.communicator.nodes) + " x " + std::to_string(c.communicator.gpus) +
           " ranks, " + std::to_string(real_nodes) + " real nodes, " +
           std::to_string(c.communicator.channels) + " channels, " +
           std::to_string(c.operation.bytes()) + " bytes" + (skewed ? ", skewed" : "") +
           (c.inside ? ", ways inside" : "");
  return c;
}

/// A number in the environment, or else another one.
inline uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace understudy
