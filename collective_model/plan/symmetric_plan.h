// The plan of an operation whose ranks all do the same (symmetric_ranks.h). The recurrence of
// general_plan.h holds, without ways inside nodes. What is the same for all ranks is kept once; a
// connection between emulated ranks keeps little but the moments that something may still wait for.
// An input costs a constant for each message that it sets free.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/pair_hops.h"
#include "collective_model/plan/plan_queues.h"
#include "collective_model/plan/symmetric_ranks.h"

namespace understudy {

class SymmetricPlan : public Plan {
 public:
  /// Of PlanInput::alike. Fails, naming the field, when the numbers do not fit together.
  static Result<std::unique_ptr<Plan>> make(const PlanInput& config);
  /// The same with every rank emulated.
  static Result<std::unique_ptr<Plan>> make_ideal(PlanInput config);

  void start(Time entry) override;
  void begin() override;
  void enter(uint32_t rank, Time entry) override;
  bool on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) override;
  bool on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) override;
  bool next(PlanOutput& out) override;

  bool finished() const override { return done_.unfinished() == 0; }
  bool next_done(uint32_t& rank) override { return done_.next(rank); }
  Time completion(uint32_t rank) const override {
    const Rank& r = ranks_[rank];
    return r.left == 0 && !r.entry.is_never() ? r.last : Time::never();
  }

 private:
  /// Times by message of a rank's connection: where they lie among the rank's. The last ones only.
  struct Place {
    uint32_t first = 0, mask = 0;
  };
  /// What a connection is to all ranks.
  struct Kind {
    bool sends = false;
    uint32_t lane = 0;
    uint32_t bit = 0;    ///< in the lane
    uint32_t place = 0;  ///< among the rank's senders or receivers
    uint32_t window = 0;
    uint64_t messages = 0;
    uint64_t waiting = 0;  ///< bits of connections that wait for something of this one
    Place times;           ///< done (sends), or arrived
    Place acked, credits;  ///< of messages beyond a window, counted from there
  };
  struct Sender {
    Time wire_free;
    Time last;  ///< when the kernel was done with the last message
    uint32_t done = 0, sent = 0, acked = 0;
    uint32_t credits = 0;  ///< beyond the first window
  };
  struct Receiver {
    Time last;
    uint32_t done = 0, arrived = 0;
  };
  struct Rank {
    Time entry = Time::never();
    Time last;
    uint64_t left = 0;
    bool real = false;
  };
  /// An emulated rank's end of a connection with a real one.
  struct Border {
    uint32_t rank = 0, connection = 0;
    uint64_t taken = 0;  ///< outputs that the caller has
  };
  struct Output {
    uint32_t border = 0;
    uint64_t message = 0;
    Time time;
  };

  explicit SymmetricPlan(const PlanInput& config);
  static Result<std::unique_ptr<Plan>> checked(const PlanInput& config);
  void make_kinds();
  void make_borders();
  Sender& sender(uint32_t rank, uint32_t c) {
    return senders_[size_t{rank} * sends_ + kinds_[c].place];
  }
  Receiver& receiver(uint32_t rank, uint32_t c) {
    return receivers_[size_t{rank} * receives_ + kinds_[c].place];
  }
  Time& at(uint32_t rank, const Place& place, uint64_t k) {
    return times_[rank * kept_ + place.first + (k & place.mask)];
  }
  Border* border(uint32_t rank, uint32_t connection);
  void wake(uint32_t rank, uint32_t lane, uint64_t bits);
  void settle();
  bool ready(uint32_t rank, uint32_t c, Time& t);
  void done(uint32_t rank, uint32_t c, Time t);
  void send(uint32_t rank, uint32_t c);
  void arrive(uint32_t rank, uint32_t c, Time t);
  void emit(uint32_t rank, uint32_t c, uint64_t k, Time t);

  std::shared_ptr<const SymmetricRanks> all_;
  std::shared_ptr<const PairHops> hops_;
  WireCost wire_;
  Duration step_cost_;
  std::vector<Duration> entry_delay_;
  uint32_t n_;
  std::vector<Kind> kinds_;                   ///< by connection
  std::vector<std::vector<uint32_t>> lanes_;  ///< connections by lane and bit
  uint32_t sends_ = 0, receives_ = 0;         ///< of a rank
  uint64_t messages_ = 0;                     ///< of a rank, either way
  size_t kept_ = 0;                           ///< times of a rank
  std::vector<Rank> ranks_;
  std::vector<Sender> senders_;
  std::vector<Receiver> receivers_;
  std::vector<Time> times_;
  std::vector<uint64_t> to_see_;  ///< by rank and lane: connections that may go on
  std::vector<uint32_t> work_;    ///< ranks and lanes that have such
  std::vector<Border> borders_;   ///< ascending
  PlanOutputs<Output> outputs_;
  DoneRanks done_;
};

}  // namespace understudy
