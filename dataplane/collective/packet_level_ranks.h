// All ranks of a collective's operations, message by message: each rank fills, receives and uses
// messages as NCCL's kernel and proxy do, and each message and each credit is a flow, carried by
// packets or as a rate (flow_carrier.h). No rank is folded and nothing is planned: this is what plans are measured
// against, and what a job without a real node runs on. Over merged NICs each part of a message is a
// flow, and the message has come when all of them have.
//
// The rank program (rank_program.h) says what waits for what. A filled message leaves when its
// credit has come. A received one can be used `step_cost` after it has come in whole. When a rank
// enters an operation is what a workload's executor says. Ways inside a node take no time, or
// PacketLevelRanksSettings::inside; so do copies of relayed messages to the GPU next to their NIC.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective_model/iteration/iteration.h"
#include "collective_model/schedule/schedule.h"
#include "collective_model/workload/executor.h"
#include "dataplane/base/units.h"
#include "dataplane/collective/flow_job.h"
#include "dataplane/collective/rank_program.h"
#include "dataplane/collective/wait_cause.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/flows/flow_carrier.h"
#include "dataplane/nccl/cts_layout.h"
#include "dataplane/nccl/message_parts.h"

namespace understudy {

/// One operation: the part of each rank, and what it does before it enters.
struct RankOperation {
  std::vector<std::unique_ptr<RankSchedule>> ranks;
  std::vector<EntryStep> steps = {};  ///< by rank; empty: nothing
};

struct PacketLevelRanksSettings {
  uint32_t credit_bytes = 64;  ///< of a credit's RDMA WRITE
  Duration step_cost;          ///< from a message's arrival until it is reduced or copied
  uint8_t priority = 0;
  bool ect = false;          ///< data; credits never
  uint8_t ack_every = 64;    ///< packets of a message, and its last one: as requesters here ask for
  uint8_t first_header = 0;  ///< bytes: RETH of a message's or credit's first packet ...
  uint8_t last_header = 0;   ///< ... and the immediate of a message's last one
  uint32_t control = kNoControl;  ///< congestion control of data; credits go at line rate
  /// Inside a node a message takes its bytes' time, behind those of its connection before it, and
  /// the latency; that its buffer is free again is known a latency later too. Without: no time.
  std::optional<NodeWay> inside = {};
};

/// By which NICs the messages of a connection go.
struct MessageWays {
  struct Way {
    VertexId from = kNoVertex, to = kNoVertex;  ///< NICs of the data's sender and receiver
  };
  /// One; of merged NICs as many as the end with more of them has.
  std::array<Way, DeviceRkeys::kMost> all;
  uint32_t pairs = 1;  ///< of NICs, in `all`
  /// Each message goes in so many parts (message_part()), each over a queue pair of its own: over
  /// all pairs of NICs, several queue pairs each where messages are split over these too.
  uint32_t count = 1;
  /// Else of a connection's queue pairs messages take so many in turn, for each part.
  uint32_t turns = 1;
  const Way& part(uint32_t part) const { return all[part % pairs]; }
  /// Parts, or whole messages, may come in another order than they left.
  bool mixes() const { return count > 1 || turns > 1; }
  /// Credits go back by the first so many in turn: by each NIC of the receiver (docs/nccl 3.1).
  uint32_t credits = 1;
};

/// The ways between a sender with NICs `from` and a receiver with NICs `to`, either of which may be
/// several that are merged: queue pairs take them in turn (docs/nccl 2.4).
MessageWays message_ways(std::span<const VertexId> from, std::span<const VertexId> to);

/// The flow of a message or of its part, but for its bytes.
FlowSpec data_flow(const PacketLevelRanksSettings& settings, const MessageWays::Way& way,
                   uint32_t connection);
/// Whether a flow is one of credits. Only messages of jobs carry an immediate, and a RETH in front.
inline bool is_credit(const FlowSpec& flow) {
  return flow.first_header > 0 && flow.last_header == 0;
}
/// The flow of its credit.
FlowSpec credit_flow(const PacketLevelRanksSettings& settings, const FlowSpec& data,
                     uint32_t connection);

class PacketLevelRanks : public FlowJob, private RankProgramOwner, private WorkloadListener {
 public:
  using WaysOf = std::function<MessageWays(const Connection& connection)>;

