// What the ranks of a job do besides its collectives, as its keys order, compute, injected_delay
// and jitter say.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective_model/iteration/jitter.h"
#include "dataplane/base/units.h"

namespace understudy {

struct IterationConfig {
  bool ddp = false;  ///< [job.ddp] has said the job's sizes and what is computed
  /// An iteration is an operation of every size, in their order. False: of one size, and all
  /// iterations of a size come before those of the next.
  bool whole = false;
  /// What is computed before each operation: row by row, of `columns` entries. One row is for all
  /// operations, as many as sizes for those of each size; or there is one for each operation.
  std::vector<Duration> compute;
  uint32_t columns = 1;  ///< one for all ranks, or one for each
  Duration beside;       ///< with overlap: computed while the last operations still run
  Duration after;        ///< computed when an iteration's operations are done
  bool overlap = false;  ///< computing does not wait for operations before the iteration's end
  std::vector<double> factor;  ///< of all computing, by position in ranks; empty: 1
  Duration injected_delay;     ///< of every emulated rank's entry into every operation
  std::optional<Jitter> jitter;

  bool computes() const {
    return !compute.empty() || beside > Duration() || after > Duration() || overlap;
  }
  /// Iterations are more than one operation after another.
  bool stated() const { return whole || computes(); }
};

}  // namespace understudy
