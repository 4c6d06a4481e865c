// The plan of one ring all-reduce on one channel: when the emulated ranks next to a real rank may
// send data and grant credits. All emulated ranks between two real ranks are folded into one
// recurrence, evaluated exactly (integer picoseconds) as the real ranks' messages arrive.
//
// Every rank, real or emulated, runs NCCL's kernel in order. With r+1 its successor, J = 2(n-1)
// and m = (loop*J + step)*2 + slice:
//   process(r,m)  = max(entry(r), r's previous operation, acked(r,m-4),
//                   for step >= 1: arrival of message m-2 at r, + step cost)
//   copy_out(r,i) = max(r's previous operation, arrival of message i at r, + step cost), for the
//                   messages i of a loop's last step; the next loop follows both of them.
//   start(r,m)    = max(process(r,m), end(r,m-1), credit_arrival(r,m))
//   end(r,m)      = start(r,m) + wire time of the message.
//   arrival       = end + latency, at r+1.
//   acked(r,m)    = arrival + latency.
//   grant(r,m)    = entry(r+1) for m < 4, else when r+1 used message m-4: process(r+1,m-2), or
//                   copy_out(r+1,m-4). The credit reaches r at grant + latency.
// The step cost is a delay, not an occupied resource: a GPU reduces as a pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collective_model/ring_schedule.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

/// The way from a rank to its successor; credits and acknowledgements take it backwards and are
/// charged its latency only.
struct RingHop {
  Rate rate;
  Duration latency;  ///< one way
};

/// Bytes that a message takes on the wire.
struct WireCost {
  uint32_t mtu = 4096;  ///< payload bytes per packet
  /// Every packet: Ethernet 14 + FCS 4 + preamble and gap 20, IPv4 20, UDP 8, BTH 12, ICRC 4.
  /// IPv6: 102. Each VLAN tag: 4 more.
  uint32_t overhead = 82;
  uint32_t first_extra = 16;  ///< RETH in a message's first packet
  uint32_t last_extra = 4;    ///< immediate in its last one

  constexpr uint64_t packets(uint64_t size) const { return size == 0 ? 1 : (size + mtu - 1) / mtu; }
  constexpr uint64_t bytes(uint64_t size) const {
    return size + packets(size) * overhead + first_extra + last_extra;
  }
};

/// What a plan is made from.
struct RingPlanConfig {
  RingSchedule schedule;
  /// hops[r]: from rank r to rank r+1 mod n.
  std::vector<RingHop> hops = {};
  /// Of each rank after the operation's entry; empty: none.
  std::vector<Duration> entry_delay = {};
  /// Ranks that are not emulated.
  std::vector<uint32_t> real = {};
  WireCost wire = {};
  /// From a message's arrival until its data are reduced or copied.
  Duration step_cost = {};
  /// The first 4 credits were granted long before the entry. Otherwise a rank grants them when it
  /// enters, and the operation takes one latency longer.
  bool credits_preposted = false;
};

/// An immutable plan; shared by pointer with the shard that runs it.
class RingPlan {
 public:
  /// Fails, naming the field, when the numbers of ranks do not fit together.
  static Result<RingPlan> make(RingPlanConfig config);

  const RingSchedule& schedule() const { return config_.schedule; }
  uint32_t ranks() const { return config_.schedule.ranks(); }
  const RingHop& hop(uint32_t rank) const { return config_.hops[rank]; }
  Duration entry_delay(uint32_t rank) const { return config_.entry_delay[rank]; }
  bool is_real(uint32_t rank) const { return is_real_[rank] != 0; }
  uint32_t next(uint32_t rank) const { return rank + 1 == ranks() ? 0 : rank + 1; }
  uint32_t previous(uint32_t rank) const { return rank == 0 ? ranks() - 1 : rank - 1; }
  const WireCost& wire() const { return config_.wire; }
  Duration step_cost() const { return config_.step_cost; }
  bool credits_preposted() const { return config_.credits_preposted; }
  const RingPlanConfig& config() const { return config_; }

 private:
  explicit RingPlan(RingPlanConfig config);

  RingPlanConfig config_;
  std::vector<uint8_t> is_real_;
};

