// The operations of a job in their order, and what each rank does before them.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/iteration/iteration.h"
#include "ctrl/config/config.h"

namespace understudy {

struct JobOperation {
  uint32_t size = 0;       ///< position in the job's schedules; a group is one operation
  uint32_t iteration = 0;  ///< from 0, warm-ups and timed ones counted apart
  bool warmup = false;
};
std::vector<JobOperation> job_operations(const JobConfig& job);

/// Operations of one iteration.
uint32_t operations_per_iteration(const JobConfig& job);

/// What the ranks do before their operations, of which `gpus` are on each node. Emulated ranks
/// enter later by injected_delay and jitter; skew and computing are those of all. The jitter of
/// operation o is number o of the stream FNV-1a(job's name) + rank (collective_model/iteration/jitter.h).
class JobWork {
 public:
  /// Both outlive this.
  JobWork(const Config& config, const JobConfig& job, uint32_t gpus);

  const std::vector<JobOperation>& operations() const { return operations_; }
  EntryStep step(size_t operation, uint32_t rank) const;
  RankWork rank(uint32_t rank) const;
  /// EntryStep::delay of any operation, also of one that is not known beforehand, without its
  /// jitter, and with it.
  Duration late(uint32_t rank) const;
  Duration delay(size_t operation, uint32_t rank) const;
  /// All ranks do the same.
  bool alike() const;

 private:
  Duration computed(Duration time, uint32_t rank) const;

  const Config& config_;
  const JobConfig& job_;
  uint32_t gpus_;
  uint64_t stream_;
  std::vector<JobOperation> operations_;
};

}  // namespace understudy