  /// With `played`, by rank, somebody else speaks for the ranks that are not: messages and credits
  /// between two of these do not exist, and what the others send and hear goes by the calls below.
  explicit PacketLevelRanks(std::vector<RankOperation> operations,
                            const PacketLevelRanksSettings& settings,
                            std::vector<bool> played = {});
  // The program has a reference to it.
  PacketLevelRanks(const PacketLevelRanks&) = delete;
  PacketLevelRanks& operator=(const PacketLevelRanks&) = delete;

  /// Appends a flow for each message, or each of its parts, and credit that crosses the network.
  /// Connections get numbers from `first_connection` on; gives the first free one.
  uint32_t add_flows(std::vector<FlowSpec>& flows, const WaysOf& ways_of,
                     uint32_t first_connection);
  /// Before `traffic` starts; these are the flows that were added, with a path each. Wake-ups of the
  /// listener are numbered from `first_wake` on; gives the first free one.
  uint32_t attach(FlowCarrier& traffic, uint32_t first_wake = 0) override;
  /// Before start(): operations are those of a group of a workload that others take part in.
  /// Without, a rank enters as the operations' steps say, the first one from time zero on.
  void follow(WorkloadExecutor& workload, uint32_t group);
  /// Before the first event: ranks begin.
  void start() override;

  /// Before start(): keeps the moments of every message, for moments().
  void record() { recording_ = true; }
  struct Moments {
    Time filled, posted;
    WaitCause why_filled = WaitCause::kEntry, why_posted = WaitCause::kEntry;
  };
  /// The moments of the messages that a rank's connection sends, as far as they were filled.
  const std::vector<Moments>& moments(size_t operation, uint32_t rank, uint32_t connection) const {
    return parts_[operation][rank].ends[connection].moments;
  }
  const RankSchedule& schedule(size_t operation, uint32_t rank) const {
    return *operations_[operation].ranks[rank];
  }
  size_t operations() const { return operations_.size(); }

  bool finished() const override { return unfinished_ == 0; }
  /// When a rank had done its part in an operation; never() before.
  Time completion(size_t operation, uint32_t rank) const;
  Time entry(size_t operation, uint32_t rank) const;
  /// When the rank began, before it computed and entered the first operation.
  Time begun(uint32_t rank) const { return workload_->begun(group_, rank); }
  /// In how many parts a rank's connection that sends over the network cuts its messages, and the
  /// flow of one of message `k`.
  uint32_t parts(size_t operation, uint32_t rank, uint32_t connection) const;
  uint32_t flow_of(size_t operation, uint32_t rank, uint32_t connection, uint64_t k,
                   uint32_t part = 0) const;

  // FlowListener
  void on_received(uint32_t flow, Time now) override;
  void on_acknowledged(uint32_t flow, Time now) override;
  void on_wake(uint32_t index, Time now) override;

 protected:
  /// Ranks may enter the first operation in their order; this one is not played.
  virtual void other_starts(uint32_t) {}
  /// A rank that is not played hears: the next message of its connection has come, or the next one
  /// that it sent is acknowledged.
  virtual void other_received(uint32_t, uint32_t, uint32_t, Time) {}
  virtual void other_acknowledged(uint32_t, uint32_t, uint32_t, Time) {}
  /// And it speaks: the next message of its connection may leave once its credit has come; message
  /// `k` of a connection that comes to it may.
  void other_posts(uint32_t operation, uint32_t rank, uint32_t connection, Time now);
  void other_grants(uint32_t operation, uint32_t rank, uint32_t connection, uint64_t k, Time now) {
    on_grantable({operation, rank, connection}, k, now);
  }

 private:
  /// What the network knows of one end of a connection.
  struct End {
    uint32_t data = 0, credits_at = 0;  ///< first flow of its messages, part by part, and credits
    uint64_t filled = 0;                ///< messages to send that may leave with their credit
    uint64_t credits = 0;               ///< messages to send whose credit has come
    uint64_t posted = 0;                ///< messages that have left
    uint32_t way = 0;                   ///< inside a node that takes time: its number, or relayed
    uint32_t split = kWhole;            ///< its messages go in parts: its number
    std::vector<Moments> moments;
  };
  struct Part {
    RankPart program;
    std::vector<End> ends;
    Time entry = Time::never(), completion = Time::never();
  };
  static constexpr uint32_t kWhole = 0xffffffff;
  /// What has come of a connection over merged NICs.
  struct Split {
    uint32_t parts, messages;  ///< parts of each
    WholeMessages received, acknowledged, credits;
  };
  /// Flows of one kind of one connection.
  struct Range {
    uint32_t first = 0;
    RankEnd sender;  ///< of the data
    bool credit = false;
    bool split = false;  ///< of a Split
  };

