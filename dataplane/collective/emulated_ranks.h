// All emulated ranks of a job whose operations are planned before the run, as its real ranks meet
// them: what the plan lets cross to the real ranks leaves here over NCCL's connections, and what
// comes from these goes into the plan.
#pragma once

#include <optional>
#include <vector>

#include "dataplane/collective/collective_job.h"
#include "dataplane/collective/collective_lateness.h"
#include "dataplane/collective/collective_moments.h"
#include "dataplane/collective/emulated_connections.h"
#include "dataplane/collective/exact_values.h"
#include "dataplane/collective/rank_entries.h"

namespace understudy {

class EmulatedRanks final : public Endpoint,
                            public InnerListener,
                            private EmulatedConnections::Listener,
                            private WorkloadListener,
                            private ExactValues::Reader {
 public:
  /// `received`: in exact mode, per link that comes from a real rank, the memory it writes to
  /// (CollectiveConnection::kept messages); otherwise null. All of it outlives this object.
  EmulatedRanks(const CollectiveJob& job, CollectiveState& state, CollectiveProgress& progress,
                const std::vector<const uint8_t*>& received);

  /// Their wake-ups are this object's.
  EmulatedConnections& connections() { return connections_; }

  /// Before the run: keeps moments there, which has room for every message and outlives this.
  void record(CollectiveMoments& moments) { moments_ = &moments; }

  // Cookies of on_wake():
  static constexpr uint64_t kStart = 0;  ///< the operations may begin
  /// Writes CollectiveProgress::standing.
  static constexpr uint64_t kLook = uint64_t{6} << 32;
  /// The real ranks have gone; nothing is asked of it any more.
  static constexpr uint64_t kForget = uint64_t{7} << 32;

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

  // InnerListener: of CollectiveJob::inner
  void inner_received(uint32_t inner, Time now) override;
  void inner_acknowledged(uint32_t inner, Time now) override;
  void inner_reaches(uint32_t flow, Time at) override;

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  enum class WakeKind : uint64_t {
    kStart = 0,
    kData = 1,
    kInnerData = 2,
    kInnerCredit = 3,
    kEnter = 4,
    kInnerReaches = 5,
    kLook = 6,
    kForget = 7
  };
  static uint64_t cookie(WakeKind kind, uint32_t link) {
    return static_cast<uint64_t>(kind) << 32 | link;
  }

  /// Contents of a link's messages, whose cookies are their message_id()s; exact mode.
  class Contents final : public PayloadSource {
   public:
    Contents(EmulatedRanks& all, uint32_t link) : all_(all), link_(link) {}
    void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;

   private:
    EmulatedRanks& all_;
    const uint32_t link_;
  };
  struct Link {
    // Messages of all operations.
    uint64_t due = 0;  ///< whose planned time has come
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t planned = 0, acknowledged = 0;
    LinkCursor sending, receiving;
    const uint8_t* memory = nullptr;  ///< exact: that the real rank writes to
  };
  /// Progress of the messages between two emulated ranks.
  struct Inner {
    LinkCursor posting, receiving, acknowledging;
  };
  /// Data whose time the plan has given.
  struct Leaving {
    Time at;
    uint64_t cookie = 0;
  };
  struct Flight {
    explicit Flight(const CollectiveJob& job) : lateness(job, job.operations) {}
    CollectiveLateness lateness;
    bool entered = false;      ///< ranks may: a real one has shown that it did, or need not
    RankEntries::Shown shown;  ///< !scheduled
    uint64_t to_acknowledge = 0, acknowledged = 0;
    Duration heard;  ///< most lateness of real ranks' messages
    /// Exact: by link, the messages before this operation.
    std::vector<uint64_t> base;
  };
  /// An emulated rank on its way through the operations.
  struct Rank {
    size_t operation = 0;        ///< that it is in, or enters next
    Time free;                   ///< when it was done with the one before
    Time entry = Time::never();  ///< scheduled: of the next one, once it is known
    bool inside = false;
    bool credited = false;  ///< !scheduled: its first credits were scheduled
  };

  void start(Time now);
  void begin(Time now);
  void try_enter(Time now, uint32_t rank);
  void tell_begin(Time now);
  void tell_done(uint32_t rank, size_t operation);
  bool is_shown(size_t operation) const;
  bool is_sending(uint32_t link, size_t operation);
  bool is_ahead(uint32_t rank, size_t operation) const;
  void credit_ahead(Time now, uint32_t rank);
  void real_entered(Time now, uint32_t link, size_t operation);
  void settle(Time now, size_t operation, Duration carried);
  bool pump(Time now, size_t operation, Duration carried);
  void finish(Time now);
  void send_due(Time now, uint32_t link);
  void look();
  std::optional<LinkWait> wait_of(uint32_t link) const;
  void note_odd(const CollectivePlace& place, uint32_t link, uint32_t bytes, uint32_t expected);
  void post_inner(Time now, uint32_t inner);
  // WorkloadListener
  void may_enter(uint32_t operation, uint32_t rank, Time at) override;
  // EmulatedConnections::Listener
  void on_credit(Time now, uint32_t link) override;
  void on_data(Time now, uint32_t link, uint32_t bytes) override;
  void on_acknowledged(Time now, uint32_t link, uint64_t id) override;
  void on_left(Time scheduled, Time actual, uint32_t link, uint64_t id) override;
  void on_granted(Time now, uint32_t link, uint64_t k) override;

  /// The moments of message `k`; null where nobody wants them.
  MessageMoments* moments(uint32_t link, uint64_t k) {
    return moments_ == nullptr ? nullptr : &(*moments_)[link][k];
  }
  void fill(uint32_t link, const CollectivePlace& place, uint64_t offset, std::span<uint8_t> out);
  // ExactValues::Reader
  const uint8_t* read(const ExactValues::Place& place, std::span<uint8_t> room) const override;

  Flight& flight(size_t operation) { return flights_[operation % job_.in_flight]; }
  const Flight& flight(size_t operation) const { return flights_[operation % job_.in_flight]; }
  Plan& plan(size_t operation) { return *state_.plans[CollectiveState::place(job_, operation)]; }
  uint32_t plan_connection(size_t operation, uint32_t link) const {
    return job_.operations[operation]->uses[link].far;
  }

  const CollectiveJob& job_;
  CollectiveState& state_;
  CollectiveProgress& progress_;
  EmulatedConnections connections_;
  std::optional<RankEntries> entries_;  ///< !scheduled
  std::vector<Link> links_;
  std::vector<Contents> contents_;       ///< by link; exact mode only
  std::unique_ptr<ExactValues> values_;  ///< exact mode only
  std::vector<Inner> inner_;
  std::vector<std::vector<uint32_t>> links_of_;  ///< by emulated rank: those that come to it
  std::vector<Rank> ranks_;
  std::vector<Leaving> leaving_;  ///< empty between calls
  std::vector<Flight> flights_;
  size_t first_ = 0;  ///< the oldest operation that is not finished
  CollectiveMoments* moments_ = nullptr;
  WaitCause cause_ = WaitCause::kEntry;  ///< of what is going on
  size_t begun_ = 0;                     ///< operations that ranks may enter
  uint32_t telling_ = kNobody;           ///< rank of which the workload is being told
};

}  // namespace understudy
