#include "ctrl/build/job_schedule.h"

#include <algorithm>
#include <span>

#include "ctrl/config/job_operation.h"

namespace understudy {

Communicator job_communicator(const Config& config, const JobConfig& job) {
  Communicator c;
  c.nodes = static_cast<uint32_t>(job.ranks.size());
  c.gpus = gpus_per_node(config, job);
  c.channels = job.channels;
  c.version = job.nccl;
  c.first_nic = job.nic;
  const std::vector<NicConfig>& nics = config.nodes[job.ranks.front()].nics;
  const Rate rate = job.nic < nics.size() ? nics[job.nic].link_rate : Rate::unlimited();
  if (!rate.is_unlimited()) c.nic_gigabytes = static_cast<uint32_t>(rate.bps() / 8'000'000'000);
  if (c.gpus > 1) {
    c.first_nic = 0;
    size_t least = c.gpus;
    for (const NodeId node : job.ranks) least = std::min(least, config.nodes[node].nics.size());
    c.nics = static_cast<uint32_t>(std::max<size_t>(least, 1));
  }
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
  if (!is_p2p(job.collective) && (!job.algorithm || !job.protocol)) {
    return at(std::string(job.algorithm ? "protocol" : "algorithm") +
              ": found \"auto\": a schedule is of one algorithm and protocol");
  }
  const Communicator communicator = job_communicator(config, job);
  std::vector<uint64_t> sizes = job.sizes;
  if (job.group) std::sort(sizes.begin(), sizes.end());  // as NCCL takes them
  std::vector<JobSchedule> schedules;
  std::vector<Operation> operations;
  for (const uint64_t bytes : sizes) {
    schedules.push_back({bytes, job_operation(config, job, bytes), {}});
    operations.push_back(schedules.back().operation);
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
    for (size_t i = 0; i < together; ++i) schedules[first + i].cut = std::move((*cuts)[i]);
  }
  return schedules;
}

}  // namespace understudy
