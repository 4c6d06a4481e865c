// The plan of an all-to-all (or all-to-all-v), with far less to keep than its connections: what one
// rank has for another one needs no other moments than those at which the two begin with it
// (pair_transfer.h), and a rank begins with all connections of a batch at once. So a rank's channel
// has the batch that it is in, and when those before it began that others still ask for; only
// connections to real ranks have a state of their own. An input costs a constant for each
// connection that it lets begin or end.
//
// A connection between emulated ranks is worked out when the second of them begins with it. Up to
// then its sender may be done with it already, or will be when the receiver has entered: messages
// beyond a window wait for acknowledgements, beyond two of them for the receiver too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collective_model/inference/pair_transfer.h"
#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/pair_hops.h"
#include "collective_model/plan/plan_queues.h"
#include "collective_model/schedule/all_to_all.h"

namespace understudy {

class AllToAllPlan : public Plan {
 public:
  /// Of PlanInput::all_to_all. Fails, naming the field, when the numbers do not fit
  /// together.
  static Result<std::unique_ptr<Plan>> make(const PlanInput& config);
  /// The plan with every rank emulated.
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
    return ranks_[rank].lanes_left == 0 ? ranks_[rank].last : Time::never();
  }

 private:
  static constexpr uint64_t kWindow = PairTransfer::kWindow;

  struct Rank {
    Time entry = Time::never();
    Time last;  ///< when the latest of its channels that are done was
    uint32_t lanes_left = 0;
    uint32_t first_border = 0;
    bool real = false;
  };
  /// A channel of a rank.
  struct Lane {
    uint32_t first = 0, end = 0;  ///< steps of the batch that it is in
    uint32_t batch = 0;           ///< its number, from 1 on
    uint32_t open = 0;            ///< connections of it that are not done
    Time start;                   ///< of the batch
    Time done;                    ///< the latest end of its connections that are
  };
  /// A batch that a lane has begun.
  struct Began {
    uint32_t first = 0;  ///< step
    uint32_t asked = 0;  ///< emulated receivers that have not begun with what it sends
    Time start;
  };
  /// An emulated rank's end of a connection with a real one.
  struct Border {
    uint32_t rank = 0, connection = 0;
    uint32_t channel = 0;
    uint64_t key = 0;  ///< place in the rank's order
    bool sends = false;
    bool began = false;
    uint64_t messages = 0;
    uint64_t done = 0;     ///< messages that the rank is done with
    uint64_t heard = 0;    ///< that have come, or were acknowledged
    uint64_t granted = 0;  ///< outputs
    uint64_t taken = 0;    ///< outputs that the caller has
    Time last;             ///< when it was done with the last one
    std::array<Time, kWindow> arrivals{};
  };
  struct Output {
    uint32_t border = 0;
    uint64_t message = 0;
    Time time;
  };
  /// What a message takes at a rate, where all pairs have the same.
  struct Price {
    Rate rate;
    PacketLimits limits;
    uint32_t part = 0;
    Duration full, last;
    bool known = false;
  };

  explicit AllToAllPlan(const PlanInput& config);
  static Result<std::unique_ptr<Plan>> checked(const PlanInput& config);
  void make_borders();
  Lane& lane(uint32_t channel, uint32_t rank) { return lanes_[size_t{channel} * n_ + rank]; }
  Began& began(const Lane& lane, uint32_t batch) {
    return began_[static_cast<size_t>(&lane - lanes_.data()) * depth_ + (batch & (depth_ - 1))];
  }
  Time ask(const Lane& lane, uint32_t step);
  void remember(Lane& lane);
  void keep_twice_as_many();

  PairTransfer transfer(uint32_t from, uint32_t to, uint32_t part);
  /// Place in a rank's order of a connection.
  uint64_t key(const AllToAll::Step& step, bool receives) const {
    return (uint64_t{step.round} * all_->parts() + step.part) * 2 + (receives ? 1 : 0);
  }
  Border* border(uint32_t rank, uint32_t connection);
  void wake(Lane& lane, Time end);
  void settle();
  void advance(uint32_t channel, uint32_t rank);
  void begin_sending(uint32_t channel, uint32_t rank, uint32_t step, uint32_t to);
  void begin_receiving(uint32_t channel, uint32_t rank, uint32_t step, uint32_t from);
  void begin_border(Lane& own, uint32_t rank, uint64_t key);
  void free_senders_to(uint32_t rank);
  void use(Border& b);
  void emit(Border& b, uint64_t message, Time t);
  void lane_done(uint32_t rank, Time end);

  std::shared_ptr<const AllToAll> all_;
  std::shared_ptr<const PairHops> hops_;
  WireCost wire_;
  Duration step_cost_;
  std::optional<NodeWay> inside_;
  std::vector<Duration> entry_delay_;
  uint32_t n_;
  std::vector<Rank> ranks_;  ///< one more at the end
  std::vector<uint32_t> ways_out_;
  std::vector<Lane> lanes_;  ///< by channel and rank
  /// Rings of the last `depth_` batches of each lane; twice as many when more are asked for than
  /// ever before.
  std::vector<Began> began_;
  uint32_t depth_ = 16;
  bool waits_for_entries_ = false;     ///< some sender needs to know when its receiver enters
  std::vector<AllToAll::Part> parts_;  ///< of a pair over the network, then inside a node; if even
  std::array<Price, 64> prices_{};
  std::vector<uint32_t> work_;   ///< lanes whose batch is over
  std::vector<Border> borders_;  ///< by rank and connection
  PlanOutputs<Output> outputs_;
  DoneRanks done_;
};

}  // namespace understudy
