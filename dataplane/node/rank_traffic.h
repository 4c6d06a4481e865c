// All ranks of a collective's operations, packet by packet: each rank fills, receives and uses
// messages as NCCL's kernel and proxy do (collective_model/schedule.h says what waits for what),
// each message and each credit is a flow (flow_traffic.h). No rank is folded and nothing is
// planned: this is what plans are measured against, and what a job without a real node runs on.
//
// A message to send is filled when what it waits for has happened and the one a window before it is
// acknowledged; it leaves when its credit has come. A received one can be used `step_cost` after it
// has come in whole; when it has been used the credit for the one a window after it leaves. The
// first credits leave when a rank enters the operation, as iteration.h says: when it has done its
// part in the one before and has computed, and its delay has passed. Ways inside a node take no
// time, or RankTrafficSettings::inside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective_model/iteration.h"
#include "collective_model/schedule.h"
#include "dataplane/base/units.h"
#include "dataplane/fabric/flow.h"
#include "dataplane/node/flow_traffic.h"
#include "dataplane/node/wait_cause.h"

namespace understudy {

/// One operation: the part of each rank, and what it does before it enters.
struct RankOperation {
  std::vector<std::unique_ptr<RankSchedule>> ranks;
  std::vector<EntryStep> steps = {};  ///< by rank; empty: nothing
};

struct RankTrafficSettings {
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

/// Flows of a message, but for its bytes, and of its credit.
FlowSpec data_flow(const RankTrafficSettings& settings, VertexId from, VertexId to,
                   uint32_t connection);
FlowSpec credit_flow(const RankTrafficSettings& settings, const FlowSpec& data,
                     uint32_t connection);

class RankTraffic : public FlowListener {
 public:
  /// The NIC of a connection's rank.
  using NicOf = std::function<VertexId(uint32_t rank, const Connection& connection)>;

  /// With `played`, by rank, somebody else speaks for the ranks that are not: messages and credits
  /// between two of these do not exist, and what the others send and hear goes by the calls below.
  explicit RankTraffic(std::vector<RankOperation> operations, const RankTrafficSettings& settings,
                       std::vector<bool> played = {});

  /// Appends a flow for each message and credit that crosses the network. Connections get numbers
  /// from `first_connection` on; gives the first free one.
  uint32_t add_flows(std::vector<FlowSpec>& flows, const NicOf& nic_of, uint32_t first_connection);
  /// Before traffic.start(); these are the flows that were added, with a path each. Wake-ups of the
  /// listener are numbered from `first_wake` on; gives the first free one.
  uint32_t attach(FlowTraffic& traffic, uint32_t first_wake = 0);
  /// Before the first event: ranks enter the first operation.
  void start();

  /// Before start(): keeps the moments of every message, for moments().
  void record() { recording_ = true; }
  struct Moments {
    Time filled, posted;
    WaitCause why_filled = WaitCause::kEntry, why_posted = WaitCause::kEntry;
  };
  /// Of the messages that a rank's connection sends, those that were filled.
  const std::vector<Moments>& moments(size_t operation, uint32_t rank, uint32_t connection) const {
    return parts_[operation][rank].ends[connection].moments;
  }
  const RankSchedule& schedule(size_t operation, uint32_t rank) const {
    return *operations_[operation].ranks[rank];
  }
  size_t operations() const { return operations_.size(); }

  bool finished() const { return unfinished_ == 0; }
  /// When a rank had done its part in an operation; never() before.
  Time completion(size_t operation, uint32_t rank) const;
  Time entry(size_t operation, uint32_t rank) const;
  /// The flow of message `k` of a rank's connection that sends over the network.
  uint32_t flow_of(size_t operation, uint32_t rank, uint32_t connection, uint64_t k) const;

  // FlowListener
  void on_received(uint32_t flow, Time now) override;
  void on_acknowledged(uint32_t flow, Time now) override;
  void on_wake(uint32_t index, Time now) override;

 protected:
  /// Ranks enter the first operation in their order; this one is not played.
  virtual void other_starts(uint32_t) {}
  /// A rank that is not played hears: the next message of its connection has come, or the next one
  /// that it sent is acknowledged.
  virtual void other_received(uint32_t, uint32_t, uint32_t, Time) {}
  virtual void other_acknowledged(uint32_t, uint32_t, uint32_t, Time) {}
  /// And it speaks: the next message of its connection may leave once its credit has come; message
  /// `k` of a connection that comes to it may.
  void other_posts(uint32_t operation, uint32_t rank, uint32_t connection, Time now);
  void other_grants(uint32_t operation, uint32_t rank, uint32_t connection, uint64_t k, Time now) {
    grant(operation, rank, connection, k, now);
  }

