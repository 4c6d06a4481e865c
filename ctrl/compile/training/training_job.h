// A training job, ready to be carried out on a network: packet by packet or as rates.
#pragma once

#include <memory>
#include <vector>

#include "collective_model/workload/closed_operations.h"
#include "collective_model/workload/communicators.h"
#include "ctrl/compile/training/training_plan.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/communicators/communicator_packets.h"
#include "dataplane/collective/communicators/communicator_rates.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

struct TrainingJob {
  TrainingPlan plan;
  /// Families that do not cross the network, each with its times.
  ClosedOperations closed;
  std::unique_ptr<CommunicatorPackets> packets;  ///< one of both; neither where nothing crosses it
  std::unique_ptr<CommunicatorRates> rates;
  std::unique_ptr<WorkloadCommunicators> workload;
  uint32_t connections = 0;  ///< over the network, without credits

  /// What carries it out; null: nothing crosses the network.
  FlowJob* ranks() const {
    return packets != nullptr ? static_cast<FlowJob*>(packets.get()) : rates.get();
  }
};

/// Times of a family's operations, where it has no network.
using FamilyTimes = std::function<std::vector<ClosedTime>(const TrainingFamily& family)>;
/// What operations within nodes take, and the norm.
std::vector<ClosedTime> inside_times(const Config& config, const TrainingPlan& plan,
                                     const Topology& topology, const TrainingFamily& family);

/// All families take given times: nothing crosses a network. It may begin at once.
std::unique_ptr<TrainingJob> close_training(const Config& config, TrainingPlan plan,
                                            const FamilyTimes& times);

/// Appends the flows; connections are numbered from `first_connection` on, which becomes the first free
/// number. Errors: what NCCL would not carry out, with the model's line.
Result<std::unique_ptr<TrainingJob>> build_training_job(const Config& config, TrainingPlan plan,
                                                        const Topology& topology,
                                                        std::vector<FlowSpec>& flows,
                                                        uint32_t& first_connection);

}  // namespace understudy
