// What the two sides of a job beside a real node share: its operations, the connections between
// real and emulated ranks, and the results. Built by control, handed over by pointer. The job itself
// is unchanged while it runs; what changes stands beside it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collective_model/iteration/iteration.h"
#include "collective_model/plan/operation_plan.h"
#include "collective_model/schedule/schedule.h"
#include "collective_model/workload/executor.h"
#include "dataplane/base/units.h"
#include "dataplane/collective/inner_messages.h"
#include "dataplane/nccl/port_failover.h"

namespace understudy {

/// One of NCCL's network connections of a real rank: a queue pair at either end, for all operations
/// of the job. Between two real ranks there are two links, one for each end.
struct CollectiveConnection {
  static constexpr uint32_t kNoTwin = ~uint32_t{0};
  uint32_t real = 0, far = 0;          ///< ranks; the far one is emulated, or real with a twin
  uint32_t twin = kNoTwin;             ///< the link of the other end, between two real ranks
  uint32_t real_nic = 0, far_nic = 0;  ///< of the ranks' nodes
  uint32_t real_node = 0;              ///< position of the real rank's node in the job
  uint32_t channel = 0;
  uint8_t index = 0;  ///< as Connection::index
  bool real_sends = false;
  uint32_t slots = 1;       ///< most messages in flight
  uint32_t slot_bytes = 0;  ///< the largest credit
  /// Exact, of one that a real rank sends on: messages that must stay readable until what emulated
  /// ranks make of them has reached the next real rank.
  uint32_t kept = 0;
  Duration latency;  ///< from the real rank until the far one's program knows
  /// From when a message, or a credit, is handled until the far rank's program knows; the same of
  /// an acknowledgement (NicLimits::tail).
  Duration notice, ack_notice;
  Duration credit_time;  ///< of a few credits on the real rank's NIC

  bool among_real() const { return twin != kNoTwin; }
  /// Real ranks send on both by one NIC.
  bool shares_nic(const CollectiveConnection& other) const {
    return real_node == other.real_node && real_nic == other.real_nic;
  }
};

/// The same between two emulated ranks, whose messages the network carries.
struct InternalConnection {
  uint32_t from = 0, to = 0;  ///< ranks
  uint32_t channel = 0;
  uint8_t index = 0;  ///< as Connection::index
};

/// Which links a rank's connections are in an operation. Ranks may have many connections of which
/// few are links.
class RankLinks {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  void add(uint32_t connection, uint32_t link) {
    const std::pair<uint32_t, uint32_t> entry{connection, link};
    all_.insert(std::upper_bound(all_.begin(), all_.end(), entry), entry);
  }
  /// kNone if it is no link.
  uint32_t at(uint32_t connection) const {
    // Where all are links, each is in its place.
    if (connection < all_.size() && all_[connection].first == connection) {
      return all_[connection].second;
    }
    const auto it =
        std::lower_bound(all_.begin(), all_.end(), std::pair<uint32_t, uint32_t>{connection, 0});
    return it == all_.end() || it->first != connection ? kNone : it->second;
  }

 private:
  std::vector<std::pair<uint32_t, uint32_t>> all_;  ///< ascending
};

/// All ranks' parts, and the other ends of their connections: where values come from.
struct AllRanks {
  std::vector<std::shared_ptr<const RankSchedule>> ranks;
  std::vector<std::vector<FarEnd>> far;
};

/// An operation that may be carried out many times.
struct CollectiveShape {
  static constexpr uint32_t kUnused = RankLinks::kNone;
  /// What becomes of a link in it: the connection at either end, if there are messages.
  struct Use {
    uint32_t real = kUnused, far = kUnused;  ///< connections of these ranks
    uint64_t messages = 0;
  };
  uint32_t number = 0;                                    ///< of the job's shapes
  uint64_t bytes = 0;                                     ///< of the operation's buffer
  bool gathers = false;                                   ///< an all-gather over a ring
  std::vector<std::shared_ptr<const RankSchedule>> real;  ///< parts of the real ranks, in order
  std::vector<std::vector<FarEnd>> far;                   ///< of their connections
  std::vector<Use> uses;                                  ///< by link
  std::vector<RankLinks> links;                           ///< by rank
  /// Of inner links: the connections of their ranks, and these by rank and connection, kUnused
  /// where there is none.
  struct InnerUse {
    uint32_t from = kUnused, to = kUnused;
    uint64_t messages = 0;
  };
  std::vector<InnerUse> inner_uses;
  std::vector<std::vector<uint32_t>> inner;
  std::vector<std::shared_ptr<const RankSchedule>> ranks;  ///< all, if there are inner links
  /// Exact: null where every message is its sender's own.
  std::shared_ptr<const AllRanks> values;
};

struct CollectiveJob {
  static constexpr uint32_t kEmulated = ~uint32_t{0};

