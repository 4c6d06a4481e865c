#include "ctrl/compile/gpus/ring_time.h"

#include <algorithm>
#include <cmath>

#include "ctrl/compile/ways/node_way.h"

namespace understudy {

Duration inside_time(const Config& config, TrainingTransfer transfer, double bytes,
                     uint32_t ranks) {
  const auto way = node_way(config);
  if (!way || ranks < 2) return Duration();
  const bool message =
      transfer == TrainingTransfer::kSend || transfer == TrainingTransfer::kReceive;
  const bool at_once = transfer == TrainingTransfer::kAllToAll;
  const uint32_t steps = message                                    ? 1
                         : transfer == TrainingTransfer::kAllReduce ? 2 * (ranks - 1)
                                                                    : ranks - 1;
  const double each = message ? bytes : bytes / ranks;
  const Duration passing =
      way->rate.is_unlimited()
          ? Duration()
          : Duration::ps(std::llround(each * steps * 8e12 / static_cast<double>(way->rate.bps())));
  return passing + way->latency * (at_once ? 1 : steps);
}

int64_t ring_steps(TrainingTransfer transfer, uint32_t ranks) {
  const int64_t once = int64_t{std::max(ranks, 1U)} - 1;
  return transfer == TrainingTransfer::kAllReduce ? 2 * once : once;
}

Duration steps_time(const Config& config, const Topology& topology, Routes& routes,
                    const MessageWays::Way& way, TrainingTransfer transfer, uint64_t bytes,
                    const RingHops& ring) {
  // NCCL's Simple protocol passes a message on in slices: two of a small one, of at most a quarter of a MiB and at
  // least 32 KiB.
  constexpr uint64_t kSlice = uint64_t{256} * 1024, kLeast = uint64_t{32} * 1024;
  if (transfer == TrainingTransfer::kSend || ring.steps < 1) return Duration();
  const auto path = routes.path(way.from, way.to, flow_hash(way.from, way.to, 0));
  Duration latency;
  for (const LinkId link : path) latency += topology.graph.link(link).latency;
  if (transfer == TrainingTransfer::kAllToAll) return latency;
  const uint64_t message = bytes / ring.members / ring.channels;
  const uint64_t first = std::min(message, std::max(kLeast, std::min(kSlice, message / 2)));
  const uint64_t behind = message - first;
  const Duration covered = topology.graph.link(path.front()).rate.time_for(behind);
  const auto uncovered = [&](Duration hop) { return hop - std::min(hop, covered); };
  const auto inside = node_way(config);
  // The first messages wait for their credits.
  return latency + uncovered(latency) * (ring.steps - 1) +
         uncovered(inside ? inside->latency : Duration()) * ring.inside;
}

}  // namespace understudy
