#include "ctrl/schedule/job_schedule.h"

#include <algorithm>
#include <span>

#include "collective_model/schedule/group.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/schedule/job_tuner.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// What NCCL's tuner makes of the operations. Those of a group that are within four times the first
/// one's size are tuned as one (source: enqueue.cc, ncclPrepareTasks).
Result<void> tune(const JobConfig& job, const Tuner& tuner, std::vector<JobSchedule>& schedules) {
  for (size_t first = 0, end = 0; first < schedules.size(); first = end) {
    uint64_t bytes = 0;
    for (end = first; end < schedules.size(); ++end) {
      const bool joins = job.group && schedules[end].bytes < 4 * schedules[first].bytes;
      if (end > first && !joins) break;
      bytes += schedules[end].bytes;
    }
    ASSERT_INVARIANT(end > first);
    const TuningTable table = tuner.tune(job.collective, bytes, job.algorithm, job.protocol);
    if (!table.chosen) {
      if (job.algorithm && job.protocol) continue;  // what was asked for
      return fail("algorithm: found \"auto\": NCCL has no way to do this");
    }
    for (size_t i = first; i < end; ++i) {
      Operation& operation = schedules[i].operation;
      operation.algorithm = table.algorithm;
      operation.protocol = table.protocol;
      operation.channels = table.channels_used;
      operation.threads = table.threads;
      // Those of a ring that only synchronise.
      const bool extra = table.protocol == Protocol::kSimple && table.algorithm == Algorithm::kRing;
      if (extra) operation.threads -= 32;
    }
  }
  return {};
}

}  // namespace

Communicator job_communicator(const Config& config, const JobConfig& job) {
  Communicator c;
  c.nodes = static_cast<uint32_t>(job.ranks.size());
  c.gpus = gpus_per_node(config, job);
  const auto tuner = job_tuner(config, job);
  c.channels = tuner ? tuner->channels() : job.channels;
  c.search_channels = job.search_channels;
  if (c.search_channels == 0 && config.nccl && config.nccl->ring) {
    c.search_channels = config.nccl->ring->channels;
  }
  c.version = job.nccl;
  c.first_nic = job_nic(config, job, 0);
  const NodeConfig& first = config.nodes[job.ranks.front()];
  const Rate rate =
      c.first_nic < first.nics.size() ? merged_rate(job, first, c.first_nic) : Rate::unlimited();
  if (!rate.is_unlimited()) c.nic_gigabytes = static_cast<uint32_t>(rate.bps() / 8'000'000'000);
  c.nics = used_nics(config, job);
  const bool real =
      std::ranges::any_of(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
  c.pxn = config.nccl && config.nccl->pxn && !real && tuner &&
          tuner->environment().pxn_disable.value_or(0) == 0;
  c.ports = job.merged_nics;
  if (c.nics > 1) c.nic_stride = job_nic(config, job, 1) - c.first_nic;
  return c;
}

Operation job_operation(const Config& config, const JobConfig& job, uint64_t bytes) {
  Operation o;
  o.collective = job.collective;
  o.algorithm = job.algorithm.value_or(Algorithm::kRing);
  o.protocol = job.protocol.value_or(Protocol::kSimple);
  o.type = job.type;
  o.root = job.root;
  const uint64_t parts = has_parts(job.collective) ? job_rank_count(config, job) : 1;
  o.count = bytes / element_bytes(job.type) / parts;
  o.pair_bytes = job.matrix;
  return o;
}

Result<std::vector<JobSchedule>> job_schedules(const Config& config, const JobConfig& job) {
  const auto at = [&](const std::string& what) {
    return fail(config.path + ":" + std::to_string(job.line) + ": job." + what);
  };
  if (!job.dimensions.empty()) {
    return at(
        "algorithm: found one for each dimension: such a job has no channels and messages "
        "of NCCL's");
  }
  if (job.nccl.minor < NcclVersion::kOldest) {
    return at("nccl: found \"2." + std::to_string(job.nccl.minor) +
              "\": schedules are known of 2.18 and later, older releases to predict only");
  }
  const auto tuner = job_tuner(config, job);
  if (!tuner) return fail(tuner.error().front().text());
  const Communicator communicator = job_communicator(config, job);
  std::vector<uint64_t> sizes = job.sizes;
  if (job.group) std::sort(sizes.begin(), sizes.end());  // as NCCL takes them
  std::vector<JobSchedule> schedules;
  schedules.reserve(sizes.size());
  std::vector<Operation> operations;
  for (const uint64_t bytes : sizes) {
    schedules.push_back({bytes, job_operation(config, job, bytes), {}});
  }
  if (!is_p2p(job.collective)) {
    if (auto tuned = tune(job, *tuner, schedules); !tuned) return at(tuned.error().text);
  }
  for (const JobSchedule& schedule : schedules) {
    operations.push_back(schedule.operation);
    if (auto checked = check_operation(communicator, operations.back()); !checked) {
      return at(checked.error().text);
    }
  }
  if (is_p2p(job.collective)) return schedules;
  const std::span<const Operation> all(operations);
  const size_t together = job.group ? all.size() : 1;
  for (size_t first = 0; first < all.size(); first += together) {
    auto cuts = cut_group(communicator, all.subspan(first, together));
    if (!cuts) return at(cuts.error().text);
    ASSERT_INVARIANT(cuts->size() == together);
    for (size_t i = 0; i < together; ++i) schedules[first + i].cut = std::move((*cuts)[i]);
  }
  return schedules;
}

std::unique_ptr<RankSchedule> rank_part(const Communicator& communicator, const JobConfig& job,
                                        const std::vector<JobSchedule>& schedules, uint32_t size,
                                        uint32_t rank) {
  ASSERT_INVARIANT(rank < communicator.ranks());
  ASSERT_INVARIANT(job.group || size < schedules.size());
  const auto part = [&](const JobSchedule& schedule) {
    return rank_schedule(communicator, schedule.operation, schedule.cut, rank);
  };
  if (!job.group) return part(schedules[size]);
  std::vector<std::unique_ptr<RankSchedule>> parts;
  std::vector<uint64_t> results;
  uint64_t end = 0;
  for (const JobSchedule& schedule : schedules) {
    parts.push_back(part(schedule));
    results.push_back(end);
    end += schedule.bytes;
  }
  return std::make_unique<GroupRankSchedule>(std::move(parts), std::move(results));
}

}  // namespace understudy