  /// Operations that ranks may be in at a time: none enters one before all have done the one that is
  /// so many before it. Where each rank needs all others two would do.
  size_t in_flight = 4;
  bool in_flight_suffices = true;    ///< false: NCCL's ranks may be in more
  std::vector<uint32_t> real;        ///< ranks, ascending
  std::vector<uint32_t> real_index;  ///< by rank: its position in `real`, or kEmulated
  std::vector<CollectiveConnection> links;
  /// Empty: what emulated ranks say to one another takes times.
  std::vector<InternalConnection> inner;
  std::vector<const CollectiveShape*> operations;
  /// Ranks enter an operation as the workload says. Otherwise real ranks are programs, and emulated
  /// ones enter as rank_entries.h says: a first credit of a real rank shows when that entered (where
  /// these only send, nothing does), and first credits of ranks that are no later leave ahead.
  bool scheduled = true;
  /// Not scheduled: a first credit says when the first operation begins, and nothing of later ones.
  bool by_program = false;
  std::vector<RankWork> work;  ///< by rank: what it does before its operations
  Duration step_cost;
  std::optional<NodeWay> inside;  ///< what ways inside the real node take; without: no time
  /// Payload is real data, which ranks move and reduce (exact_values.h).
  bool exact = false;
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp reduction = ReduceOp::kSum;
  uint64_t seed = 0;  ///< of the emulated ranks' contributions (dataplane/base/pattern.h)

  uint32_t ranks() const { return static_cast<uint32_t>(real_index.size()); }
  bool is_real(uint32_t rank) const { return real_index[rank] != kEmulated; }
  uint64_t messages(size_t operation, uint32_t link) const {
    return operations[operation]->uses[link].messages;
  }
  /// Messages of each link before those of an operation, which begins. `former`: before those of
  /// the one before it.
  void count_before(size_t operation, const std::vector<uint64_t>& former,
                    std::vector<uint64_t>& before) const {
    for (uint32_t l = 0; l < before.size(); ++l) {
      before[l] = operation == 0 ? 0 : former[l] + messages(operation - 1, l);
    }
  }
  const EntryStep& step(uint32_t rank, size_t operation) const {
    return work[rank].steps[operation];
  }
  /// The part of a link's real end in an operation.
  const RankSchedule& schedule(size_t operation, uint32_t link) const {
    return *operations[operation]->real[real_index[links[link].real]];
  }
  const Connection& connection(size_t operation, uint32_t link) const {
    return schedule(operation, link).connections()[operations[operation]->uses[link].real];
  }
  Message message(size_t operation, uint32_t link, uint64_t k) const {
    return schedule(operation, link).message(operations[operation]->uses[link].real, k);
  }
};

/// What of a job changes while it runs, but for its progress. Does not move: shards hold pointers
/// into it.
struct CollectiveState {
  /// Of an operation, and of those of the same shape after it: CollectiveJob::in_flight by shape,
  /// null where none of them takes it.
  std::vector<std::unique_ptr<Plan>> plans;
  std::unique_ptr<InnerMessages> carrier;  ///< of inner links; null without any
  /// Who says when ranks enter, those of reference nodes and scheduled emulated ones; and which of
  /// its groups the job is.
  WorkloadExecutor* workload = nullptr;
  uint32_t group = 0;

