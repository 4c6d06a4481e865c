#include "collective_model/simai/collective_time.h"

#include <algorithm>
#include <cmath>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr uint64_t kSmallest = 1 << 20;             ///< bytes that go by bandwidth
constexpr double kRateUnit = 1024.0 * 1024 * 1024;  ///< bytes; SimAI calls it a GB

/// Of a collective of 2 bytes to 1 MiB, without the last byte.
std::optional<double> small_ns(uint32_t ranks) {
  switch (ranks) {
    case 2:
      return 10'000;
    case 4:
      return 12'000;
    case 8:
      return 15'000;
    case 16:
      return 66'000;
    case 32:
      return 135'000;
    case 64:
      return 200'000;
    case 128:
      return 320'000;
    default:
      return std::nullopt;
  }
}

/// Groups whose ranks stand `stride` GPUs apart, each on a node of its own.
SimaiPlaces spread(uint32_t ranks, uint64_t stride, const SimaiCluster& cluster) {
  if (stride > cluster.gpus_per_node) {
    return {ranks, 1, cluster.nics_per_node / cluster.gpus_per_node};
  }
  const auto divisor = static_cast<uint32_t>(stride);
  return {ranks, cluster.gpus_per_node / divisor, cluster.nics_per_node / divisor};
}

float ring_rate(const SimaiPlaces& places, const SimaiCluster& cluster, bool& nvlink) {
  if (places.nodes == 1) return cluster.nvlink;
  const float nics = cluster.nic * static_cast<float>(places.nics);
  if (places.gpus == 1) return nics;
  const auto gpus = static_cast<float>(places.gpus);
  const float inner = nics > cluster.nvlink ? cluster.nvlink * gpus / (gpus - 1) : cluster.nvlink;
  nvlink = inner < nics;
  return std::min(inner, nics);
}

/// How much of the bandwidth the tables leave.
Result<float> share_of(const SimaiPass& pass, uint32_t ranks, uint32_t tp, bool nvlink,
                       const SimaiCluster& cluster) {
  if (!cluster.ratios) return 1.0F;
  const uint64_t node = cluster.gpus_per_node;
  const auto nodes = [&](uint64_t gpus) { return ratio_column(gpus <= node ? 1 : gpus / node); };
  if (pass.group == SimaiGroup::kTensor) {
    switch (pass.collective) {
      case SimaiCollective::kAllGather:
      case SimaiCollective::kReduceScatter:
        return (nvlink ? cluster.ratios->nvlink : cluster.ratios->nic).share(pass.bytes, nodes(tp));
      case SimaiCollective::kAllToAll:
        return cluster.ratios->all_to_all.share(pass.bytes, nodes(tp));
      default:
        return 1.0F;
    }
  }
  if (pass.group != SimaiGroup::kExpert || pass.collective != SimaiCollective::kAllToAll) {
    return 1.0F;
  }
  const uint64_t gpus = uint64_t{tp} * ranks;
  const bool many = gpus > node && tp >= node;
  return cluster.ratios->all_to_all.share(pass.bytes,
                                          many ? RatioColumn::kManyGroups : nodes(gpus));
}

}  // namespace

SimaiPlaces simai_places(SimaiGroup group, uint32_t ranks, const SimaiParallel& parallel,
                         const SimaiCluster& cluster) {
  const uint32_t node = cluster.gpus_per_node, nics = cluster.nics_per_node, tp = parallel.tp;
  switch (group) {
    case SimaiGroup::kTensor:
      if (tp <= node) return {1, tp, nics};
      return {tp / node, node, nics};
    case SimaiGroup::kExpert: {
      const uint64_t gpus = uint64_t{tp} * ranks;
      if (gpus <= node) return {1, node / tp, nics};
      return {gpus / node, std::max(node / tp, 1U), tp > node ? nics / node : nics / tp};
    }
    case SimaiGroup::kData:
      return spread(ranks, tp, cluster);
    case SimaiGroup::kExpertData:
      break;
  }
  return spread(ranks, uint64_t{tp} * parallel.ep, cluster);
}

SimaiBandwidth simai_bandwidth(SimaiCollective collective, const SimaiPlaces& places,
                               const SimaiCluster& cluster) {
  SimaiBandwidth bandwidth;
  bandwidth.rate = ring_rate(places, cluster, bandwidth.nvlink);
  if (collective != SimaiCollective::kAllToAll || places.nodes == 1) return bandwidth;
  const uint64_t others = (places.nodes - 1) * places.gpus;
  bandwidth.rate = cluster.nic * static_cast<float>(places.nics) / static_cast<float>(places.gpus) *
                   static_cast<float>(places.nodes * places.gpus - 1) / static_cast<float>(others);
  return bandwidth;
}

Result<SimaiTime> simai_time(const SimaiPass& pass, uint32_t ranks, const SimaiParallel& parallel,
                             const SimaiCluster& cluster) {
  using None = SimaiTime::None;
  if (pass.collective == SimaiCollective::kNone) return SimaiTime{};
  if (pass.collective == SimaiCollective::kBroadcast) return SimaiTime{0, None::kBroadcast};
  if (pass.bytes > 1 && pass.bytes < kSmallest) {
    if (const auto ns = small_ns(ranks)) return SimaiTime{*ns, None::kTimed};
    return SimaiTime{0, ranks > 1 ? None::kSmall : None::kTimed};
  }
  if (ranks <= 1) {
    return SimaiTime{0, pass.group == SimaiGroup::kTensor ? None::kLoneTensor : None::kTimed};
  }
  const SimaiPlaces places = simai_places(pass.group, ranks, parallel, cluster);
  if (places.nics == 0) {
    return fail("has a group with less than a NIC on each node, for which SimAI has no bandwidth");
  }
  if (places.nodes * places.gpus == 1) {
    return fail("has " + std::to_string(ranks) +
                " ranks that SimAI takes for one GPU, as their nodes are not full");
  }
  const SimaiBandwidth bandwidth = simai_bandwidth(pass.collective, places, cluster);
  const float share = TRY(share_of(pass, ranks, parallel.tp, bandwidth.nvlink, cluster));
  const double times = pass.collective == SimaiCollective::kAllReduce ? 2 : 1;
  return SimaiTime{
      std::trunc(static_cast<double>(pass.bytes) / kRateUnit /
                 static_cast<double>(share * bandwidth.rate) * 1e9 * times * (ranks - 1) / ranks),
      None::kTimed};
}

}  // namespace understudy
