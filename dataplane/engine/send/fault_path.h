// Faults carried out: packets from a real node meet them in front of the first link, packets to it
// behind the last one; what passes between two real nodes both. What a fault adds or delays takes
// no time on a link: it goes on by an event, kLinkArrive or kDepart.
#pragma once

#include <vector>

#include "dataplane/engine/state/inbound_packets.h"
#include "dataplane/engine/state/shard_state.h"
#include "dataplane/fabric/held_packets.h"

namespace understudy {

class FaultPath {
 public:
  FaultPath(ShardState& state, InboundPackets& inbound);

  /// A packet for `slot` (as FaultInjector counts slots) has come in.
  void receive(const FrameView& view, const RoceView& roce, uint32_t slot, Time now);
  /// A packet has come out of the fabric and would be handed over at its `due`.
  void depart(uint32_t packet);
  /// A packet between two real nodes, in front of the fabric or behind it. Its queue pair is not
  /// known, so that only faults that ask for nothing of it concern it.
  void cross(uint32_t packet, Time now);
  /// The event kHeldLong.
  void on_held_long(uint32_t entry, Time now);

 private:
  bool damage_received(FrameView& view, RoceView& roce, const FaultVerdict& verdict);
  void copy_received(const FrameView& view, const RoceView& roce, uint32_t slot,
                     const FaultVerdict& verdict, Time now);
  void copy_departing(uint32_t packet, const FaultVerdict& verdict);
  void copy_crossing(uint32_t packet, const FaultVerdict& verdict);
  void damage_crossing(uint32_t packet, const FaultVerdict& verdict);
  void forward_crossing(uint32_t packet, Duration delay);
  void hold(uint32_t packet, const FaultVerdict& verdict, Time now);
  void release_held(uint32_t packet, Time now);
  void count_past_held(uint32_t packet, Time now);

  const ShardConfig& config_;
  PacketPool& pool_;
  EventQueue& events_;
  QpTable& qps_;
  RealPorts& ports_;
  FaultInjector& faults_;
  InboundPackets& inbound_;
  HeldPackets held_;
  std::vector<uint8_t> scratch_;  ///< a received frame that a fault has changed
};

}  // namespace understudy