  // WorkloadListener
  void may_enter(uint32_t operation, uint32_t rank, Time at) override;
  // RankProgramOwner
  void on_filled(const RankEnd& sender, uint64_t k, Time now) override;
  void on_grantable(const RankEnd& receiver, uint64_t k, Time now) override;
  void on_passing(const RankEnd& end, Time at) override;
  void on_done(uint32_t operation, uint32_t rank, Time now) override;

  Part& part(uint32_t operation, uint32_t rank) { return parts_[operation][rank]; }
  const Part& part(uint32_t operation, uint32_t rank) const { return parts_[operation][rank]; }
  End& at(const RankEnd& end) { return parts_[end.operation][end.rank].ends[end.connection]; }
  /// The other end of a connection.
  RankEnd peer(const RankEnd& end) const {
    const FarEnd& far = part(end.operation, end.rank).program.far(end.connection);
    return {end.operation, far.rank, far.connection};
  }
  const std::vector<Connection>& connections(uint32_t operation, uint32_t rank) const {
    return operations_[operation].ranks[rank]->connections();
  }
  const Range& range_of(uint32_t flow) const;
  /// As flows: the connection sends between nodes, and one of its ends is played.
  bool crosses_network(const RankEnd& end) const;
  template <typename Each>
  void for_each_crossing(Each each) const;
  uint32_t ranks() const { return static_cast<uint32_t>(parts_[0].size()); }
  uint32_t entry_wake(uint32_t operation, uint32_t rank) const {
    return first_wake_ + (end_flow_ - first_flow_) + operation * ranks() + rank;
  }
  uint32_t way_wake(size_t way) const {
    return entry_wake(static_cast<uint32_t>(operations_.size()), 0) + static_cast<uint32_t>(way);
  }
  static uint32_t most_ranks(const std::vector<RankOperation>& operations);
  void make_parts(uint32_t operation);
  void make_workload();
  void enter(uint32_t operation, uint32_t rank, Time now);
  bool relays(const Connection& connection) const {
    return connection.relayed && settings_.inside && connection.direction == Direction::kSend;
  }
  void relay(const RankEnd& sender, uint64_t k, Time now);
  void post(const RankEnd& sender, Time now);
  void release_rest(const Split& split, uint32_t flow, Time now);
  void add_messages(std::vector<FlowSpec>& flows, const RankEnd& sender, const MessageWays& ways,
                    uint32_t number);
  void add_credits(std::vector<FlowSpec>& flows, const RankEnd& sender, const MessageWays& ways,
                   uint32_t number, uint32_t turn);
  Split& split(const RankEnd& sender) { return splits_[at(sender).split]; }
  void received(const RankEnd& sender, uint32_t flow, Time now);
  void acknowledged(const RankEnd& sender, Time now);

  bool played(uint32_t rank) const { return played_.empty() || played_[rank]; }

  std::vector<RankOperation> operations_;
  PacketLevelRanksSettings settings_;
  std::vector<bool> played_;
  RankProgram program_;
  std::vector<std::vector<Part>> parts_;  ///< by operation and rank
  std::vector<Range> ranges_;             ///< in order of flows
  std::vector<RankEnd> ways_;             ///< ends of connections inside nodes, by number
  std::vector<Time> relay_free_;          ///< by rank: behind what it copies to other GPUs to send
  std::vector<Split> splits_;             ///< by number
  uint32_t first_flow_ = 0, end_flow_ = 0;
  uint32_t first_wake_ = 0;  ///< arrivals by flow, entries by operation and rank, ways
  size_t unfinished_ = 0;
  bool recording_ = false;
  WaitCause cause_ = WaitCause::kEntry;  ///< of what is being done now
  FlowCarrier* traffic_ = nullptr;
  WorkloadExecutor* workload_ = nullptr;
  uint32_t group_ = 0;
  struct Own {
    Workload workload;
    std::unique_ptr<WorkloadExecutor> executor;
  };
  std::unique_ptr<Own> own_;  ///< where nobody else takes part
};

}  // namespace understudy
