// The ranks of a job on one of `simulate`'s reference nodes, on our own requester: what NCCL's
// kernels and proxies do on its GPUs (docs/nccl 3.8 to 3.10). The rank program says what waits for
// what; here are the queue pairs, the credits and the contents of messages.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "dataplane/collective/collective_job.h"
#include "dataplane/collective/exact_values.h"
#include "dataplane/collective/rank_program.h"
#include "dataplane/collective/wire_lines.h"
#include "dataplane/nccl/nccl_connection.h"

namespace understudy {

class ReferenceRanks final : public Endpoint,
                             private RankProgramOwner,
                             private WorkloadListener,
                             private ExactValues::Reader {
 public:
  /// Memory of the ranks; all of it outlives this object.
  struct Memory {
    std::vector<const uint8_t*> received;  ///< exact: per link, that the far end writes to
    std::vector<uint8_t*> sent;            ///< exact: per link, of its sent_room()
    uint64_t input_seed = 0;               ///< of the real ranks' own contributions
    bool verifies = true;                  ///< exact: what has come, and results, are compared
  };

  /// What messages of a link leave from.
  struct SentRoom {
    uint64_t slots = 1;
    uint64_t bytes = 0;  ///< of a slot: the largest message's data
  };
  /// A window of each operation that the sender may be in before the receiver has taken any of it:
  /// who only sends, or passes on, may be ahead by all of them.
  static SentRoom sent_room(const CollectiveJob& job, uint32_t link);

  /// The node's ranks, positions in CollectiveJob::real.
  struct Own {
    uint32_t first = 0, end = 0;
  };

  /// Results hold the time from an operation's first entry to its last rank's end, of `own` ranks.
  ReferenceRanks(const CollectiveJob& job, CollectiveState& state, Own own,
                 CollectiveProgress& progress, const Memory& memory);

  /// What stands above a link's queue pair.
  Endpoint& endpoint(uint32_t link) { return ends_[link]; }
  NcclSender& sender(uint32_t link) { return links_[link].sender; }
  NcclReceiver& receiver(uint32_t link) { return links_[link].receiver; }

  static constexpr uint64_t kStart = 0;  ///< on_wake cookie: begin
  /// Before kStart: nothing leaves over the link before it joins.
  void await(uint32_t link) { links_[link].awaited = true; }
  /// on_wake cookie: its far end stands ready.
  static uint64_t joins(uint32_t link) { return cookie(WakeKind::kJoin, link); }

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  enum class WakeKind : uint64_t { kStart = 0, kEnter = 1, kUsable = 2, kInside = 3, kJoin = 4 };
  static uint64_t cookie(WakeKind kind, uint32_t index) {
    return static_cast<uint64_t>(kind) << 60 | index;
  }
  static uint64_t inside_cookie(const RankEnd& end) {
    return cookie(WakeKind::kInside, end.rank << 16 | end.connection) | uint64_t{end.operation}
                                                                            << 32;
  }
  static RankEnd end_of_cookie(uint64_t cookie) {
    const auto index = static_cast<uint32_t>(cookie);
    return {static_cast<uint32_t>(cookie >> 32 & 0xfffffff), index >> 16, index & 0xffff};
  }

  class End final : public Endpoint {
   public:
    End(ReferenceRanks& all, uint32_t link) : all_(all), link_(link) {}
    void on_received(Time now, Qp& qp, const Received& message) override;
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

   private:
    ReferenceRanks& all_;
    const uint32_t link_;
  };
  /// Contents of a link's messages, whose cookies are their numbers; exact, LL and LL128.
  class Lines final : public PayloadSource {
   public:
    Lines(ReferenceRanks& all, uint32_t link) : all_(all), link_(link) {}
    void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;

   private:
    ReferenceRanks& all_;
    const uint32_t link_;
  };
  struct Link {
    NcclSender sender;
    NcclReceiver receiver;
    // Messages of all operations.
    uint64_t due = 0;  ///< filled
    uint64_t sent = 0;
    bool leaves = false;  ///< it stands in leaving_
    bool awaited = false;
    uint64_t owed = 0;  ///< credits to be granted once it joins
    uint64_t received = 0, used = 0;
    LinkCursor sending, receiving, using_;
    SentRoom room;                    ///< exact
    std::vector<uint32_t> data;       ///< exact, by slot: bytes
    std::vector<Protocol> protocols;  ///< exact, by slot
  };
  struct Flight {
    uint32_t ranks_left = 0;  ///< own ones that are not done
    /// Exact: by link, the messages before this operation; by own rank and connection, what another
    /// rank of the node has filled, a window of messages.
    std::vector<uint64_t> base;
    std::vector<std::vector<std::vector<uint8_t>>> inside;
  };
  /// Of an own rank, exact.
  struct Values {
    std::vector<uint8_t> result;  ///< of the operation that it is in
    /// By connection: all messages of that operation, where old ones are asked for.
    std::vector<std::vector<uint8_t>> came;
  };

  // WorkloadListener: ranks of the job
  void may_enter(uint32_t operation, uint32_t rank, Time at) override;
  // RankProgramOwner
  void on_filled(const RankEnd& sender, uint64_t k, Time now) override;
  void on_used(const RankEnd& receiver, uint64_t k) override;
  void on_grantable(const RankEnd& receiver, uint64_t k, Time now) override;
  void on_passing(const RankEnd& end, Time at) override;
  void on_done(uint32_t operation, uint32_t real, Time now) override;

  void prepare();
  void begin(size_t operation);
  void enter(Time now, uint32_t real);
  void pass_inside(Time now, const RankEnd& end);
  void join(Time now, uint32_t link);
  void grant(Time now, uint32_t link, const RankEnd& receiver);
  uint64_t slot_offset(uint32_t link, uint64_t number) const {
    const SentRoom& room = links_[link].room;
    return number % room.slots * room.bytes;
  }
  void send_filled(Time now);
  void send_ready(Time now, uint32_t link);
  void usable(Time now, uint32_t link);
  void on_data(Time now, uint32_t link, uint32_t bytes);
  void on_acknowledged(Time now, uint32_t link, const CollectivePlace& place);

  // Exact: reference_ranks_exact.cc
  void prepare_values();
  void prepare_values(const RankSchedule& own, uint32_t real);
  void fill_message(const RankEnd& sender, uint64_t k);
  uint8_t* inside(size_t operation, uint32_t rank, uint32_t connection, uint64_t k);
  WireLines lines(size_t operation, uint32_t link) const;
  void take_in(uint32_t link, const CollectivePlace& place);
  void complete(const RankEnd& receiver, uint64_t k);
  void complete_all(uint32_t operation, uint32_t real);
  void verify(size_t operation, std::span<const uint8_t> seen, std::span<const uint8_t> right);
  const uint8_t* read(const ExactValues::Place& place, std::span<uint8_t> room) const override;
  const uint8_t* received(uint32_t link, uint64_t number) const {
    return memory_.received[link] + links_[link].receiver.offset(number);
  }

  Flight& flight(size_t operation) { return flights_[operation % job_.in_flight]; }
  const Flight& flight(size_t operation) const { return flights_[operation % job_.in_flight]; }
  const RankSchedule& schedule(size_t operation, uint32_t real) const {
    return *job_.operations[operation]->real[real];
  }
  uint32_t link_of(const RankEnd& end) const {
    return job_.operations[end.operation]->links[job_.real[end.rank]].at(end.connection);
  }
  /// The real rank's end of a link in an operation.
  RankEnd end_of(size_t operation, uint32_t link) const {
    return {static_cast<uint32_t>(operation), job_.real_index[job_.links[link].real],
            job_.operations[operation]->uses[link].real};
  }

  const CollectiveJob& job_;
  CollectiveState& state_;
  const Own own_;
  CollectiveProgress& progress_;
  Memory memory_;
  std::unique_ptr<ExactValues> values_;  ///< exact
  std::vector<Values> own_values_;       ///< exact: by own rank
  std::vector<uint8_t> seen_, right_;    ///< exact: room for messages
  std::vector<Link> links_;
  std::deque<End> ends_;
  std::vector<Lines> contents_;                                    ///< by link
  std::map<const CollectiveShape*, std::vector<RankPart>> parts_;  ///< of the own ranks, in order
  RankProgram program_;
  std::vector<Flight> flights_;
  std::vector<size_t> operation_;  ///< by real rank: that it is in, or enters next
  std::vector<Time> entry_;        ///< by real rank: of a next operation that must wait for others
  size_t first_ = 0;               ///< the oldest operation that is not finished
  size_t begun_ = 0;
  std::vector<uint32_t> leaving_;  ///< links with messages that were filled now
};

}  // namespace understudy
