// What an operation takes when nothing but the model delays it: the ranks of one node are worked
// out by the general evaluator, as if all others were real; these many at a time (closed_ring.h,
// closed_tree.h), as if that node was; and the hops between the two.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "collective_model/plan/general_plan.h"
#include "collective_model/plan/operation_plan.h"

namespace understudy {

/// All ranks are emulated: there are neither inputs nor outputs.
class UncongestedPlan : public Plan {
 public:
  /// Null where the others would be worked out one by one.
  static std::unique_ptr<Plan> make(const PlanInput& config);

  void start(Time entry) override;
  void begin() override;
  void enter(uint32_t rank, Time entry) override;
  bool on_real_data(uint32_t, uint32_t, uint64_t, Time) override { return false; }
  bool on_acknowledged(uint32_t, uint32_t, uint64_t, Time) override { return false; }
  bool next(PlanOutput&) override { return false; }

  bool finished() const override { return others_->finished() && node_->finished(); }
  bool next_done(uint32_t& rank) override {
    return node_->next_done(rank) || others_->next_done(rank);
  }
  Time completion(uint32_t rank) const override { return of(rank).completion(rank); }

 private:
  /// A connection between the node and another one.
  struct Link {
    FarEnd from, to;
    Hop hop;
    std::vector<Time> filled, credits;  ///< by message
    uint64_t sent = 0;
    Time free;
  };

  UncongestedPlan() = default;
  Plan& of(uint32_t rank) const { return in_node_[rank] ? *node_ : *others_; }
  void settle();
  bool take(Plan& plan);
  void send(Link& link);

  std::unique_ptr<Plan> others_, node_;
  std::vector<bool> in_node_;  ///< by rank
  std::vector<std::shared_ptr<const RankSchedule>> ranks_;
  WireCost wire_;
  std::vector<Link> links_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t>
      link_of_;  ///< by rank and connection, both ends
};

}  // namespace understudy
