// Datagrams: those of the communication manager, to QP1 of every emulated node, and those of UD
// queue pairs. They cross the fabric like any other packet.
#pragma once

#include <span>

#include "dataplane/engine/network/network_side.h"
#include "dataplane/engine/send/fault_path.h"
#include "dataplane/engine/state/commands.h"
#include "dataplane/engine/state/inbound_packets.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class Datagrams {
 public:
  Datagrams(ShardState& state, InboundPackets& inbound, FaultPath& faults, NetworkSide& network);

  /// A packet to QP1 has come in.
  void receive_gsi(const FrameView& view, const RoceView& roce, Time now);
  /// A packet to a slot that no RC queue pair has.
  void receive(const FrameView& view, const RoceView& roce, uint32_t slot, Time now);
  /// A datagram to QP1 has come through the fabric: control is told.
  void deliver_gsi(uint32_t packet, Time now);
  /// A UD queue pair's message has come through: it goes back to where it came from.
  void echo(uint32_t packet, uint32_t slot, Time now);
  /// Sends one from QP1 of the node.
  ReplyStatus send(const Datagram& datagram, NodeId node, Time now);

 private:
  bool is_from_real_node(const FrameView& view, const NodeNic* to) const;
  uint32_t make(uint32_t position, RoceAddressing addressing, const RoceFields& fields,
                std::span<const uint8_t> bytes);

  ShardState& state_;
  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  RealPorts& ports_;
  const FaultInjector& injector_;
  InboundPackets& inbound_;
  FaultPath& faults_;
  NetworkSide& network_;
  Psn gsi_psn_;  ///< of the next datagram from QP1
};

}  // namespace understudy
