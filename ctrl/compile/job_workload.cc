#include "ctrl/compile/job_workload.h"

#include "collective_model/workload/chain.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/schedule/job_work.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// Jobs by dimensions have no ranks of NCCL's.
uint32_t rank_count(const Config& config, const JobConfig& job) {
  return static_cast<uint32_t>(job_rank_count(config, job));
}

void add_job(Workload& workload, const Config& config, const JobConfig& job) {
  const JobWork work(config, job, gpus_per_node(config, job));
  Chain chain;
  chain.ranks = rank_count(config, job);
  chain.operations = static_cast<uint32_t>(work.operations().size());
  chain.start = job.start;
  chain.computes = job.iteration.computes() || job.interval > Duration();
  chain.alike = work.alike();
  chain.step = [&](uint32_t operation, uint32_t rank) { return work.step(operation, rank); };
  add_chain(workload, chain);
}

/// The node of each rank.
std::vector<uint32_t> places_of(const Config& config, const JobConfig& job) {
  std::vector<uint32_t> out;
  const uint32_t gpus = gpus_per_node(config, job), ranks = rank_count(config, job);
  for (uint32_t rank = 0; rank < ranks; ++rank) out.push_back(job.ranks[rank / gpus]);
  return out;
}

}  // namespace

Workload job_workload(const Config& config) {
  Workload workload;
  for (const JobConfig& job : config.jobs) add_job(workload, config, job);
  for (uint32_t j = 0; j < config.jobs.size(); ++j) {
    for (const uint32_t former : config.jobs[j].after) {
      workload.order(workload.last(former), workload.first(j),
                     RankPlaces::own_place_or_all(places_of(config, config.jobs[former]),
                                                  places_of(config, config.jobs[j])));
    }
  }
  ASSERT_INVARIANT(workload.cycle().empty());  // the reader names one
  return workload;
}

Workload job_workload(const Config& config, const JobConfig& job) {
  Workload workload;
  add_job(workload, config, job);
  return workload;
}

}  // namespace understudy
