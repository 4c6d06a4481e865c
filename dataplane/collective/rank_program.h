// What waits for what inside ranks that carry out a schedule's operations, as NCCL's kernels do
// (collective_model/schedule/schedule.h):
//
// - A rank does nothing before it has entered the operation. Then the credits for the first window
//   of each connection that it receives on may leave.
// - A message to send is filled when the message before it on its connection is, when what it waits
//   for has happened, and when the message a window before it is acknowledged.
// - A received message is used when it may be (a step cost after it has come in whole) and what it
//   waits for has happened; then the credit for the message a window after it may leave.
// - Connections of one joint take a message each at the same moment, or none does.
// - Inside a node a message takes its bytes' time, behind the one before it on its connection, and
//   a latency; that its buffer is free again is known a latency later too. Or both take no time.
//
// The program knows no plan, no packet and no queue pair. Its owner tells it of entries, arrivals
// and acknowledgements, and hears what may start. It does not allocate after reserve() or begin().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "dataplane/base/units.h"

namespace understudy {

/// One end of a connection in one operation.
struct RankEnd {
  uint32_t operation = 0;
  uint32_t rank = 0;  ///< position among the program's ranks
  uint32_t connection = 0;
};

/// One rank's part in an operation, prepared for the program: it may serve any number of operations
/// that are alike.
class RankPart {
 public:
  /// In which order connections that can go on at one moment do so.
  enum class Order : uint8_t {
    kByConnection,  ///< all connections of the rank in turn
    kByChannel,     ///< channel by channel: no channel waits for another one
  };
  /// `far`: the other end of each connection, its rank as the program numbers ranks; those of
  /// connections over the network are not looked at. `schedule` outlives this object.
  RankPart(const RankSchedule& schedule, std::vector<FarEnd> far, Order order);

  const RankSchedule& schedule() const { return *schedule_; }
  const std::vector<Connection>& connections() const { return schedule_->connections(); }
  const FarEnd& far(uint32_t connection) const { return far_[connection]; }
  uint64_t messages() const { return messages_; }
  uint32_t ways_out() const { return ways_out_; }
  /// Connections that are looked at together.
  const std::vector<std::vector<uint32_t>>& groups() const { return groups_; }
  uint32_t group_of(uint32_t connection) const { return group_of_[connection]; }

 private:
  const RankSchedule* schedule_;
  std::vector<FarEnd> far_;
  std::vector<std::vector<uint32_t>> groups_;
  std::vector<uint32_t> group_of_;  ///< by connection
  uint64_t messages_ = 0;           ///< of all connections
  uint32_t ways_out_ = 0;
};

/// Hears what may start.
class RankProgramOwner {
 public:
  virtual ~RankProgramOwner() = default;
  /// Message `k` of a connection is filled: over the network it may leave once its credit has come.
  virtual void on_filled(const RankEnd& sender, uint64_t k, Time now) = 0;
  /// The rank is done with received message `k`: it may be overwritten from now on.
  virtual void on_used(const RankEnd& /*receiver*/, uint64_t /*k*/) {}
  /// The credit for message `k` of a connection over the network may leave.
  virtual void on_grantable(const RankEnd& receiver, uint64_t k, Time now) = 0;
  /// Something is on its way to `end` inside the node: RankProgram::passed() is to be called at
  /// `at`.
  virtual void on_passing(const RankEnd& end, Time at) = 0;
  /// The rank has done its part in the operation.
  virtual void on_done(uint32_t operation, uint32_t rank, Time now) = 0;
};

/// The programs of ranks that share nodes, or of all ranks of a job.
class RankProgram {
 public:
  /// `slots`: operations that can be in progress at a time; operation o has slot o % slots.
  /// `inside`: what ways inside a node take; without: no time.
  RankProgram(RankProgramOwner& owner, uint32_t ranks, uint32_t slots,
              const std::optional<NodeWay>& inside);

  /// Makes room for the part in every slot, so that begin() with it does not allocate.
  void reserve(uint32_t rank, const RankPart& part);
  /// Nothing of the rank's part has happened yet. The operation that had the slot is over.
  void begin(uint32_t operation, uint32_t rank, const RankPart& part);

  void enter(uint32_t operation, uint32_t rank, Time now);
  /// The next message of a connection may be used: it came in a step cost before.
  void arrived(const RankEnd& receiver, Time now);
  /// The next message that was sent on a connection is acknowledged.
  void acknowledged(const RankEnd& sender, Time now);
  /// What RankProgramOwner::on_passing() announced is there.
  void passed(const RankEnd& end, Time now);

 private:
  struct End {
    uint64_t done = 0;     ///< messages that the kernel is done with
    uint64_t arrived = 0;  ///< messages received that may be used
    uint64_t acked = 0;    ///< messages sent that are acknowledged
    Time way_free;         ///< inside the node: behind the sender's last message
  };
  struct State {
    const RankPart* part = nullptr;
    std::vector<End> ends;  ///< by connection
    uint64_t left = 0;      ///< messages that the kernel is not done with
    bool inside = false;    ///< the rank has entered
  };
  /// A group of a rank that may be able to go on.
  struct Look {
    uint32_t rank = 0, group = 0;
    bool operator==(const Look&) const = default;
  };

  State& state(uint32_t operation, uint32_t rank) {
    return states_[size_t{operation % slots_} * ranks_ + rank];
  }
  void look_at(uint32_t rank, uint32_t group);
  void settle(uint32_t operation, Time now);
  void settle(const RankEnd& end, Time now);
  bool advance(uint32_t operation, const Look& look, Time now);
  static bool ready(const State& s, uint32_t connection);
  static bool joint_ready(const State& s, std::span<const uint32_t> members, uint32_t connection);
  void finish(const RankEnd& end, Time now);
  void pass_inside(const RankEnd& end, uint64_t k, Time now);
  void hear_inside(const RankEnd& end);

  RankProgramOwner& owner_;
  const uint32_t ranks_, slots_;
  const std::optional<NodeWay> inside_;
  std::vector<State> states_;  ///< by slot and rank
  std::vector<Look> work_;     ///< each at most once
};

}  // namespace understudy
