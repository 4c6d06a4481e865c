// What the network between a job's nodes costs its operations: the rate that the slowest of the
// transfers of one step gets when all of them share the links by max-min, and the longest latency.
#pragma once

#include <cstdint>
#include <string>

#include "collective_model/predict/time_model.h"
#include "ctrl/config/config.h"
#include "ctrl/schedule/job_tuner.h"
#include "ctrl/topology/topology.h"

namespace understudy {

struct JobNetwork {
  NetworkCost cost;
  uint32_t nics = 1;      ///< of each node that take part
  double nic_rate = 0;    ///< bit/s of the slowest of them; 0: unlimited
  bool all_pairs = true;  ///< false: too many pairs, NICs alone were counted
  /// Of rings: connections that leave, or come in by, the busiest NIC; and of how many one link
  /// between switches takes its share, where that is less than their NICs give; its name.
  uint32_t sharing = 1, colliding = 0;
  std::string collision;
  double share = 1;  ///< of the NICs' rate that the transfers of a step get
};

/// Without `topology` the nodes' links are the network. Every link carries the transfers of a step
/// that its routing gives it: neighbours of the ring channel by channel (`channels` of them), edges
/// of both trees, or all pairs.
JobNetwork job_network(const Config& config, const JobConfig& job, Algorithm algorithm,
                       uint32_t channels, const Topology* topology);

/// Whether it depends on the number of channels. Not with [calibration]: its costs were fitted to a
/// network of all NICs together, whole bytes and credits that are always there.
bool counts_channels(const Config& config, const JobConfig& job, Algorithm algorithm,
                     uint32_t channels);

/// Whether another seed, from which hashes draw the paths, gives another one than `own`, which the
/// configuration's seed gives. Looks at a few.
bool network_is_drawn(const Config& config, const JobConfig& job, Algorithm algorithm,
                      uint32_t channels, const Topology* topology, const JobNetwork& own);

}  // namespace understudy
