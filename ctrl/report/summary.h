// A job's timed operations averaged by size, in nccl-tests' sense.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ctrl/report/run_report.h"

namespace understudy {

struct SizeSummary {
  uint32_t size_index = 0;
  uint64_t bytes = 0;
  uint32_t timed = 0;          ///< operations that the means are over; 0: none was finished
  bool node_reported = false;  ///< `time` is the real node's own for all of them, else measured
  Duration time, modelled;     ///< means
  std::optional<uint64_t> wrong_elements;  ///< over all operations, nothing if nobody verified
  bool faithful = false;  ///< all timed ones, and every warm-up carried the right contents

  /// Bytes per second; zero without a time.
  double algorithm_bandwidth() const;
  /// (time - modelled) / modelled in per cent; zero without a model.
  double difference_percent() const;
};

/// nccl-tests' bus bandwidth over algorithm bandwidth, of the operations with this index.
double bus_factor(const JobReport& job, uint32_t size_index);

/// In order of size_index. After judge().
std::vector<SizeSummary> summarise(const JobReport& job);

}  // namespace understudy
