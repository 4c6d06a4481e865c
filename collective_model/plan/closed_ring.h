// The plan of a ring, or of a broadcast or reduce along one: emulated ranks between two real ones
// many at a time (chain_evaluator.h), so that what a message costs does not depend on their number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/plan/chain_evaluator.h"
#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/plan_queues.h"

namespace understudy {

class ClosedRing : public Plan {
 public:
  /// Null for another kind of operation, hops that the fabric carries, nodes of several sizes or,
  /// where ways inside a node take time, whose ranks do not look alike, or a config that
  /// make_plan() refuses.
  static std::unique_ptr<Plan> make(const PlanInput& config);

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
  /// One of a lane's runs of emulated ranks.
  struct Chain {
    ChainEvaluator ring;
    uint32_t lane = 0;
    uint32_t border = 0;          ///< ranks of the first and of the last node, at most
    std::vector<uint32_t> ranks;  ///< by place, from `skipped` on
    uint32_t skipped = 0;         ///< places of the first node that no rank has
    uint32_t announced = 0;       ///< ranks
    uint64_t data_taken = 0, credits_taken = 0;
    std::vector<uint32_t> open;  ///< places in the first and last node that are not done
    bool all_done = false, pending = false;
  };
  struct Place {
    uint32_t chain = ~0u, place = 0;
    uint32_t sends = ~0u, receives = ~0u;  ///< connections
  };
  struct Rank {
    Duration delay;
    Time last;
    uint32_t left = 0;  ///< lanes that are not done
    bool real = false;
  };

  ClosedRing(const PlanInput& config, uint32_t lanes);
  bool add_lane(const PlanInput& config, uint32_t lane);
  bool add_chain(const PlanInput& config, uint32_t lane, std::vector<uint32_t> ranks, bool begins,
                 bool ends);
  Place& place(uint32_t rank, uint32_t lane) { return places_[rank * lanes_ + lane]; }
  const Place* find(uint32_t rank, uint32_t connection) const;
  void advance(uint32_t chain);
  void announce(Chain& chain);
  void done(const Chain& chain, uint32_t place);

  uint32_t lanes_;
  std::vector<Rank> ranks_;
  std::vector<Place> places_;  ///< by rank and lane
  std::vector<Chain> chains_;
  std::vector<uint32_t> pending_;  ///< chains that may have outputs
  DoneRanks done_;
};

}  // namespace understudy
