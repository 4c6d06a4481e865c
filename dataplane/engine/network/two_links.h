// The network of a shard without switches: a path is the two links of its ends, each a FIFO in
// front of a wire. Everything here runs at the modelled time of its event, however late the loop
// comes to it.
#pragma once

#include <optional>

#include "dataplane/engine/send/egress.h"
#include "dataplane/engine/send/qp_scheduler.h"
#include "dataplane/engine/state/commands.h"
#include "dataplane/engine/state/shard_state.h"
#include "dataplane/fabric/wire_faults.h"

namespace understudy {

class TwoLinks {
 public:
  TwoLinks(ShardState& state, QpScheduler& scheduler, Egress& egress);

  // As NetworkSide says of each:
  void accept(uint32_t packet, Time now);
  void on_event(ShardEvent event) {
    if (event.kind == EventKind::kLinkFree) return on_link_free(event.index, event.time);
    on_link_arrive(event.index, event.time);
  }
  void offer(uint32_t slot, Time now);
  void ready(uint32_t node, uint32_t cls, Time now);
  bool carries_trains(uint32_t node, uint32_t cls, uint32_t wire_bytes);
  /// A finished frame of this node was dropped in front of its link.
  void note_dropped(uint32_t node) { ++links_[link_id(node, true, 0)].counters().dropped; }
  static constexpr Time next() { return Time::never(); }  // all its events are the shard's
  static void step() {}
  static void hear_pause(uint32_t, unsigned, bool, bool, Time) {}  // ports have no PFC then
  void expect_stops() { may_stop_ = true; }
  bool set_link(NodeId node, const RateChange& change, Time now);
  static bool set_running(uint32_t, bool, Time) { return false; }  // nobody else sends here
  static const Network* network() { return nullptr; }
  void fit(ShardSnapshot& out) const;
  void snapshot(ShardSnapshot& out, Time now) const;

 private:
  /// In Packet::link: it has passed that link, and comes out of it.
  static constexpr uint32_t kBehind = 1u << 31;
  /// What a link has that may go down or lose packets.
  struct Trouble {
    WireFaults faults;
    bool parked = false;  ///< it took no packet when its wire was idle: awaited, without an event
  };

  /// Whether a packet of a real node may come before its event: nothing else delays it.
  bool takes_at_once() const { return !faults_.active() && !may_stop_; }
  void enter(uint32_t packet, Time now);
  void on_link_free(uint32_t link, Time now);
  void on_link_arrive(uint32_t packet, Time now);
  void enqueue_early(uint32_t packet, Time at);
  /// Where too many wait already it is dropped, and counted.
  bool drop_flood(uint32_t packet) {
    return links_[pool_[packet].link].waiting() >= pool_.most_in_one_queue() &&
           drop_behind_many(packet);
  }
  bool drop_behind_many(uint32_t packet);
  bool waits_for_node(const Packet& packet) const;
  void note_arrived(uint32_t link, Time now);
  void transmit_first(uint32_t link, Time now);
  void transmit(uint32_t packet, uint32_t link, Time now);
  void transmit_train(uint32_t packet, uint32_t link, Time now);
  void leave(uint32_t packet, uint32_t link, Time now);
  void serve_node(uint32_t node, uint32_t cls, Time now);
  bool has_one_source(uint32_t link) const;
  bool serves_node(uint32_t link) const;
  void await_free(uint32_t link);
  bool may_pass_early(uint32_t link, Time at, Time now) const;
  Duration time_of_next_link(const Packet& packet, uint32_t wire_bytes);
  void apply_rate(uint32_t node, Rate rate);
  void limit(uint32_t node, const PacketLimits& limits);
  // Where links may stop (two_links_stops.cc):
  bool holds(uint32_t link) const { return trouble_[link].faults.holds(is_uplink(link)); }
  void change(uint32_t link, const RateChange& change, Time now);
  bool lose_behind(uint32_t link, uint32_t packet);
  bool lose_in_front(uint32_t packet);
  void on_exit(uint32_t packet, Time now);

  const ShardConfig& config_;
  PacketPool& pool_;
  EventQueue& events_;
  RealPorts& ports_;
  const FaultInjector& faults_;
  QpScheduler& scheduler_;
  Egress& egress_;
  BigArray<Link> links_;       ///< by link_id()
  BigArray<Trouble> trouble_;  ///< the same
  /// Some link may: packets then pass each link at their time, and none is ahead of it.
  bool may_stop_ = false;
};

}  // namespace understudy
