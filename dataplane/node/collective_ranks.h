// The ranks of a job on one of `simulate`'s reference nodes, on our own requester: what NCCL's
// kernels and proxies do on its GPUs (nccl-wire 3.8 to 3.10; schedule.h says what waits for what).
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "dataplane/node/collective_job.h"
#include "dataplane/node/exact_ring.h"
#include "dataplane/node/nccl_connection.h"

namespace understudy {

class CollectiveRanks final : public Endpoint {
 public:
  /// Memory of the ranks; all of it outlives this object.
  struct Memory {
    std::vector<const uint8_t*> received;  ///< exact: per link, that the far end writes to
    std::vector<uint8_t*> sent;  ///< exact: per link, sent_slots() that messages leave from
    std::span<float> data;       ///< exact: the operation's buffer, in place
    uint64_t input_seed = 0;     ///< of the real ranks' own contributions
  };

  /// Messages that may be on their way at once: a window of each operation in flight.
  static constexpr uint64_t sent_slots(const CollectiveLink& link) {
    return uint64_t{link.slots} * CollectiveJob::kInFlight;
  }

  /// The node's ranks, positions in CollectiveJob::real.
  struct Own {
    uint32_t first = 0, end = 0;
  };

  /// Results hold the time from an operation's first entry to its last rank's end, of `own` ranks.
  CollectiveRanks(const CollectiveJob& job, Own own, CollectiveProgress& progress,
                  const Memory& memory);

  /// What stands above a link's queue pair.
  Endpoint& endpoint(uint32_t link) { return ends_[link]; }
  NcclSender& sender(uint32_t link) { return links_[link].sender; }
  NcclReceiver& receiver(uint32_t link) { return links_[link].receiver; }

  static constexpr uint64_t kStart = 0;  ///< on_wake cookie: all connections stand, begin

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  enum class WakeKind : uint64_t { kStart = 0, kEnter = 1, kUsable = 2, kInside = 3 };
  static uint64_t cookie(WakeKind kind, uint32_t index) {
    return static_cast<uint64_t>(kind) << 60 | index;
  }
  static uint64_t inside_cookie(size_t operation, uint32_t real, uint32_t connection) {
    return cookie(WakeKind::kInside, real << 16 | connection) | uint64_t{operation} << 32;
  }

  class End final : public Endpoint {
   public:
    End(CollectiveRanks& all, uint32_t link) : all_(all), link_(link) {}
    void on_received(Time now, Qp& qp, const Received& message) override;
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

   private:
    CollectiveRanks& all_;
    const uint32_t link_;
  };
  struct Link {
    NcclSender sender;
    NcclReceiver receiver;
    // Messages of all operations.
    uint64_t due = 0;  ///< filled
    uint64_t sent = 0;
    bool leaves = false;  ///< it stands in leaving_
    uint64_t received = 0, used = 0;
    LinkCursor sending, receiving, using_;
  };
  /// One connection of a rank in one operation.
  struct Side {
    uint64_t done = 0;     ///< messages that the kernel is done with
    uint64_t arrived = 0;  ///< of those received: may be used
    uint64_t acked = 0;
    Time way_free;  ///< inside the node: behind the last message
  };
  struct Part {
    std::vector<Side> sides;  ///< by connection
    uint64_t left = 0;        ///< messages that the kernel is not done with
    uint32_t ways_out = 0;
    bool inside = false;
  };
  struct Flight {
    std::vector<Part> parts;  ///< by real rank
    uint32_t ranks_left = 0;
  };

  void begin(size_t operation);
  void schedule_entry(Time now, uint32_t real);
  void enter(Time now, uint32_t real);
  void settle(Time now, size_t operation, uint32_t real);
  bool advance(Time now, size_t operation, uint32_t real);
  bool ready(size_t operation, uint32_t real, uint32_t connection);
  void done(Time now, size_t operation, uint32_t real, uint32_t connection);
  void complete(Time now, size_t operation, uint32_t real);
  void queue(uint32_t real);
  void pass_inside(Time now, size_t operation, uint32_t real, uint32_t connection, uint64_t k);
  void hear_inside(Time now, size_t operation, uint32_t real, uint32_t connection, bool alone);
  void fill_slot(uint32_t link, const Message& message);
  uint64_t slot_offset(uint32_t link, uint64_t number) const {
    return number % sent_slots(job_.links[link]) * job_.links[link].slot_bytes;
  }
  void send_ready(Time now, uint32_t link);
  void usable(Time now, uint32_t link);
  void on_data(Time now, uint32_t link, uint32_t bytes);
  void on_acknowledged(Time now, uint32_t link, const CollectivePlace& place);
  void take_in(uint32_t link, const CollectivePlace& place);
  uint64_t wrong_elements(size_t operation) const;

  Flight& flight(size_t operation) { return flights_[operation % CollectiveJob::kInFlight]; }
  const RankSchedule& schedule(size_t operation, uint32_t real) const {
    return *job_.operations[operation]->real[real];
  }
  uint32_t link_of(size_t operation, uint32_t real, uint32_t connection) const {
    return job_.operations[operation]->links[job_.real[real]].at(connection);
  }

  const CollectiveJob& job_;
  const Own own_;
  CollectiveProgress& progress_;
  Memory memory_;
  const ExactRing ring_;         ///< exact: there is one rank
  std::vector<uint64_t> seeds_;  ///< exact: by rank
  std::vector<Link> links_;
  std::deque<End> ends_;
  std::vector<Flight> flights_;
  std::vector<size_t> operation_;   ///< by real rank: that it is in, or enters next
  std::vector<EntryClock> clocks_;  ///< by real rank
  std::vector<Time> entry_;         ///< by real rank: of a next operation that must wait for others
  size_t first_ = 0;                ///< the oldest operation that is not finished
  size_t begun_ = 0;
  std::vector<uint32_t> leaving_;  ///< links with messages that are filled now
  std::vector<uint32_t> work_;     ///< real ranks to look at; each stands in it once at most
  std::vector<uint8_t> queued_;
};

}  // namespace understudy
