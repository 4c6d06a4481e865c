// What the two ends of an emulated ring all-reduce share: the operations of a job and their
// results. Built by control, handed over by pointer, unchanged while the job runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "collective_model/plan.h"
#include "dataplane/base/pattern.h"
#include "dataplane/base/units.h"

namespace understudy {

/// One all-reduce. plans[c] is null when the operation is too small for channel c.
struct RingOperation {
  uint64_t bytes = 0;
  Time entry;  ///< with RingJob::scheduled: when all ranks enter, if they are free
  std::vector<const RingPlan*> plans;
};

struct RingJob {
  uint32_t ranks = 0;
  uint32_t real_rank = 0;
  uint32_t channels = 1;
  bool scheduled = false;   ///< operations start by their entry times, not by the first credit
  bool exact = false;       ///< payload is real fp32 data
  uint64_t seed = 0;        ///< of the emulated ranks' contributions (dataplane/base/pattern.h)
  Duration credit_latency;  ///< one-way latency between the real rank and its neighbours
  Duration step_cost;
  Duration real_delay;  ///< how late the real rank enters (reference rank)
  std::vector<RingOperation> operations;

  uint32_t next(uint32_t rank) const { return (rank + 1) % ranks; }
  uint32_t previous(uint32_t rank) const { return (rank + ranks - 1) % ranks; }
  uint32_t messages(size_t operation, uint32_t channel) const {
    const RingPlan* plan = operations[operation].plans[channel];
    return plan == nullptr ? 0 : plan->schedule().messages();
  }
  uint32_t most_messages() const {
    uint32_t most = 0;
    for (size_t i = 0; i < operations.size(); ++i) {
      for (uint32_t c = 0; c < channels; ++c) most = std::max(most, messages(i, c));
    }
    return most;
  }
};

/// What one operation came to, written by the shard, read by control after `finished` counts it.
struct RingResult {
  Time entry;         ///< of the first channel
  Time end;           ///< of the last one
  Duration lateness;  ///< most that departures on one chain of dependent messages were late in sum
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload of data messages
  uint64_t size_mismatches = 0;                 ///< messages whose length was not the schedule's
  uint64_t wrong_elements = 0;  ///< reference rank in exact mode: results that differ in any bit
};

/// Progress of a job, shared between the shard that writes it and control.
struct RingProgress {
  explicit RingProgress(size_t operations) : results(operations) {}
  std::vector<RingResult> results;
  std::atomic<uint32_t> finished{0};    ///< operations complete, in order
  std::atomic<bool> failed{false};      ///< a queue pair of the job failed
  std::atomic<uint64_t> violations{0};  ///< messages of the real node that the protocol forbids
};

}  // namespace understudy
