// Operations between pairs of ranks: send/recv, all-to-all, all-to-all-v, gather, scatter. Their
// buffers are not registered and inside a node they go by Simple, too.
#pragma once

#include <optional>
#include <vector>

#include "collective_model/nccl/p2p_rounds.h"
#include "collective_model/schedule/schedule.h"

namespace understudy {

/// How the bytes of one pair of ranks are cut: over channels, then in messages. Source: enqueue.cc
/// (addP2pToPlan) of 2.22 and later, include/bitops.h (chunks are kept as floats of 8 bits).
struct P2pCut {
  uint32_t parts = 1;
  uint64_t part_bytes = 0;  ///< of all parts but the last ones
  uint32_t chunk = 0;       ///< bytes of a message but the last
};
P2pCut p2p_cut(const Communicator& communicator, uint64_t bytes, bool network);

/// In Operation::pair_bytes, instead of bytes: these two do not talk.
inline constexpr uint64_t kNoPair = ~uint64_t{0};

/// Bytes that `from` has for `to`, which may be itself; nothing if they do not talk (0 bytes is a
/// message).
std::optional<uint64_t> pair_bytes(const Communicator& communicator, const Operation& operation,
                                   uint32_t from, uint32_t to);

/// Connections: of each round those it sends on, then those it receives on, by parts. A channel
/// works on up to 8 rounds at a time; the first messages of the next ones wait for the last of
/// them.
class P2pRankSchedule : public RankSchedule {
 public:
  P2pRankSchedule(const Communicator& communicator, const Operation& operation,
                  const P2pRounds& rounds, uint32_t rank);
  Message message(uint32_t connection, uint64_t k) const override;
  uint64_t alternates_until(uint32_t connection, uint64_t k) const override {
    const uint64_t last = connections_[connection].messages - 1;
    return k < last ? last : k + 1;
  }
  Waits waits(uint32_t connection, uint64_t k) const override;
  uint32_t value_parts(uint32_t, uint64_t) const override { return 1; }
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  uint32_t result_parts(uint32_t, uint64_t) const override { return 1; }
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;

 private:
  struct Part {
    uint64_t offset = 0;  ///< in the sender's buffer
    uint64_t to = 0;      ///< in the receiver's
    uint64_t bytes = 0;
    uint32_t chunk = 1;
    uint32_t batch = 0;
  };
  /// What a channel works on at a time.
  struct Batch {
    std::vector<uint32_t> connections;
    uint32_t before = 0;  ///< the channel's batch before it, or itself
  };

  std::vector<Part> parts_;  ///< by connection
  std::vector<Batch> batches_;
};

}  // namespace understudy
