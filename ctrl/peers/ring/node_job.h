// What a program that plays all ranks of one real node is told of its job: any of NCCL's
// operations, whatever algorithm, protocol and type, and the node's connections. Which messages go
// over these follows from the operations (collective_model/schedule). As JSON it is the message
// "node_job" (ring_messages.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "collective_model/iteration/iteration.h"
#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "dataplane/base/address.h"
#include "dataplane/base/units.h"

namespace understudy {

class MessageFields;

inline constexpr size_t kMostToldSteps = 65536;

struct NodeJobMessage {
  /// What is carried out warmup + iterations times.
  struct Kind {
    uint64_t bytes = 0;                 ///< as results name it
    std::vector<Operation> operations;  ///< several are a group, in the order of cut_group()
  };
  /// One of the node's connections over the network, in one direction.
  struct Link {
    uint32_t rank = 0;       ///< of the node
    uint32_t peer_rank = 0;  ///< of another one
    uint32_t channel = 0;
    uint8_t index = 0;          ///< 0: of collectives, 1: of sends and receives
    bool client_sends = false;  ///< the node's rank sends data
    uint32_t slots = 1;         ///< most messages in flight
    uint32_t slot_bytes = 1;    ///< of the largest credit
    /// GIDs of the node's end and of the other one, by queue pair: more than one where an end is a
    /// merged NIC. Messages are cut in as many parts.
    std::vector<IpAddress> local, remote;
    bool operator==(const Link&) const = default;
  };

  std::string name;  ///< of the job
  Communicator communicator;
  uint32_t node = 0;  ///< of the communicator: its ranks are the client's
  std::vector<Kind> kinds;
  uint32_t warmup = 0, iterations = 1;
  /// Every kind once in each iteration, else all iterations of a kind before those of the next.
  bool by_iteration = false;
  ReduceOp reduction = ReduceOp::kSum;
  /// Messages carry values, and results can be verified; false: contents are free. Rank r
  /// contributes by Pattern(seed, r); programs' ranks by a seed that no message carries.
  bool exact = false;
  uint64_t seed = 0;
  std::vector<uint32_t> program_ranks;  ///< that programs play, the client's among them
  std::vector<Link> links;
  uint32_t credit_devices = 4;  ///< that a credit has keys of: 4 or 8
  /// What the job says that the node's first rank does before its operations. Empty: more than
  /// kMostToldSteps, or an older peer does not tell.
  RankSteps steps;
  /// From a rank of the node to another one (NodeWay in collective_model/schedule); without rate
  /// and latency it takes no time.
  Rate inside_rate;
  Duration inside_latency;
  uint32_t mtu = 4096;  ///< largest path MTU in bytes
  uint8_t traffic_class = 0;
};

/// The message's fields but for "type".
nlohmann::json node_job_to_json(const NodeJobMessage& message);
/// What is wrong is kept by `fields`. Whether NCCL would carry it out is not looked at.
NodeJobMessage read_node_job(MessageFields& fields);

}  // namespace understudy
