#include "ctrl/predict/prediction_limits.h"

#include <algorithm>

#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {
namespace {

/// Share of an operation's time from which on credits hold it up.
constexpr double kWindowShare = 0.002;
/// Of a ring that they hold up: fewer have too few steps for the mean to be exact.
constexpr uint32_t kFewRanks = 48;

}  // namespace

bool held_up(const PredictedRow& row) {
  return row.closed_form > row.without_window * (1 + kWindowShare);
}

bool held_up_alone(const OperationShape& shape, const ChunkPlan& cut,
                   const Calibration& calibration, NetworkCost cost, uint32_t sharing) {
  cost.rate *= sharing;
  cost.alone_rate = 0;
  const double held = operation_time(shape, cut, calibration, cost);
  cost.farthest = 0;
  return held > operation_time(shape, cut, calibration, cost) * (1 + kWindowShare);
}

double answers_by_data(const Config& config, const JobConfig& job, uint64_t message) {
  constexpr uint64_t kAck = 86;  // on the wire
  const uint64_t packets =
      std::max<uint64_t>(1, (message + config.fabric.mtu - 1) / config.fabric.mtu);
  const uint64_t packet = std::min<uint64_t>(message, config.fabric.mtu) + PacketLimits::kHeaders;
  const unsigned nic = job_nic(config, job, 0);
  double most = 0;
  for (const NodeId node : job.ranks) {
    const NicLimits limits = nic_limits(config, job, {node, nic});
    if (limits.packets.least == Duration() && limits.ack_every == 0) continue;
    const uint64_t every =
        limits.ack_every != 0 ? limits.ack_every : PacketLevelRanksSettings().ack_every;
    const Rate rate = merged_rate(job, config.nodes[node], nic);
    const auto time = [&](uint64_t bytes) {
      return std::max(rate.time_for(bytes), limits.packets.time_for(bytes)).microseconds();
    };
    const uint64_t answers = (packets + every - 1) / every;
    const double acks = static_cast<double>(answers) * time(kAck);
    const double data = static_cast<double>(packets) * time(packet);
    if (data > 0) most = std::max(most, acks / data);
  }
  return most;
}

std::vector<std::string> limits_of(const Config& config, const OperationShape& shape,
                                   const ChunkPlan& cut, const JobNetwork& network,
                                   const PredictedRow& row) {
  std::vector<std::string> limits;
  const bool ring = !function_name(shape.collective).empty() &&
                    shape.algorithm == Algorithm::kRing && !is_pipeline(shape.collective);
  if (!network.collision.empty()) {
    limits.push_back("collisions: " + std::to_string(network.colliding) + " connections share " +
                     network.collision);
  }
  if (config.calibration) return limits;  // what it was fitted to is its measure
  if (!ring) {
    limits.push_back("no ring of all ranks: the closed form is rough");
    return limits;
  }
  if (!config.fabric.cut_through) {
    limits.push_back("store and forward: it knows switches that cut through");
  }
  if (network.sharing > 1) {
    limits.push_back("contention: " + std::to_string(network.sharing) +
                     " channels share a NIC, packet by packet");
  }
  if (held_up(row) && shape.communicator.ranks < kFewRanks) {
    limits.push_back("window: few steps, and credits hold them up");
  }
  // The last loop's chunks are whole groups of elements, and some ranks have none.
  const uint64_t ranks = shape.communicator.ranks;
  if (cut.loops == 0 && cut.last * ranks > cut.part + cut.part / 100) {
    limits.push_back("parts: " + std::to_string(cut.part) + " bytes a channel are too few for " +
                     std::to_string(ranks) + " ranks to have equal ones");
  }
  return limits;
}

}  // namespace understudy
