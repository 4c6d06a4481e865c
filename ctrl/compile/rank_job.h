// A job all of whose ranks are emulated, ready to be carried out packet by packet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/schedule/job_work.h"
#include "ctrl/topology/topology.h"
#include "dataplane/collective/packet_level_ranks.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

struct RankJob {
  std::vector<JobOperation> operations;
  std::vector<uint64_t> sizes;  ///< bytes, by JobOperation::size; of a group all together
  std::vector<RankWork> work;   ///< by rank
  uint64_t messages = 0;        ///< of all operations, that cross the network
  Communicator communicator;
  std::unique_ptr<PacketLevelRanks> ranks;
};

/// By which NICs the job's messages on a connection go, credits back.
MessageWays job_ways(const Config& config, const JobConfig& job, const Communicator& communicator,
                     const Topology& topology, const Connection& connection);

/// How the job's messages and credits go as flows.
PacketLevelRanksSettings rank_traffic_settings(const Config& config, const JobConfig& job);

/// Appends the flows of the job's messages and credits; connections are numbered from
/// `first_connection` on, which becomes the first free number. Error: what NCCL would not carry
/// out, with the job's line; operations of more than kMostMessages.
Result<RankJob> build_rank_job(const Config& config, const JobConfig& job, const Topology& topology,
                               std::vector<FlowSpec>& flows, uint32_t& first_connection);

/// Most messages of a job, or parts of these, credits apart: each takes some 600 bytes of memory.
inline constexpr uint64_t kMostMessages = 20'000'000;

}  // namespace understudy
