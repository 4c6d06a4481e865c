// What operations of a training job take, where no network is described: a formula for each kind of group.
#pragma once

#include <optional>

#include "collective_model/training/messages.h"
#include "dataplane/base/units.h"

namespace understudy {

/// An operation takes latency + factor * bytes / rate, of as many bytes as the whole operation has.
struct OperationTimes {
  Rate rate;
  Duration latency;
  /// Nothing: a ring's factor, 2(n-1)/n of an all-reduce and (n-1)/n of the others.
  std::optional<double> all_reduce = {}, all_gather = {}, reduce_scatter = {};

  /// Nothing for a group of one.
  Duration of(TrainingTransfer transfer, double bytes, uint32_t ranks) const;
};

/// By who takes part.
struct GivenOperations {
  OperationTimes tensor, pipeline, data;

  /// What all GPUs together take for four bytes: the longest latency.
  Duration norm() const;
};

}  // namespace understudy