 private:
  /// One end of a connection.
  struct End {
    uint32_t peer_rank = 0, peer = 0;   ///< the other end
    uint32_t group = 0;                 ///< in its rank's
    uint32_t data = 0, credits_at = 0;  ///< first flow of its messages and of its credits
    uint64_t done = 0;                  ///< messages that the kernel is done with
    uint64_t arrived = 0;               ///< receives
    uint64_t acked = 0;                 ///< sends
    uint64_t credits = 0;               ///< sends: that have come
    uint64_t posted = 0;                ///< sends: that have left
    uint32_t way = 0;                   ///< inside a node that takes time: its number
    Time way_free;                      ///< the same: behind the sender's last message
    std::vector<Moments> moments;
  };
  struct Part {
    std::vector<End> ends;
    std::vector<std::vector<uint32_t>> groups;  ///< connections by channel: one depends on no other
    uint64_t left = 0;                          ///< messages to be done with
    uint32_t ways_out = 0;
    Time entry = Time::never(), completion = Time::never();
  };
  /// What may have something to do.
  struct Look {
    uint32_t rank = 0, group = 0;
    bool operator==(const Look&) const = default;
  };
  /// Flows of one kind of one connection.
  struct Range {
    uint32_t first = 0;
    uint32_t operation = 0, rank = 0, connection = 0;  ///< the data's sender
    bool credit = false;
  };

  Part& part(uint32_t operation, uint32_t rank) { return parts_[operation][rank]; }
  const std::vector<Connection>& connections(uint32_t operation, uint32_t rank) const {
    return operations_[operation].ranks[rank]->connections();
  }
  const Range& range_of(uint32_t flow) const;
  /// As flows: the connection sends between nodes, and one of its ends is played.
  bool crosses_network(uint32_t operation, uint32_t rank, uint32_t connection) const;
  uint32_t ranks() const { return static_cast<uint32_t>(parts_[0].size()); }
  uint32_t entry_wake(uint32_t operation, uint32_t rank) const {
    return first_wake_ + (end_flow_ - first_flow_) + operation * ranks() + rank;
  }
  uint32_t way_wake(size_t way) const {
    return entry_wake(static_cast<uint32_t>(operations_.size()), 0) + static_cast<uint32_t>(way);
  }
  void join_ends(uint32_t operation);
  /// Once the rank's operation before was done, at `done`.
  void schedule_entry(uint32_t operation, uint32_t rank, Time done);
  void enter(uint32_t operation, uint32_t rank, Time now);
  void grant(uint32_t operation, uint32_t rank, uint32_t connection, uint64_t k, Time now);
  void arrive(uint32_t operation, uint32_t rank, uint32_t connection);
  void post(uint32_t operation, uint32_t rank, uint32_t connection, Time now);
  void look_at(uint32_t operation, uint32_t rank, uint32_t connection);
  /// Does all that can be done now on the connection's channel, on this rank and those that share
  /// its node.
  void settle(uint32_t operation, uint32_t rank, uint32_t connection, Time now);
  bool advance(uint32_t operation, uint32_t rank, uint32_t group, Time now);
  void complete(uint32_t operation, uint32_t rank, Time now);
  bool ready(uint32_t operation, uint32_t rank, uint32_t connection) const;
  void pass_inside(uint32_t operation, uint32_t rank, uint32_t connection, uint64_t k, Time now);
  void hear_inside(uint32_t operation, uint32_t rank, uint32_t connection);
  void done(uint32_t operation, uint32_t rank, uint32_t connection, Time now);

  bool played(uint32_t rank) const { return played_.empty() || played_[rank]; }

  std::vector<RankOperation> operations_;
  RankTrafficSettings settings_;
  std::vector<bool> played_;
  std::vector<std::vector<Part>> parts_;  ///< by operation and rank
  std::vector<EntryClock> clocks_;        ///< by rank
  std::vector<Range> ranges_;             ///< in order of flows
  std::vector<Range> ways_;               ///< places of the ends inside nodes, by number
  uint32_t first_flow_ = 0, end_flow_ = 0;
  uint32_t first_wake_ = 0;  ///< arrivals by flow, entries by operation and rank, ways
  size_t unfinished_ = 0;
  bool recording_ = false;
  WaitCause cause_ = WaitCause::kEntry;  ///< of what is being done now
  FlowTraffic* traffic_ = nullptr;
  std::vector<Look> work_;
};

}  // namespace understudy
