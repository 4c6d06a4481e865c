// All emulated ranks of a job, as its real ranks meet them: what the plan says crosses to the real
// ranks leaves here over NCCL's connections, and what comes from these is told to the plan.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "dataplane/node/collective_job.h"
#include "dataplane/node/collective_lateness.h"
#include "dataplane/node/collective_moments.h"
#include "dataplane/node/exact_ring.h"
#include "dataplane/node/nccl_connection.h"

namespace understudy {

class CollectiveEnvironment final : public Endpoint, public InnerListener {
 public:
  /// `received`: in exact mode, per link that comes from a real rank, the memory it writes to
  /// (exact_slots() messages); otherwise null. All of it outlives this object.
  CollectiveEnvironment(const CollectiveJob& job, CollectiveProgress& progress,
                        const std::vector<const uint8_t*>& received);

  /// What stands above a link's queue pair.
  Endpoint& endpoint(uint32_t link) { return ends_[link]; }
  NcclSender& sender(uint32_t link) { return links_[link].sender; }
  NcclReceiver& receiver(uint32_t link) { return links_[link].receiver; }
  /// Contents of message `id` (message_id()) of a link, exact mode.
  const PayloadSource& contents(uint32_t link) const { return ends_[link]; }

  /// Before the run: keeps moments there, which has room for every message and outlives this.
  void record(CollectiveMoments& moments) { moments_ = &moments; }

  /// Messages that must stay readable until what depends on them is acknowledged (exact mode).
  static uint32_t exact_slots(uint32_t ranks) { return 2 * ranks + 8; }

  static constexpr uint64_t kStart = 0;  ///< on_wake cookie: the operations may begin
  /// on_wake cookies: the link's connection, which its sender or receiver has been told, stands
  /// now, before kStart or after it; it is no more, for ever.
  static uint64_t joins(uint32_t link) { return cookie(WakeKind::kJoin, link); }
  static uint64_t leaves(uint32_t link) { return cookie(WakeKind::kLeave, link); }

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

  // InnerListener: of CollectiveJob::inner
  void inner_received(uint32_t inner, Time now) override;
  void inner_acknowledged(uint32_t inner, Time now) override;

 private:
  enum class WakeKind : uint64_t {
    kStart = 0,
    kData = 1,
    kCredit = 2,
    kInnerData = 3,
    kInnerCredit = 4,
    kJoin = 5,
    kLeave = 6
  };
  static uint64_t cookie(WakeKind kind, uint32_t link) {
    return static_cast<uint64_t>(kind) << 32 | link;
  }

  class End final : public Endpoint, public PayloadSource {
   public:
    End(CollectiveEnvironment& all, uint32_t link) : all_(all), link_(link) {}
    void on_received(Time now, Qp& qp, const Received& message) override;
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;
    void on_transmitted(Time scheduled, Time actual, Qp& qp, uint64_t id) override;
    void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;

   private:
    CollectiveEnvironment& all_;
    const uint32_t link_;
  };
  struct Link {
    NcclSender sender;
    NcclReceiver receiver;
    bool joined = false;
    uint32_t owed = 0;  ///< credits whose time came before
    // Messages of all operations.
    uint64_t due = 0;  ///< whose planned time has come
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t planned = 0, acknowledged = 0;
    LinkCursor sending, receiving;
    // Exact payload.
    const uint8_t* memory = nullptr;  ///< that the real rank writes to
    ExactRing ring;                   ///< what is sent, and from where
    uint32_t partner = 0;             ///< that comes from the real rank before, of its channel
    uint64_t base = 0;                ///< messages before those of the operation that it sends in
    size_t base_operation = 0;
  };
  /// Of messages between two emulated ranks.
  struct Inner {
    LinkCursor posting, receiving, acknowledging;
  };
  /// Data whose time the plan has told.
  struct Leaving {
    Time at;
    uint64_t cookie = 0;
  };
  struct Flight {
    explicit Flight(const CollectiveJob& job) : lateness(job, job.operations) {}
    CollectiveLateness lateness;
    bool entered = false;  ///< !scheduled: a real rank has shown that it did
    Time entry;            ///< its
    uint64_t to_acknowledge = 0, acknowledged = 0;
    Duration heard;  ///< most lateness of real ranks' messages
  };
  /// An emulated rank on its way through the operations.
  struct Rank {
    EntryClock clock;
    size_t operation = 0;  ///< that it is in, or enters next
    Time free;             ///< when it was done with the one before
    bool inside = false;
    bool credited = false;  ///< !scheduled: its first credits were scheduled
  };

  void chain(uint32_t link);
  void start(Time now);
  void join(Time now, uint32_t link);
  void begin(Time now);
  void try_enter(Time now, uint32_t rank);
  bool is_ahead(uint32_t rank, size_t operation) const;
  void credit_ahead(Time now, uint32_t rank);
  void real_entered(Time now, uint32_t link, size_t operation);
  void settle(Time now, size_t operation, Duration carried);
  bool pump(Time now, size_t operation, Duration carried);
  void finish(Time now);
  void send_due(Time now, uint32_t link);
  void post_inner(Time now, uint32_t inner);
  void on_credit(Time now, uint32_t link);
  void on_data(Time now, uint32_t link, uint32_t bytes);
  void on_acknowledged(Time now, uint32_t link, const CollectivePlace& place);
  void grant(Time now, uint32_t link);
  /// Of message `k`; null where nobody wants them.
  MessageMoments* moments(uint32_t link, uint64_t k) {
    return moments_ == nullptr ? nullptr : &(*moments_)[link][k];
  }
  void fill(uint32_t link, const CollectivePlace& place, uint64_t offset,
            std::span<uint8_t> out) const;

  Flight& flight(size_t operation) { return flights_[operation % CollectiveJob::kInFlight]; }
  Plan& plan(size_t operation) {
    return *job_.operations[operation]->plans[operation % CollectiveJob::kInFlight];
  }
  uint32_t plan_connection(size_t operation, uint32_t link) const {
    return job_.operations[operation]->uses[link].far;
  }

  const CollectiveJob& job_;
  CollectiveProgress& progress_;
  std::vector<Link> links_;
  std::deque<End> ends_;
  std::vector<Inner> inner_;
  std::vector<std::vector<uint32_t>> links_of_;  ///< by emulated rank: those that come to it
  std::vector<Rank> ranks_;
  std::vector<Leaving> leaving_;  ///< empty between calls
  std::vector<Flight> flights_;
  size_t first_ = 0;  ///< the oldest operation that is not finished
  CollectiveMoments* moments_ = nullptr;
  WaitCause cause_ = WaitCause::kEntry;  ///< of what is going on
  size_t begun_ = 0;                     ///< operations that ranks may enter
};

}  // namespace understudy
