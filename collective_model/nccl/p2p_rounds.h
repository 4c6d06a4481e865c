// The order in which a rank meets its peers in send/recv: a list of rounds that every rank goes
// through, and the channels of each round. Source: init.cc (ncclP2pSchedule; before 2.28 inside
// initTransportsRank) and include/channel.h.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/nccl/communicator.h"

namespace understudy {

struct P2pRound {
  uint32_t to = 0;    ///< rank that is sent to
  uint32_t from = 0;  ///< rank that is received from
};

/// The rounds of all ranks, by rules of 2.22 and later: as many as there are ranks, the first of
/// each with itself.
class P2pRounds {
 public:
  explicit P2pRounds(const Communicator& communicator);
  uint32_t count() const { return groups_ * size_; }
  /// Ranks that take one another in turn inside a round of groups.
  uint32_t group_size() const { return size_; }
  P2pRound of(uint32_t rank, uint32_t round) const;
  /// The round in which `from` sends to `to`.
  uint32_t between(uint32_t from, uint32_t to) const;

 private:
  uint32_t size_, groups_;  ///< ranks of a group, groups
  // Distances in the order of rounds, between groups and inside one; and where each comes.
  std::vector<uint32_t> far_, near_, far_at_, near_at_;
};

/// The channel of part `part` of what is sent in a round. 2.28: as 2.28.9, earlier 2.28 as 2.27.
uint32_t p2p_channel(const Communicator& communicator, uint32_t round, uint32_t part);

/// Channels that messages from one rank to another may take, ascending: NCCL connects all of them
/// when the two first have to do with each other (source: group.cc, ncclP2PPreconnectFunc).
std::vector<uint32_t> p2p_channels_between(const Communicator& communicator, uint32_t from,
                                           uint32_t to);

/// Operations that a channel works on at a time.
inline constexpr uint32_t kP2pBatch = 8;
/// Whether an operation of `round` may join the ones of `first` and up to now `count` rounds.
bool joins_p2p_batch(NcclVersion version, uint32_t first, uint32_t count, uint32_t round);

}  // namespace understudy
