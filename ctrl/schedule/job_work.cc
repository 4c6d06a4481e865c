#include "ctrl/schedule/job_work.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// FNV-1a.
uint64_t hash(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

uint32_t kinds(const JobConfig& job) {
  return job.group ? 1 : static_cast<uint32_t>(job.sizes.size());
}

}  // namespace

uint32_t operations_per_iteration(const JobConfig& job) {
  return job.iteration.whole ? kinds(job) : 1;
}

std::vector<JobOperation> job_operations(const JobConfig& job) {
  std::vector<JobOperation> out;
  const uint32_t iterations = job.warmup + job.iterations, sizes = kinds(job);
  const auto add = [&](uint32_t size, uint32_t i) {
    const bool warmup = i < job.warmup;
    out.push_back({size, warmup ? i : i - job.warmup, warmup});
  };
  if (job.iteration.whole) {
    for (uint32_t i = 0; i < iterations; ++i) {
      for (uint32_t size = 0; size < sizes; ++size) add(size, i);
    }
  } else {
    for (uint32_t size = 0; size < sizes; ++size) {
      for (uint32_t i = 0; i < iterations; ++i) add(size, i);
    }
  }
  return out;
}

JobWork::JobWork(const Config& config, const JobConfig& job, uint32_t gpus)
    : config_(config),
      job_(job),
      gpus_(gpus),
      stream_(hash(job.name)),
      operations_(job_operations(job)) {
  ASSERT_INVARIANT(gpus > 0);
}

Duration JobWork::computed(Duration time, uint32_t rank) const {
  const std::vector<double>& factor = job_.iteration.factor;
  if (factor.empty() || factor[rank / gpus_] == 1) return time;
  return Duration::ps(std::llround(static_cast<double>(time.ps()) * factor[rank / gpus_]));
}

EntryStep JobWork::step(size_t o, uint32_t rank) const {
  const IterationConfig& iteration = job_.iteration;
  const size_t position = rank / gpus_, columns = iteration.columns;
  ASSERT_INVARIANT(o < operations_.size() && position < job_.ranks.size());
  ASSERT_INVARIANT(columns > 0);
  const size_t rows = iteration.compute.size() / columns;
  const bool first = o % operations_per_iteration(job_) == 0;
  EntryStep step;
  step.waits = first || !iteration.overlap;
  step.period = job_.period;
  if (rows != 0) {
    const size_t row = rows == kinds(job_) ? operations_[o].size : rows == 1 ? 0 : o;
    ASSERT_INVARIANT(row < rows);
    step.compute = computed(iteration.compute[row * columns + (columns == 1 ? 0 : rank)], rank);
  }
  if (first && o > 0) {
    step.beside = computed(iteration.beside, rank);
    step.compute += computed(iteration.after, rank) + job_.interval;
  }
  step.delay = delay(o, rank);
  return step;
}

Duration JobWork::late(uint32_t rank) const {
  const size_t position = rank / gpus_;
  const Duration skew = job_.skew.empty() ? Duration() : job_.skew[position];
  if (config_.nodes[job_.ranks[position]].real) return skew;
  return skew + job_.iteration.injected_delay;
}

Duration JobWork::delay(size_t o, uint32_t rank) const {
  const IterationConfig& iteration = job_.iteration;
  if (!iteration.jitter || config_.nodes[job_.ranks[rank / gpus_]].real) return late(rank);
  return late(rank) + draw(*iteration.jitter, config_.seed, stream_ + rank, o);
}

RankWork JobWork::rank(uint32_t rank) const {
  RankWork work;
  work.per_iteration = operations_per_iteration(job_);
  work.beside = computed(job_.iteration.beside, rank);
  work.after = computed(job_.iteration.after, rank);
  work.pause = job_.interval;
  for (size_t o = 0; o < operations_.size(); ++o) work.steps.push_back(step(o, rank));
  return work;
}

bool JobWork::alike() const {
  const IterationConfig& iteration = job_.iteration;
  const bool real =
      std::ranges::any_of(job_.ranks, [&](NodeId node) { return config_.nodes[node].real; });
  return !(real && iteration.injected_delay > Duration()) && !iteration.jitter &&
         iteration.columns == 1 && iteration.factor.empty() &&
         std::ranges::all_of(job_.skew, [](Duration skew) { return skew == Duration(); });
}

}  // namespace understudy