/// What crosses from the emulated ranks to a real one.
struct PlanOutput {
  enum class Kind : uint8_t {
    kData,    ///< `rank`, whose successor is real, may start to send `message` at `time`
    kCredit,  ///< `rank`, whose predecessor is real, grants it the credit for `message` at `time`
  };
  Kind kind = Kind::kData;
  uint32_t rank = 0;
  uint32_t message = 0;
  uint32_t size = 0;  ///< bytes of the message (of the message that a credit is for)
  Time time;          ///< kLongBefore: at once
};

/// The time of a preposted credit: no constraint, yet safe to add delays to.
inline constexpr Time kLongBefore = Time::from_ps(-(int64_t{1} << 60));

/// One operation's progress under a plan. Owned by one shard. Allocates at construction only; an
/// input costs O(1) for each message between emulated ranks that it sets free.
///
/// Data outputs leave out what the transport and the fabric enforce: the real rank's credit, and
/// the sender's own link. That is why its only inputs are the real ranks' data and the
/// acknowledgements of what was sent to them. Feed inputs in the order of their times: outputs are
/// then never earlier than the input that set them free.
class PlanRun {
 public:
  explicit PlanRun(uint32_t max_ranks);

  /// Starts an operation; `plan` (of at most max_ranks ranks) must outlive it. Rank r enters at
  /// `entry` + its delay, but not before it completed the operation that ran here before. The
  /// real ranks' own entries show in their messages.
  void reset(const RingPlan& plan, Time entry);

  /// Message `m` of real rank `rank` has wholly arrived at its emulated successor at `t`. False,
  /// and ignored, when it is not the next one or has no credit.
  bool on_real_data(uint32_t rank, uint32_t m, Time t);
  /// Emulated rank `rank`, whose successor is real, got the acknowledgement of its messages up to
  /// and with `m` at `t`. False, and ignored, when it is not outstanding.
  bool on_env_acked(uint32_t rank, uint32_t m, Time t);
  /// Takes the next output. In message order per rank and kind, but not in time order over ranks.
  bool next(PlanOutput& out);

  /// True when every emulated rank has received and used everything.
  bool finished() const { return unfinished_ == 0; }
  /// When emulated rank `rank` completed its part; Time::never() before that is known.
  Time completion(uint32_t rank) const;

 private:
  static constexpr uint32_t kWindow = RingSchedule::kWindow;
  using Window = std::array<Time, kWindow>;  // of message m at m % kWindow

  struct Rank {
    Time now;                // of its last operation
    Time wire_free;          // end of the last message it sent
    uint32_t loop_base = 0;  // first message of the loop it is in
    uint32_t op = 0;         // 0 .. 2J+1: 2J sends (from op 2 on each uses a receive), 2 copies out
    uint32_t received = 0;   // counts of messages whose time is known
    uint32_t processed = 0;
    uint32_t credits = 0;
    uint32_t acked = 0;
    uint32_t taken_data = 0;  // outputs that the caller has taken
    uint32_t taken_credits = 0;
    Window arrival;
    Window process;
    Window credit;
    Window ack;
    std::array<uint32_t, RingSchedule::kSlices> wire_size{};  // wire times that were computed last
    std::array<Duration, RingSchedule::kSlices> wire_time{};
    bool queued = false;

    uint32_t used() const { return loop_base + (op < 2 ? 0 : op - 2); }  // receives
  };

  void settle();
  void advance(uint32_t rank);
  bool operate(uint32_t rank);
  void send(uint32_t rank);
  void grant(uint32_t rank, uint32_t m, Time t);
  void wake(uint32_t rank);
  void emit(PlanOutput::Kind kind, uint32_t rank, uint32_t m, Time t);
  Duration wire_time(uint32_t rank, uint32_t m);

  const RingPlan* plan_ = nullptr;
  uint32_t unfinished_ = 0;
  std::vector<Rank> ranks_;
  std::vector<uint32_t> work_;  // stack of ranks to look at; a rank stands in it at most once
  uint32_t work_size_ = 0;
  std::vector<PlanOutput> outputs_;  // ring; at most 8 per real rank are not taken
  uint32_t output_head_ = 0;
  uint32_t output_count_ = 0;
};

}  // namespace understudy
