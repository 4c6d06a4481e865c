// From a job of the configuration to its plans: operations, their schedules, model times, entries.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/build/topology.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "dataplane/node/ring_job.h"

namespace understudy {

/// A job ready to run. Does not move: shards hold pointers into it.
struct RingSetup {
  const Topology* topology = nullptr;  ///< that it crosses; null without switches
  RingJob job;
  std::vector<std::unique_ptr<RingPlan>> plans;
  std::vector<Duration> modelled;   ///< of each operation, real rank's view
  std::vector<uint64_t> sizes;      ///< of each operation, bytes
  std::vector<uint32_t> iteration;  ///< of each operation, counting warm-ups
  std::vector<bool> warmup;         ///< of each operation
};

/// What packets of a NIC cost on the wire. Without an address: as with IPv4.
WireCost wire_cost(const Config& config, const NicConfig& nic);

/// Position of the job's real rank; the configuration has been checked to hold one.
uint32_t real_rank(const Config& config, const JobConfig& job);

/// The way from each rank to its successor when nothing else is on it: without `topology` both
/// ends' links, else the path that its routing gives to one flow of the pair.
std::vector<RingHop> ring_hops(const Config& config, const JobConfig& job,
                               const Topology* topology);

/// Builds everything; `scheduled` overrides the job's entry mode where a run cannot know the real
/// node's time (false) or must (true). Operations of a scheduled job enter from `start` on, each
/// `interval` after the modelled end of the one before.
Result<std::unique_ptr<RingSetup>> build_ring(const Config& config, const JobConfig& job,
                                              bool scheduled, Time start,
                                              const Topology* topology = nullptr);

}  // namespace understudy
