// The plan of an all-reduce by trees, with all sub-trees in closed form that hang on to the ways
// from the real ranks to the root: what a message costs grows with the tree's depth, not with the
// number of ranks.
//
// Of a sub-tree without a real rank, whose hops are no slower than the one above it, all that is
// ever felt above is that first hop and when the sub-tree's first message can start: the latest of
// its ranks' entries, each after the hops from there. Its own windows of messages are no longer
// than the first hop's, credits that go down and messages that come up are two of these, and
// everything that goes down has waited for all entries, as real ranks pass nothing down either
// before all has come up to the root. Where a hop in it is slower, the sub-tree is opened, and
// those in it are looked at. What remains is worked out by the general evaluator.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/plan/general_plan.h"
#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/plan_queues.h"

namespace understudy {

class ClosedTree : public Plan {
 public:
  /// Null for another kind of operation, hops that the fabric carries, ways inside a node that take
  /// time, or where the general evaluator would have to work out more than `most` per cent of the
  /// ranks all the same.
  static std::unique_ptr<Plan> make(const PlanInput& config, uint32_t most = 50);

  void start(Time entry) override;
  void begin() override;
  void enter(uint32_t rank, Time entry) override;
  bool on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) override;
  bool on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) override;
  bool next(PlanOutput& out) override;

  bool finished() const override { return done_.unfinished() == 0; }
  bool next_done(uint32_t& rank) override { return done_.next(rank); }
  Time completion(uint32_t rank) const override {
    return ranks_[rank].left == 0 ? ranks_[rank].last : Time::never();
  }

 private:
  static constexpr uint32_t kNone = ~0u;

  /// A rank's lane in a sub-tree in closed form. Those of one sub-tree stand together, each behind
  /// the one above it.
  struct Folded {
    uint32_t rank = 0;
    uint32_t above = 0;    ///< position, of the same sub-tree; the first one's is not used
    bool network = false;  ///< the hop to the one above
    Duration up_latency;
    Duration up, down_full, down_tail;  ///< from a message's start till it can be used
    Duration wire, round;  ///< of a whole message down: on the wire, and till it is acknowledged
    Duration round_below;  ///< the longest to a rank below over the network
    // Of the operation that is under way.
    Time entry, ready;          ///< `ready`: to send its first message up
    Time last, before, window;  ///< the last message has come down, the one and a window before it
  };
  /// A sub-tree: the ranks of the reduced operation that stand for it, where it hangs, its ranks.
  struct SubTree {
    uint32_t up = 0;                      ///< sends to the rank above
    uint32_t above = 0, above_sends = 0;  ///< reduced rank above and its connection down
    uint32_t first = 0, end = 0;          ///< in folded_
    uint32_t waiting = 0;                 ///< for entries
    uint64_t messages = 0;
    uint32_t window = 0;
    Duration wire, tail_wire, latency;  ///< of a whole message, the last one, on the first hop down
  };
  /// What a rank of the reduced operation stands for.
  struct Reduced {
    uint32_t rank = kNone;
    uint32_t first = 0;         ///< its first connection in the rank's own
    uint32_t sub_tree = kNone;  ///< that it receives for
    bool up = false;            ///< it sends for one
  };
  struct Place {
    uint32_t reduced = kNone;  ///< a rank that is worked out, or that a sub-tree begins with
    uint32_t folded = kNone;   ///< in a sub-tree
    uint32_t sub_tree = kNone;
    uint32_t first = 0;  ///< connection
  };
  struct Rank {
    Duration delay;
    Time last;
    uint32_t left = 0;  ///< lanes that are not done
    bool real = false;
  };
  class Builder;

  ClosedTree() = default;
  static std::unique_ptr<ClosedTree> cut(const PlanInput& config, uint32_t most);
  const Place& place(uint32_t rank, uint32_t lane) const { return places_[rank * lanes_ + lane]; }
  const Place* find(uint32_t rank, uint32_t connection) const;
  void ready(SubTree& tree);
  void settle();
  void end(const SubTree& tree);
  void done(uint32_t rank, Time t);

  uint32_t lanes_ = 0;
  Duration step_;
  std::unique_ptr<GeneralPlan> plan_;
  std::vector<Rank> ranks_;
  std::vector<Place> places_;  ///< by rank and lane
  std::vector<Reduced> reduced_;
  std::vector<SubTree> sub_trees_;
  std::vector<Folded> folded_;
  DoneRanks done_;
};

}  // namespace understudy
