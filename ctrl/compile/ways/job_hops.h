// The ways of a job's network connections, as its plans charge them: rate and latency of each when
// nothing but the job is on the links.
#pragma once

#include <memory>
#include <vector>

#include "collective_model/plan/pair_hops.h"
#include "collective_model/plan/symmetric_ranks.h"
#include "collective_model/plan/wire_cost.h"
#include "collective_model/schedule/all_to_all.h"
#include "collective_model/schedule/schedule.h"
#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"

namespace understudy {

/// What packets of a NIC cost on the wire. Without an address: as with IPv4.
WireCost wire_cost(const Config& config, const NicConfig& nic);

/// Of each connection of each rank that sends over the network: without `topology` both ends'
/// links, else the path that its routing gives to one flow of the pair. Connections that send at
/// the same time share their NICs' links and their path evenly: those of a rank, of its round of
/// PAT, or of its batch of send/recv.
std::vector<std::vector<Hop>> job_hops(
    const Config& config, const JobConfig& job, const Communicator& communicator,
    const Operation& operation, const std::vector<std::shared_ptr<const RankSchedule>>& ranks,
    const Topology* topology);

/// The same of an all-to-all, or of ranks that all do the same, pair by pair.
std::shared_ptr<const PairHops> job_pair_hops(const Config& config, const JobConfig& job,
                                              const AllToAll& all, const Topology* topology);
std::shared_ptr<const PairHops> job_pair_hops(const Config& config, const JobConfig& job,
                                              const SymmetricRanks& all, const Topology* topology);

}  // namespace understudy
