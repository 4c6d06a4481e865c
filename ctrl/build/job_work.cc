#include "ctrl/build/job_work.h"

#include <cmath>
#include <string>

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

RankWork rank_work(const Config& config, const JobConfig& job, uint32_t gpus, uint32_t rank) {
  const IterationConfig& iteration = job.iteration;
  const size_t position = rank / gpus;
  const double factor = iteration.factor.empty() ? 1 : iteration.factor[position];
  const auto computed = [&](Duration time) {
    if (factor == 1) return time;
    return Duration::ps(std::llround(static_cast<double>(time.ps()) * factor));
  };
  const bool emulated = !config.nodes[job.ranks[position]].real;
  const uint64_t stream = hash(job.name) + rank;
  const size_t rows = iteration.compute.size() / iteration.columns;
  const size_t column = iteration.columns == 1 ? 0 : rank;

  RankWork work;
  work.per_iteration = operations_per_iteration(job);
  work.beside = computed(iteration.beside);
  work.after = computed(iteration.after);
  work.pause = job.interval;
  const std::vector<JobOperation> operations = job_operations(job);
  for (size_t o = 0; o < operations.size(); ++o) {
    EntryStep step;
    const bool first = o % work.per_iteration == 0;
    step.waits = first || !iteration.overlap;
    if (rows != 0) {
      const size_t row = rows == kinds(job) ? operations[o].size : rows == 1 ? 0 : o;
      step.compute = computed(iteration.compute[row * iteration.columns + column]);
    }
    if (first && o > 0) {
      step.beside = work.beside;
      step.compute += work.after + work.pause;
    }
    if (!job.skew.empty()) step.delay = job.skew[position];
    if (emulated) {
      step.delay += iteration.injected_delay;
      if (iteration.jitter) step.delay += draw(*iteration.jitter, config.seed, stream, o);
    }
    work.steps.push_back(step);
  }
  return work;
}

}  // namespace understudy
