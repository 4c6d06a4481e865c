// What is not RoCE: neighbours' questions are answered here, other IP traffic to emulated nodes
// goes to the host's namespace and comes from there, and what real nodes say to one another is
// passed on.
#pragma once

#include "dataplane/base/byte_ring.h"
#include "dataplane/base/fair_rings.h"
#include "dataplane/engine/network/network_side.h"
#include "dataplane/engine/send/egress.h"
#include "dataplane/engine/state/commands.h"
#include "dataplane/engine/state/inbound_packets.h"
#include "dataplane/engine/state/shard_state.h"
#include "dataplane/node/neighbour.h"

namespace understudy {

class HostFrames {
 public:
  HostFrames(ShardState& state, InboundPackets& inbound, Egress& egress, NetworkSide& network);

  FairRings& to_host() { return to_host_; }
  ByteRing& from_host() { return from_host_; }

  /// An IP or ARP frame has come in.
  void receive(const FrameView& view, Time now);
  /// An ICMP echo request has crossed the fabric: its answer does as well.
  void answer_echo(uint32_t packet, Time now);

  /// Sends what the host has said, each frame to its real node's sink.
  void send(Time now, std::span<TxSink* const> sinks);
  /// When send() has something to do again; zero if it has now.
  Time next() const;
  /// Whether the real NIC's MAC is known that this datagram goes to; if not, it is asked for.
  ReplyStatus reach(const Datagram& datagram, NodeId node);

 private:
  void answer(NeighbourQuery query, const FrameView& view, const NodeNic& node, Time now);
  bool pass_on(const FrameView& view, Time now);
  void hand_to_host(const FrameView& view);
  bool send_one(const FrameView& view, const NodeNic& node, Time now,
                std::span<TxSink* const> sinks);
  bool waits_for_mac(const NodeNic& node, const FrameView& view, Time now,
                     std::span<TxSink* const> sinks);
  void ask_for_real_mac(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                        Time now, std::span<TxSink* const> sinks);

  struct Unresolved {
    const NodeNic* from = nullptr;
    IpAddress own, target;
  };

  ShardConfig& config_;
  PacketPool& pool_;
  RealPorts& ports_;
  InboundPackets& inbound_;
  Egress& egress_;
  NetworkSide& network_;
  FairRings to_host_;  ///< by port
  ByteRing from_host_;
  bool host_waits_ = false;  ///< its oldest frame, for something that comes in or a later poll
  Time host_asks_again_ = Time::never();  ///< for the real NIC's MAC that this frame waits for
  Time host_gives_up_ = Time::never();    ///< on this frame, where it holds up those to other NICs
  Unresolved unresolved_;                 ///< who is to ask for that MAC; from: null if nobody
};

}  // namespace understudy
