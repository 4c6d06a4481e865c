// The plan of any operation: all emulated ranks are folded into one sequence of messages and
// credits to the real ranks. The recurrence is evaluated exactly (integer picoseconds) as the real
// ranks' messages arrive, for any schedule (schedule.h) and any set of real ranks. An input costs
// O(1) for each message between emulated ranks that it sets free: as many as there are ranks, at
// worst. PAT and send/recv between all pairs have no cheaper form here: there every rank waits for
// ranks at many distances, so that one that is late is felt by all others, each at another moment.
//
// Every rank, real or emulated, does what RankSchedule says. For an emulated one, with w the window
// of a connection:
//
// clang-format off
//   done(k)    = max( entry,
//                     done(k - 1),
//                     arrival(k) + step cost      for a connection that receives,
//                     acked(k - w)                for a connection that sends,
//                     of each message that message k waits for: done, or arrival + step cost )
//   start(k)   = max( done(k), end(k - 1), arrival of credit k )    for a connection that sends
//   end(k)     = start(k) + wire time
//   arrival(k) = end(k) + latency
//   acked(k)   = arrival(k) + latency    (or what NICs take beside: Hop)
//   credit(k)  = entry           for k < w,
//                done(k - w)     of the receiver otherwise; it arrives a latency later
// clang-format on
//
// The connections of one joint are done with message k at the same moment, the latest of theirs.
// Each connection has its own rate, a share of its link where several use it. Ways inside a node
// take no time, and a message's buffer there is free when it has been used; or they take the same
// (PlanInput::inside), without credits, and a buffer is free a latency after it was used.
//
// The times of a connection's last messages are kept, as many as can be asked for: none of its
// moments is more than a window ahead of the others.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collective_model/plan/operation_plan.h"
#include "collective_model/plan/plan_queues.h"
#include "collective_model/schedule/schedule.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

/// The general evaluator.
class GeneralPlan : public Plan {
 public:
  /// Fails, naming the field, when the numbers do not fit together.
  static Result<GeneralPlan> make(PlanInput config);
  /// The same with every rank emulated: what an operation takes when nothing but the model delays
  /// it. No input is needed, and there is no output.
  static Result<GeneralPlan> make_ideal(PlanInput config);

  void start(Time entry) override;
  void begin() override;
  void enter(uint32_t rank, Time entry) override;
  bool on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) override;
  bool on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) override;
  bool next(PlanOutput& out) override;

  bool finished() const override { return done_.unfinished() == 0; }
  bool next_done(uint32_t& rank) override { return done_.next(rank); }
  Time completion(uint32_t rank) const override {
    return parts_[rank].left == 0 && !parts_[rank].entry.is_never() ? parts_[rank].last
                                                                    : Time::never();
  }
  /// When message `k` of a connection between emulated ranks was acknowledged: of the last window
  /// of those that are.
  Time acknowledged(uint32_t rank, uint32_t connection, uint64_t k) const {
    return at(ends_[parts_[rank].first_end + connection].acked, k);
  }

 private:
  /// Times by message, the last ones of those that are known.
  struct Times {
    uint32_t first = 0, mask = 0;  ///< in times_
    uint64_t size = 0;             ///< known, the forgotten ones included
  };
  struct End {
    // What ready() found, or was missing last: more than so many of an end's moments.
    Time ready = Time::never();
    const uint64_t* missing = nullptr;
    uint64_t missing_index = 0;
    uint32_t joint = 0;
    bool follows = false;  ///< another one of the joint stands for it
    bool alone = false;    ///< there is no other
    bool real = false;     ///< the other end's rank is, or the fabric is between them
    bool sends = false, network = false;
    uint32_t peer = 0;  ///< the other end
    uint32_t rank = 0, connection = 0;
    uint32_t group = 0;
    uint32_t window = 0;
    uint64_t messages = 0;
    Times done, arrival, acked, credit;
    uint64_t sent = 0;   ///< messages whose start is known
    uint64_t taken = 0;  ///< outputs that the caller has
    Time wire_free;
    // Of messages up to `alternates`, by the lowest bit of their number.
    std::array<Duration, 2> wire_time{};
    uint64_t alternates = 0;
    Hop hop;
  };
  /// A rank's connections of one channel: what it does there depends on no other.
  struct Group {
    uint32_t rank = 0;
    uint32_t first = 0, end = 0;  ///< in members_
    bool queued = false;
  };
  struct Part {
    Time entry = Time::never();
    Time last;  ///< the latest that it was done with a message
    uint64_t left = 0;
    uint32_t first_end = 0, first_group = 0;
    uint32_t ways_out = 0;
    bool real = false;
  };

  explicit GeneralPlan(PlanInput config);
  const std::vector<Connection>& connections(uint32_t rank) const {
    return config_.ranks[rank]->connections();
  }
  static Result<GeneralPlan> checked(PlanInput config);
  bool join_ends();
  void make_groups();
  void make_times();
  void wake(uint32_t group);
  void settle();
  void advance(const Group& group);
  /// When the connection can be done with its next message; never() if that is not known yet.
  Time ready(End& end);
  /// Whether what ready() missed last is still missing.
  static bool waits(const End& end) {
    return end.missing != nullptr && *end.missing <= end.missing_index;
  }
  /// Whether message `k` is not among an end's known moments; what waits for it is told.
  static bool misses(End& end, const Times& times, uint64_t k) {
    if (k < times.size) return false;
    end.missing = &times.size;
    end.missing_index = k;
    return true;
  }
  void done(End& end, Time t);
  void send(End& end);
  void pass_inside(End& end, uint64_t k, Time t);
  void grant(End& end, uint64_t k, Time t);
  void emit(PlanOutput::Kind kind, const End& end, uint64_t k, Time t);
  Duration wire_time(End& end, uint64_t k);

  Time at(const Times& times, uint64_t k) const { return times_[times.first + (k & times.mask)]; }
  void push(Times& times, Time t) { times_[times.first + (times.size++ & times.mask)] = t; }

  PlanInput config_;
  std::vector<Part> parts_;  ///< by rank; one more at the end
  std::vector<End> ends_;    ///< by rank and connection
  std::vector<Group> groups_;
  std::vector<uint32_t> members_;  ///< ends, by group
  std::vector<Time> times_;
  std::vector<uint32_t> work_;  ///< groups to look at, each at most once
  PlanOutputs<PlanOutput> outputs_;
  DoneRanks done_;
};

}  // namespace understudy
