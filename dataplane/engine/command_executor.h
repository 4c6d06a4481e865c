// Commands of control, executed between bursts or at their effective time, and acknowledged.
#pragma once

#include "dataplane/engine/network/network_side.h"
#include "dataplane/engine/receive/datagrams.h"
#include "dataplane/engine/receive/host_frames.h"
#include "dataplane/engine/send/cnp_queue.h"
#include "dataplane/engine/send/qp_pacing.h"
#include "dataplane/engine/send/qp_scheduler.h"
#include "dataplane/engine/state/commands.h"
#include "dataplane/engine/state/endpoint_wake.h"
#include "dataplane/engine/state/reused_slots.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class CommandExecutor {
 public:
  /// What commands act on, beside the state.
  struct Parts {
    QpPacing& pacing;
    CnpQueue& cnps;
    QpScheduler& scheduler;
    NetworkSide& network;
    Datagrams& datagrams;
    HostFrames& host;
    EndpointHost& endpoints;  ///< what endpoints are attached to
    ReusedSlots<EndpointWake>& wakes;
  };
  CommandExecutor(ShardState& state, const Parts& parts);

  CommandQueue& queue() { return queue_; }
  bool has_new() const { return !queue_.commands.empty(); }
  /// Sets an event for each command that has come: one for its time, or, for all whose time is no
  /// later than the last turn's, one for now, behind what was due before. Once in each turn. What
  /// has a time of its own may so come before others that were sent sooner: it builds on none.
  void take_new(Time now);
  /// The event kCommand: the effective time of one has come.
  void on_effective(uint32_t slot, Time now);
  /// The event kCommands: of `count` that have come those are executed that have no event.
  void on_new(uint32_t count, Time now);

  /// Changes the state of the queue pair in `slot`; false where that is not allowed.
  bool modify(uint32_t slot, Qp& qp, QpState to, Time now);

  /// Makes room in `out` for all that this shard counts.
  void fit(ShardSnapshot& out) const;
  /// Copies counters, those of the wire from `port`; `out` has been through fit().
  void snapshot(ShardSnapshot& out, Time now, uint32_t port) const;

 private:
  static constexpr size_t kPending = 4096;

  ReplyStatus execute(const Command& command, Time now);
  ReplyStatus add_qp(const Command& command, Time now);
  ReplyStatus add_datagram_qp(const Command& command);
  ReplyStatus remove_qp(const Command& command);
  ReplyStatus modify_qp(const Command& command, Time now);
  ReplyStatus set_link(const Command& command, Time now);
  void set_paused(NodeId node, bool paused, Time now);
  ReplyStatus find_deadlock(const Command& command, Time now);
  void forget(const std::vector<const Endpoint*>& endpoints);

  const ShardConfig& config_;
  EventQueue& events_;
  QpTable& qps_;
  RealPorts& ports_;
  RegionTable& regions_;
  FaultInjector& faults_;
  Parts parts_;
  CommandQueue queue_;
  ReusedSlots<Command> later_;
  Time done_until_ = Time::zero();  ///< the last turn
  Time in_time_ = Time::zero();     ///< the turn before: commands for later ones have events
  NoEndpoint nobody_;
};

}  // namespace understudy
