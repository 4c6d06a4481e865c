#include "collective_model/simai/estimate.h"

#include <cmath>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr double kNsPerUs = 1000;

/// What is left of a time; SimAI rounds it to 24 bits on the way, also where nothing is hidden.
double exposed_us(double ns, float overlap) {
  return std::trunc(static_cast<double>(static_cast<float>(ns) * (1 - overlap))) / kNsPerUs;
}

class Estimator {
 public:
  Estimator(const SimaiWorkload& workload, const SimaiCluster& cluster)
      : parallel_(workload.parallel), cluster_(cluster) {
    estimate_.layers.reserve(workload.layers.size());
  }

  Result<void> add(const SimaiLayer& layer) {
    const uint32_t tp = parallel_.tp, ep = parallel_.ep, dp = parallel_.dp();
    const auto model_ranks = [&](const SimaiPass& pass) {
      return pass.group == SimaiGroup::kExpert ? ep : tp;
    };
    const bool data_of_experts = layer.weight_gradient.group == SimaiGroup::kExpertData;
    SimaiLayerTimes times;
    times.forward = TRY(time(layer, layer.forward, model_ranks(layer.forward), "forward"));
    times.input_gradient =
        TRY(time(layer, layer.input_gradient, model_ranks(layer.input_gradient), "input gradient"));
    times.weight_gradient =
        TRY(time(layer, layer.weight_gradient, data_of_experts ? dp / ep : dp, "weight gradient"));
    sum(layer, times, data_of_experts);
    estimate_.layers.push_back(times);
    return {};
  }

  SimaiEstimate done() {
    const double passes = static_cast<double>(parallel_.ga) * parallel_.vpp;
    estimate_.bubble_us = repeated_us_ * ((parallel_.pp - 1) / passes);
    const double message = parallel_.pp_bytes / 1024.0 / 1024 / 1024;
    // SimAI divides by the overlap where a bandwidth might be expected.
    const double all = std::trunc(
        2 * passes * (message / static_cast<double>(cluster_.pp_overlap) * 1e9) / kNsPerUs);
    estimate_.pp_us =
        std::trunc(static_cast<double>(static_cast<float>(all) * (1 - cluster_.pp_overlap)));
    return std::move(estimate_);
  }

 private:
  Result<double> time(const SimaiLayer& layer, const SimaiPass& pass, uint32_t ranks,
                      const char* name) {
    const auto found = simai_time(pass, ranks, parallel_, cluster_);
    if (!found) {
      return fail("layer " + std::to_string(estimate_.layers.size() + 1) + " (" + layer.name +
                  "): the collective of its " + name + " " + found.error().text);
    }
    estimate_.lone_tensor += found->none == SimaiTime::None::kLoneTensor;
    estimate_.small += found->none == SimaiTime::None::kSmall;
    estimate_.broadcasts += found->none == SimaiTime::None::kBroadcast;
    return found->ns;
  }

  void sum(const SimaiLayer& layer, const SimaiLayerTimes& times, bool data_of_experts) {
    const double compute = static_cast<double>(layer.forward.compute_ns) +
                           static_cast<double>(layer.input_gradient.compute_ns) +
                           static_cast<double>(layer.weight_gradient.compute_ns);
    estimate_.compute_us += compute / kNsPerUs;
    if (layer.name != "embedding_layer") {
      repeated_us_ += (compute + times.forward + times.input_gradient) / kNsPerUs;
    }
    const bool experts = layer.forward.collective != SimaiCollective::kNone &&
                         layer.forward.group == SimaiGroup::kExpert;
    const float overlap = experts ? cluster_.ep_overlap : cluster_.tp_overlap;
    (experts ? estimate_.ep_us : estimate_.tp_us) +=
        exposed_us(times.forward, overlap) + exposed_us(times.input_gradient, overlap);
    (data_of_experts ? estimate_.dp_ep_us : estimate_.dp_us) +=
        exposed_us(times.weight_gradient, cluster_.dp_overlap);
  }

  const SimaiParallel& parallel_;
  const SimaiCluster& cluster_;
  SimaiEstimate estimate_;
  double repeated_us_ = 0;  ///< what stages wait for while the pipeline fills
};

}  // namespace

Result<SimaiEstimate> simai_estimate(const SimaiWorkload& workload, const SimaiCluster& cluster) {
  Estimator estimator(workload, cluster);
  for (const SimaiLayer& layer : workload.layers) TRY(estimator.add(layer));
  return estimator.done();
}

}  // namespace understudy
