// From what the real ranks send and receive in a group of ncclSend and ncclRecv to what all ranks
// do there. Of the others nothing is known but that what a real rank sends is received, and what it
// receives is sent. Beyond that, where all real ranks send to the ranks at some distances and
// receive from those at the same distances, as in all-to-all or where everyone sends to the next,
// every rank does so, with as many bytes at each distance as the first real rank sends. Else the
// emulated ranks say nothing to one another, as where a real rank is the root of a gather or a
// scatter, in which they do not.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "dataplane/base/result.h"

namespace understudy {

/// The part of a real rank: bytes by peer, which may be itself.
struct RankPairs {
  uint32_t rank = 0;
  std::map<uint32_t, uint64_t> sends, receives;
};

/// An all-to-all, send/recv, gather or scatter if it is one, else an all-to-all-v in which some do
/// not talk. `real`: all of them, not empty. Fails, naming ranks, where they contradict each other
/// or a peer is none of the communicator's.
Result<Operation> pair_operation(const Communicator& communicator, std::span<const RankPairs> real);

}  // namespace understudy
