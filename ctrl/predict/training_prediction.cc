#include "ctrl/predict/training_prediction.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "collective_model/predict/time_model.h"
#include "ctrl/compile/training/training_communicators.h"
#include "ctrl/compile/training/training_job.h"
#include "ctrl/network/training_reports.h"
#include "ctrl/predict/job_network.h"
#include "ctrl/predict/shared_rate.h"
#include "ctrl/report/json/training_json.h"
#include "ctrl/report/validity_json.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

class Predictor {
 public:
  Predictor(const Config& config, const Topology& topology)
      : config_(config),
        topology_(topology),
        parallel_(config.training->parallel),
        routes_(topology.routes(config.seed)) {}

  Result<TrainingReport> run() {
    TrainingPlan plan = TRY(plan_training(config_));
    const TrainingPlan& known = plan;
    std::vector<std::vector<ClosedTime>> all;
    for (const TrainingFamily& family : known.graph.families) {
      all.push_back(crosses_network(known, family)
                        ? over_network(known, family)
                        : inside_times(config_, known, topology_, family));
    }
    size_t next = 0;
    const auto job = close_training(config_, std::move(plan),
                                    [&](const TrainingFamily&) { return all[next++]; });
    job->workload->begin();
    TrainingReport out = training_report(config_, *job);
    return out;
  }

 private:
  double full_packet() const { return config_.fabric.mtu + PacketLimits::kHeaders; }

  SharedRate shared(const std::vector<MessageWays::Way>& ways) {
    return shared_rate(config_, topology_, routes_, ways);
  }

  std::vector<ClosedTime> over_network(const TrainingPlan& plan, const TrainingFamily& family) {
    if (family.kind == TrainingFamily::Kind::kExperts) return experts(plan, family);
    return family.of_replicas() ? rings(plan, family) : pairs(plan, family);
  }

  /// Of all communicators of a family of replicas.
  SharedRate shared(const TrainingPlan& plan, const TrainingFamily& family) {
    std::vector<MessageWays::Way> ways;
    for (uint32_t part = 0; part < parts_of(parallel_, family); ++part) {
      for (uint32_t tensor = 0; tensor < parallel_.tp; ++tensor) {
        const auto more = member_ways(config_, plan, topology_, family, part, tensor);
        ways.insert(ways.end(), more.begin(), more.end());
      }
    }
    return shared(ways);
  }

  /// Every member sends to all others at once, when their credits have come.
  std::vector<ClosedTime> experts(const TrainingPlan& plan, const TrainingFamily& family) {
    const SharedRate rate = shared(plan, family);
    const double wire = full_packet() / config_.fabric.mtu;
    std::vector<ClosedTime> out;
    for (const FamilyOperation& operation : family.operations) {
      const double bytes = static_cast<double>(way_bytes(plan, family, operation)) * wire;
      const double us = rate.slowest > 0 ? bytes / rate.slowest : 0;
      out.push_back({Duration::ps(std::llround(us * 1e6)) + rate.latency, rate.latency});
    }
    return out;
  }

  /// Of all communicators at once, as the closed form of a job has it at the rate that is left.
  std::vector<ClosedTime> rings(const TrainingPlan& plan, const TrainingFamily& family) {
    const SharedRate rate = shared(plan, family);
    std::map<std::pair<TrainingTransfer, uint64_t>, Duration> known;
    std::vector<ClosedTime> out;
    for (const FamilyOperation& operation : family.operations) {
      const auto [it, fresh] = known.try_emplace({operation.transfer, operation.bytes});
      if (fresh) it->second = ring(plan, family, operation, rate);
      out.push_back({it->second, Duration()});
    }
    return out;
  }

  Duration ring(const TrainingPlan& plan, const TrainingFamily& family,
                const FamilyOperation& operation, const SharedRate& rate) {
    const Collective collective = collective_of(operation.transfer);
    const JobConfig job = replicas_job(config_, plan, family, collective, {operation.bytes});
    OperationShape shape;
    shape.collective = collective;
    shape.communicator = {family.members, static_cast<uint32_t>(job.ranks.size())};
    shape.bytes = operation.bytes;
    shape.element = element_bytes(job.type);
    shape.channels = job.channels;
    shape.version = job.nccl;
    NetworkCost cost = job_network(config_, job, Algorithm::kRing, job.channels, &topology_).cost;
    const double left = rate.slowest * job.channels;
    if (left > 0) cost.rate = cost.rate > 0 ? std::min(cost.rate, left) : left;
    return Duration::ps(std::llround(operation_time(shape, Calibration(), cost) * 1e6));
  }

  std::vector<ClosedTime> pairs(const TrainingPlan& plan, const TrainingFamily& family) {
    std::vector<MessageWays::Way> ways;
    for (uint32_t replica = 0; replica < parallel_.replicas(); ++replica) {
      for (uint32_t tensor = 0; tensor < parallel_.tp; ++tensor) {
        ways.push_back(pair_way(config_, plan, topology_, family, replica, tensor));
      }
    }
    const SharedRate rate = shared(ways);
    const double wire = full_packet() / config_.fabric.mtu;
    std::vector<ClosedTime> out;
    for (const FamilyOperation& operation : family.operations) {
      const double bytes = static_cast<double>(operation.bytes) * wire;
      const double us = rate.slowest > 0 ? bytes / rate.slowest : 0;
      out.push_back({Duration::ps(std::llround(us * 1e6)), rate.latency});
    }
    return out;
  }

  const Config& config_;
  const Topology& topology_;
  const Parallel& parallel_;
  Routes routes_;
};

}  // namespace

Result<TrainingReport> predict_training(const Config& config, const Topology& topology) {
  return Predictor(config, topology).run();
}

Result<TrainingReport> predict_given_operations(const Config& config) {
  const Parallel& parallel = config.training->parallel;
  const GivenOperations& given = *config.training->operations;
  TrainingPlan plan = TRY(plan_without_nodes(config));
  const auto times = [&](const TrainingFamily& family) {
    using Kind = TrainingFamily::Kind;
    const bool replicas = family.kind == Kind::kData;
    std::vector<ClosedTime> out;
    for (const FamilyOperation& operation : family.operations) {
      const OperationTimes& times = replicas ? given.data : given.pipeline;
      const Duration time = family.kind == Kind::kNorm
                                ? given.norm()
                                : times.of(operation.transfer, static_cast<double>(operation.bytes),
                                           replicas ? parallel.dp : 2);
      out.push_back({time, Duration()});
    }
    return out;
  };
  const auto job = close_training(config, std::move(plan), times);
  job->workload->begin();
  TrainingReport out = training_report(config, *job);
  out.source = "given";
  out.nodes = 0;
  return out;
}

std::vector<ValidityLine> given_operations_validity(const Config& config) {
  return given_training_validity(config);
}

std::vector<ValidityLine> training_validity(const Config& config, const Topology& topology) {
  return predicted_training_validity(config, topology.choice == RouteChoice::kEcmp);
}

std::string training_prediction_json(const Config& config, const TrainingReport& prediction,
                                     const std::vector<ValidityLine>& validity) {
  report_parts::Json out;
  out["schema"] = "understudy-training-prediction/1";
  out["configuration"] = {{"path", config.path}, {"hash", config.hash}};
  out["training"] = training_report_json(prediction);
  out["validity"] = validity_json(validity);
  return out.dump(2) + "\n";
}

}  // namespace understudy
