// A shard's side of its network with switches: it takes the same calls as two links do.
#pragma once

#include <optional>

#include "dataplane/engine/network/uplink_scheduler.h"
#include "dataplane/engine/state/commands.h"
#include "dataplane/engine/state/switched_fabric.h"

namespace understudy {

class SwitchedLane {
 public:
  /// `user` is told what comes through, and asked what enters.
  SwitchedLane(ShardState& state, QpScheduler& scheduler, UplinkScheduler& uplinks,
               FabricUser& user);

  // As NetworkSide says of each:
  void accept(uint32_t packet, Time now) { events_.push(now, EventKind::kLinkArrive, packet); }
  void on_event(ShardEvent event);
  void offer(uint32_t slot, Time now);
  void ready(uint32_t node, uint32_t /*cls*/, Time now) { fabric_.ready(node, now); }
  bool carries_trains(uint32_t /*node*/, uint32_t /*cls*/, uint32_t /*bytes*/) { return false; }
  void note_dropped(uint32_t /*node*/) {}  // its switches count what they drop themselves
  Time next() { return fabric_.next(); }
  void step() { fabric_.step(); }
  void hear_pause(uint32_t real, unsigned cls, bool pause, bool frame, Time now) {
    fabric_.hear_pause(real, cls, pause, frame, now);
  }
  static void expect_stops() {}
  bool set_link(NodeId node, const RateChange& change, Time now) {
    return fabric_.set_link(node, change, now);
  }
  bool set_running(uint32_t group, bool running, Time now) {
    return fabric_.set_running(group, running, now);
  }
  const Network* network() const { return &fabric_.network(); }
  void fit(ShardSnapshot& out) const;
  void snapshot(ShardSnapshot& out, Time now) const;

 private:
  PacketPool& pool_;
  EventQueue& events_;
  RealPorts& ports_;
  QpScheduler& scheduler_;
  SwitchedFabric fabric_;
};

/// Counts a packet that a network with switches has lost, and gives it back.
void drop_lost(ShardState& state, uint32_t packet, PacketLoss why);

}  // namespace understudy