  static size_t place(const CollectiveJob& job, size_t operation) {
    return job.operations[operation]->number * job.in_flight + operation % job.in_flight;
  }
};

/// What one operation came to, written by the shard, read by control after `finished` counts it.
struct CollectiveResult {
  Time entry = Time::never();  ///< of the first rank
  Time end;                    ///< of the last one
  Duration lateness;  ///< most that departures on one chain of dependent messages were late in sum
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload of data messages
  uint64_t size_mismatches = 0;                 ///< messages whose length was not the schedule's
  /// Reference rank in exact mode: elements of messages that came, and of results, that differ in
  /// any bit; and wrong flags of LL and LL128.
  uint64_t wrong_elements = 0;
};

/// A message of a real rank that is not the schedule's.
struct OddMessage {
  uint32_t operation = 0, link = 0;
  uint32_t bytes = 0, expected = 0;
};

/// What an emulated rank waits for at a link with a real one.
struct LinkWait {
  enum class What : uint8_t { kData, kCredit, kAcknowledgement };
  What what = What::kData;
  uint32_t link = 0;
  uint64_t message = 0, messages = 0;  ///< its number in the operation, from 0, and how many it has
};

/// What an operation waits for that real ranks have begun.
struct StandingOperation {
  uint32_t operation = 0;
  uint32_t waits = 0;             ///< links at which something is missing
  std::array<LinkWait, 4> first;  ///< of these

  void begin(uint32_t number) {
    operation = number;
    waits = 0;
  }
  void add(const LinkWait& wait) {
    if (waits < first.size()) first[waits] = wait;
    ++waits;
  }
};

/// Progress of a job, shared between the shard that writes it and control.
struct CollectiveProgress {
  explicit CollectiveProgress(size_t operations) : results(operations) {}
  std::vector<CollectiveResult> results;
  std::atomic<uint32_t> finished{0};    ///< operations complete, in order
  std::atomic<uint32_t> entered{0};     ///< operations of which a real rank has shown something
  std::atomic<bool> failed{false};      ///< a queue pair of the job failed
  std::atomic<int64_t> failed_at{0};    ///< the first one, in picoseconds; before `failed` is set
  std::atomic<uint64_t> violations{0};  ///< messages of the real node that the protocol forbids
  std::atomic<uint64_t> registered{0};  ///< credits of its that name registered user memory
  std::atomic<uint64_t> held_back{0};   ///< entries that CollectiveJob::in_flight put off
  FailoverCounters failover;            ///< of NCCL's port failover, where it is on
  OddMessage odd;                       ///< the first one, written before `has_odd`
  std::atomic<bool> has_odd{false};
  std::atomic<uint64_t> moved{0};  ///< messages, credits and acknowledgements of real ranks
  StandingOperation standing;      ///< written before `has_standing` when control asks for it
  std::atomic<bool> has_standing{false};
  /// 1 and the link whose real rank grants more than all operations need.
  std::atomic<uint32_t> goes_on{0};

  bool over() const { return failed || finished == results.size(); }
  /// By the shard.
  void fail(Time now) {
    if (failed) return;
    failed_at = now.ps();
    failed = true;
  }
};

/// Where a message stands in its link's sequence over all operations.
struct CollectivePlace {
  size_t operation = 0;
  uint64_t message = 0;
};

/// Walks along one link's messages.
class LinkCursor {
 public:
  /// The next message; false behind the last one.
  bool at(const CollectiveJob& job, uint32_t link, CollectivePlace& place) {
    return at(job.operations.size(), place, [&](size_t o) { return job.messages(o, link); });
  }
  /// The same of an inner link.
  bool at_inner(const CollectiveJob& job, uint32_t inner, CollectivePlace& place) {
    return at(job.operations.size(), place,
              [&](size_t o) { return job.operations[o]->inner_uses[inner].messages; });
  }
  void step() { ++place_.message; }
  /// Where it is: its message may be one behind an operation's last one.
  const CollectivePlace& place() const { return place_; }

 private:
  template <typename Messages>
  bool at(size_t operations, CollectivePlace& place, Messages messages) {
    while (place_.operation < operations && place_.message == messages(place_.operation)) {
      ++place_.operation;
      place_.message = 0;
    }
    place = place_;
    return place_.operation < operations;
  }

  CollectivePlace place_;
};

/// Ids of work requests name the message.
constexpr uint64_t message_id(const CollectivePlace& place) {
  return uint64_t{place.operation} << 40 | place.message;
}
constexpr CollectivePlace place_of_id(uint64_t id) {
  return {static_cast<size_t>(id >> 40), id & ((uint64_t{1} << 40) - 1)};
}

}  // namespace understudy
