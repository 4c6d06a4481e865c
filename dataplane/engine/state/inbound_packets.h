// Packets of the pool for frames that have come in: what is kept of a frame until its modelled
// arrival.
#pragma once

#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class InboundPackets {
 public:
  explicit InboundPackets(ShardState& state)
      : state_(state),
        config_(state.config),
        pool_(state.pool),
        qps_(state.qps),
        ports_(state.ports),
        faults_(state.faults) {}

  // All give a packet in front of the link of the real node that the frame came from, or kNoPacket,
  // and count a drop, if there is none.
  /// For a frame to the emulated node at position `node`; data class.
  uint32_t take(PacketKind kind, const FrameView& view, uint32_t node, Time now);
  /// With what the queue pair in `slot`, or the datagrams that a slot stands for in faults, needs
  /// of the frame.
  uint32_t store(const FrameView& view, const RoceView& roce, uint32_t slot, Time now);
  /// With a datagram to the node at `position`.
  uint32_t store_datagram(const FrameView& view, const RoceView& roce, uint32_t position, Time now);

 private:
  const ShardState& state_;
  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  RealPorts& ports_;
  const FaultInjector& faults_;
};

}  // namespace understudy
