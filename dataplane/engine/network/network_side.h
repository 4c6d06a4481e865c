// What lies between a shard's nodes, behind one face: the two links of a path, or a network with
// switches. Which of them a shard has is decided here and nowhere else.
#pragma once

#include <memory>
#include <optional>

#include "dataplane/engine/network/switched_lane.h"
#include "dataplane/engine/network/two_links.h"
#include "dataplane/engine/state/commands.h"

namespace understudy {

class NetworkSide {
  /// Does it with the lane that the shard has.
  template <typename Do>
  auto on(Do&& what) const {
    return switched_ == nullptr ? what(*two_links_) : what(*switched_);
  }

 public:
  /// `user` is told what comes through a network with switches, and asked what enters it. What has
  /// come through two links goes on by kDeliver, or by `egress`.
  NetworkSide(ShardState& state, QpScheduler& scheduler, UplinkScheduler& uplinks, Egress& egress,
              FabricUser& user);

  /// A packet of a real node has come in and stands in front of its link, which takes it at once
  /// where nothing is before it.
  void accept(uint32_t packet, Time now) {
    on([&](auto& lane) { lane.accept(packet, now); });
  }
  /// kLinkArrive: a packet reaches its link, and is dropped, and counted, where too many wait.
  /// kLinkFree: a link may take the next one.
  void on_event(ShardEvent event) {
    on([&](auto& lane) { lane.on_event(event); });
  }
  /// The queue pair in `slot` may have something to send: its node's link takes that when it is
  /// free and it is this one's turn. Sets the queue pair's timer.
  void offer(uint32_t slot, Time now) {
    on([&](auto& lane) { lane.offer(slot, now); });
  }
  /// As QpScheduler says.
  void note_delivery(uint32_t slot) { scheduler_.note_delivery(slot); }
  /// The node has something to send in this class.
  void ready(uint32_t node, uint32_t cls, Time now) {
    on([&](auto& lane) { lane.ready(node, cls, now); });
  }
  /// A finished frame of its node goes out in turn; it is dropped, and counted, where too many
  /// wait.
  void send_finished(uint32_t packet, Time now);
  /// Lets those send that found no free packet, as long as there is one.
  void feed_starved(Time now);
  /// Whether frames of this size, from the real NIC here to the emulated node, may go as a train.
  bool carries_trains(uint32_t node, uint32_t cls, uint32_t wire_bytes) {
    return on([&](auto& lane) { return lane.carries_trains(node, cls, wire_bytes); });
  }

  /// When the next event is due of those that are not in the shard's EventQueue.
  Time next() const {
    return on([](auto& lane) { return lane.next(); });
  }
  /// Runs it.
  void step() {
    on([](auto& lane) { lane.step(); });
  }
  /// A real NIC pauses a class or lets it go on, by a frame, or because the last one's time is
  /// over.
  void hear_pause(uint32_t real, unsigned cls, bool pause, bool frame, Time now) {
    on([&](auto& lane) { lane.hear_pause(real, cls, pause, frame, now); });
  }

  /// Some link is about to go down or to lose packets, or some node to stand still: no packet passes
  /// a link ahead of its time any more.
  void expect_stops() {
    on([](auto& lane) { lane.expect_stops(); });
  }
  /// Changes `change.link` of the network, or, if that is none, all links of a node. False: there
  /// is no such link or node.
  bool set_link(NodeId node, const RateChange& change, Time now) {
    return on([&](auto& lane) { return lane.set_link(node, change, now); });
  }
  /// The flows of a group stop, or go on. False: nothing carries flows.
  bool set_running(uint32_t group, bool running, Time now) {
    return on([&](auto& lane) { return lane.set_running(group, running, now); });
  }
  /// The one with switches, if there is one.
  const Network* network() const {
    return on([](auto& lane) { return lane.network(); });
  }
  /// Makes room for the counters of all links.
  void fit(ShardSnapshot& out) const {
    on([&](auto& lane) { lane.fit(out); });
  }
  /// Copies them; `out` has been through fit().
  void snapshot(ShardSnapshot& out, Time now) const {
    on([&](auto& lane) { lane.snapshot(out, now); });
  }

 private:
  const ShardConfig& config_;
  PacketPool& pool_;
  RealPorts& ports_;
  QpScheduler& scheduler_;
  // One of both.
  std::unique_ptr<TwoLinks> two_links_;
  std::unique_ptr<SwitchedLane> switched_;
};

}  // namespace understudy
