// All ranks' parts in an all-to-all (or all-to-all-v) by rule: whom a rank meets at which step of a
// channel, and with how many bytes. P2pRankSchedule lists the same for one rank.
//
// A channel has an order of steps, the same for all ranks: the parts of rounds (p2p_rounds.h) that
// fall to it. A rank goes through them in batches, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/schedule/p2p.h"
#include "collective_model/schedule/schedule.h"

namespace understudy {

class AllToAll {
 public:
  /// Of an operation that passed check_operation(). Takes O(ranks), all-to-all-v aside, whose table
  /// of sizes it keeps.
  AllToAll(const Communicator& communicator, const Operation& operation);

  /// Whether it is one.
  static bool is_one(const Operation& operation) {
    return operation.collective == Collective::kAllToAll ||
           operation.collective == Collective::kAllToAllV;
  }

  const Communicator& communicator() const { return communicator_; }
  uint32_t ranks() const { return ranks_; }
  uint32_t channels() const { return static_cast<uint32_t>(steps_.size()); }
  bool local(uint32_t a, uint32_t b) const {
    return communicator_.gpus > 1 && communicator_.local(a, b);
  }
  /// Every pair has as many bytes.
  bool even() const { return operation_.collective == Collective::kAllToAll; }

  struct Step {
    uint32_t round = 0;
    uint32_t part = 0;
    uint32_t far = 0, near = 0;  ///< distance to the peer: groups of ranks, and inside one
  };
  const std::vector<Step>& steps(uint32_t channel) const { return steps_[channel]; }
  /// The end of the batch of a rank whose first step is `first` or after it.
  uint32_t batch_end(uint32_t channel, uint32_t rank, uint32_t first) const {
    return alike_ ? batch_ends_[channel][first] : find_batch_end(channel, rank, first);
  }
  P2pRound peers(uint32_t rank, const Step& step) const {
    const uint32_t group = group_of_[rank], local = rank - group * size_;
    const auto wrap = [](uint32_t x, uint32_t n) { return x < n ? x : x - n; };
    return {
        wrap(group + step.far, groups_) * size_ + wrap(local + step.near, size_),
        wrap(group + groups_ - step.far, groups_) * size_ + wrap(local + size_ - step.near, size_)};
  }

  /// One connection.
  struct Part {
    uint64_t messages = 0;  ///< 0: there is none
    uint32_t chunk = 0;     ///< bytes of all messages but the last one
    uint32_t last = 0;      ///< bytes of that
  };
  Part part(uint32_t from, uint32_t to, uint32_t part) const;
  /// Connections of each pair at most; of all pairs where sizes are even.
  uint32_t parts() const { return parts_; }

  /// Position in a rank's P2pRankSchedule::connections() of the connection of this round and part.
  uint32_t connection(uint32_t rank, uint32_t round, uint32_t part, bool receives) const;
  /// The other ends of a rank's connections. `schedule`: its P2pRankSchedule.
  std::vector<FarEnd> far_ends(const RankSchedule& schedule) const;
  uint32_t round(uint32_t from, uint32_t to) const { return rounds_.between(from, to); }
  uint32_t channel(uint32_t from, uint32_t to, uint32_t part) const {
    return p2p_channel(communicator_, rounds_.between(from, to), part);
  }
  /// Ways inside its node by which a rank sends messages.
  uint32_t ways_out(uint32_t rank) const;

 private:
  uint64_t bytes(uint32_t from, uint32_t to) const {
    return even() ? operation_.bytes() : operation_.pair_bytes[uint64_t{from} * ranks_ + to];
  }
  uint32_t parts_of(uint32_t from, uint32_t to) const {
    const uint64_t all = bytes(from, to);
    return all == kNoPair ? 0 : p2p_cut(communicator_, all, false).parts;
  }
  bool takes(uint32_t rank, const Step& step) const;
  uint32_t find_batch_end(uint32_t channel, uint32_t rank, uint32_t first) const;

  Communicator communicator_;
  Operation operation_;
  P2pRounds rounds_;
  uint32_t ranks_, size_, groups_;  ///< size_: ranks of a group
  uint32_t parts_ = 1;
  uint32_t full_parts_ = 1;  ///< of these, that are not empty
  /// All ranks have the same connections and batches, by step.
  bool alike_ = true;
  std::vector<uint32_t> group_of_;  ///< by rank
  std::vector<std::vector<Step>> steps_;
  std::vector<std::vector<uint32_t>> batch_ends_;  ///< by channel and first step, if alike_
};

}  // namespace understudy
