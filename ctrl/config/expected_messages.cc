#include "ctrl/config/expected_messages.h"

#include <utility>

#include "collective_model/ring_schedule.h"
#include "ctrl/config/job_operation.h"

namespace understudy {
namespace {

constexpr uint32_t kElementBytes = 4;  // fp32

std::vector<uint32_t> sizes_of(const JobConfig& job, uint32_t rank, uint32_t channel) {
  const auto ranks = static_cast<uint32_t>(job.ranks.size());
  std::vector<uint32_t> out;
  for (const uint64_t bytes : job.sizes) {
    const auto parts = cut_all_reduce(bytes, kElementBytes, job.channels);
    if (channel >= parts.size()) continue;  // small operations use fewer channels
    const RingSchedule schedule(ranks, parts[channel], kElementBytes);
    for (uint32_t i = 0; i < job.warmup + job.iterations; ++i) {
      for (uint32_t m = 0; m < schedule.messages(); ++m) out.push_back(schedule.size(rank, m));
    }
  }
  return out;
}

}  // namespace

std::vector<ExpectedConnection> expected_connections(const Config& config) {
  std::vector<ExpectedConnection> out;
  for (const JobConfig& job : config.jobs) {
    if (!is_plain_ring(config, job)) continue;
    for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
      const NodeId from = job.ranks[rank];
      const NodeId to = job.ranks[(rank + 1) % job.ranks.size()];
      if (config.nodes[from].real == config.nodes[to].real) continue;
      for (uint32_t channel = 0; channel < job.channels; ++channel) {
        auto sizes = sizes_of(job, rank, channel);
        if (sizes.empty()) continue;
        out.push_back({job.name, channel, from, to, job.nic, std::move(sizes)});
      }
    }
  }
  return out;
}

}  // namespace understudy
