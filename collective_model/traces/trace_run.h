// Carries traces out on communicators whose operations somebody else carries out: packets, rates, or
// given times. What each rank does when is the executor's; here are computations, memory, and which
// operation of a communicator a node is.
//
// In streams a send waits for its receive, as NCCL's do; by the feeders' rules it leaves at once, as
// ASTRA-sim's, and a receive ends when its message has come.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collective_model/traces/trace_communicators.h"
#include "collective_model/traces/trace_transfers.h"
#include "collective_model/workload/communicators.h"

namespace understudy {

struct TraceRunSettings {
  TraceRules rules = TraceRules::kStreams;
  TraceSystem system;
  TraceMemory memory;
  std::vector<double> slower;  ///< by rank: computations outside the CPU take so many times as long
  bool recorded = false;       ///< times of all nodes are kept
};

/// Operations of one kind, of all communicators.
struct TraceOperationTotals {
  uint64_t count = 0;
  double bytes = 0;  ///< as TraceNode has them, of one rank each
  Duration all;      ///< from the last rank's entry to the last one's end
  Duration longest;  ///< the same
  Duration waiting;  ///< from the first rank's entry to the last one's
};

class TraceRun final : public CommunicatorListener, private TraceNodeListener {
 public:
  struct Carried {
    OperationCarrier* carrier = nullptr;
    uint32_t number = 0;  ///< of the communicator there, which no other carrier has
  };
  /// `carried` is by communicator. All but it outlive this.
  TraceRun(const TraceJob& job, const TraceOrders& orders, const TraceRunSettings& settings,
           const TraceCommunicators& communicators, std::vector<Carried> carried);

  /// Before begin(): who calls advance() when it is time, unless advance_all() is used.
  void wake_with(std::function<void(Time)> wake) { wake_ = std::move(wake); }
  /// Before begin(): who hears of each operation that has ended, with its communicator: when the last rank
  /// had entered, and when it ended.
  using Ended = std::function<void(uint32_t communicator, Time from, Time to)>;
  void tell(Ended ended) { tell_ = std::move(ended); }
  void begin(Time now);
  /// What is due until `now`.
  void advance(Time now);
  /// To the end, where nothing but this has a clock.
  void advance_all();

  // CommunicatorListener
  void done(uint32_t communicator, uint32_t operation, uint32_t member, Time at) override;

  bool finished() const { return executor_.left() == 0; }
  double share_done() const;
  /// What cannot go on, or how it stands still; once nothing happens any more.
  std::string why_unfinished() const;

  const TraceExecutor& executor() const { return executor_; }
  /// Of computations outside the CPU.
  Duration computed(uint32_t rank) const { return computed_[rank]; }
  /// By collective; nothing: messages.
  const std::map<std::optional<TraceCollective>, TraceOperationTotals>& totals() const {
    return totals_;
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Event {
    Time at;
    uint32_t rank = 0, index = 0;
    bool transfer = false;  ///< the end of a memory node
    bool operator<(const Event& other) const {
      return std::tuple(at, rank, index) > std::tuple(other.at, other.rank, other.index);
    }
  };
  /// That has begun on some member and has not ended on all.
  struct Operation {
    uint32_t number = 0;  ///< of the carrier's
    uint32_t shape = 0;
    std::vector<uint32_t> nodes;  ///< by member, or kNone
    uint32_t entered = 0, ended = 0;
    Time first, last;  ///< of those who have entered
    Time end;
  };
  struct State {
    std::deque<Operation> operations;
    uint64_t before = 0;                           ///< that have ended
    std::vector<uint64_t> next;                    ///< by member: the next one that it enters
    std::unordered_map<uint32_t, uint64_t> place;  ///< by the carrier's number
  };
  /// Of messages with one key, by the feeders' rules.
  struct Meeting {
    std::deque<Time> arrived;       ///< that no receive has taken
    std::deque<uint32_t> receives;  ///< that no message has come for
  };

  // TraceNodeListener
  bool is_skipped(uint32_t rank, uint32_t index) override;
  void begins(uint32_t rank, uint32_t index, Time now) override;

  void compute(uint32_t rank, uint32_t index, const TraceNode& what, Time now);
  void ends_at(const Event& event);
  void transfer(const TraceTransfers::Transfer& what, Time now);
  void send_at_once(uint32_t rank, uint32_t index, const TraceNode& what, Time now);
  void arrived(uint32_t rank, const TraceNode& sent, Time at);
  void receive(uint32_t rank, uint32_t index, const TraceNode& what, Time now);
  /// The member's next operation of the communicator is of this shape; null: it is another one's.
  Operation* join(const TraceCommunicators::Place& place, Time now);
  void enter(uint32_t rank, uint32_t index, const TraceCommunicators::Place& place, Time now);
  void stop(std::string error);
  void count(uint32_t communicator, const Operation& operation);

  const TraceJob& job_;
  const TraceRunSettings& settings_;
  const TraceCommunicators& communicators_;
  const std::vector<Carried> carried_;
  std::unordered_map<uint32_t, uint32_t> numbers_;  ///< communicators by their carriers' numbers
  const TraceComputing computing_;
  TraceTransfers transfers_;
  TraceExecutor executor_;
  std::vector<State> states_;
  std::map<TraceMessageKey, Meeting> meetings_;
  std::priority_queue<Event> events_;  // its top is the earliest
  std::function<void(Time)> wake_;
  Ended tell_;
  Time woken_ = Time::never();  ///< the earliest that wake_ was asked for
  std::vector<Duration> computed_;
  std::map<std::optional<TraceCollective>, TraceOperationTotals> totals_;
  size_t all_ = 0;
  std::optional<std::string> error_;
};

}  // namespace understudy
