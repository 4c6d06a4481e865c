// What SimAI's analytical mode says of an iteration: computing, collectives that computing does not hide,
// the pipeline's bubble and its messages, all one after another. Facts: aliyun/SimAI f5efb5a, Layer.cc
// (report).
#pragma once

#include "collective_model/simai/collective_time.h"

namespace understudy {

/// Of the collectives of one layer, all of it, ns.
struct SimaiLayerTimes {
  double forward = 0, input_gradient = 0, weight_gradient = 0;
};

struct SimaiEstimate {
  double compute_us = 0;
  /// Collectives that computing does not hide. A layer's forward and input gradient count as experts'
  /// where the forward's group is that; others are tensor parallelism's.
  double dp_us = 0, dp_ep_us = 0, tp_us = 0, ep_us = 0;
  double bubble_us = 0;
  double pp_us = 0;
  std::vector<SimaiLayerTimes> layers;
  /// Collectives that are there and take no time, by reason.
  uint64_t lone_tensor = 0, small = 0, broadcasts = 0;

  double exposed_us() const { return dp_us + dp_ep_us + tp_us + ep_us; }
  double total_us() const { return compute_us + exposed_us() + bubble_us + pp_us; }
};

/// The error names layer and pass.
Result<SimaiEstimate> simai_estimate(const SimaiWorkload& workload, const SimaiCluster& cluster);

}  // namespace understudy
