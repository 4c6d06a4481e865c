#include "ctrl/build/job_schedule.h"

#include <algorithm>

#include "ctrl/config/job_operation.h"

namespace understudy {

Communicator job_communicator(const Config& config, const JobConfig& job) {
  Communicator c;
  c.nodes = static_cast<uint32_t>(job.ranks.size());
  c.gpus = gpus_per_node(config, job);
  c.channels = job.channels;
  c.version = job.nccl;
  c.first_nic = job.nic;
  if (c.gpus > 1) {
    c.first_nic = 0;
    size_t nics = c.gpus;
    for (const NodeId node : job.ranks) nics = std::min(nics, config.nodes[node].nics.size());
    c.nics = static_cast<uint32_t>(std::max<size_t>(nics, 1));
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
  if (!is_p2p(job.collective) && (!job.algorithm || !job.protocol)) {
    return at(std::string(job.algorithm ? "protocol" : "algorithm") +
              ": found \"auto\": a schedule is of one algorithm and protocol");
  }
  const Communicator communicator = job_communicator(config, job);
  std::vector<JobSchedule> schedules;
  for (const uint64_t bytes : job.sizes) {
    JobSchedule schedule{bytes, job_operation(config, job, bytes), {}};
    if (auto checked = check_operation(communicator, schedule.operation); !checked) {
      return at(checked.error().text);
    }
    if (!is_p2p(job.collective)) {
      auto cuts = cut_group(communicator, {&schedule.operation, 1});
      if (!cuts) return at(cuts.error().text);
      schedule.cut = std::move(cuts->front());
    }
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

}  // namespace understudy
