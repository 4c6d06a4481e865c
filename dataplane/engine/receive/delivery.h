// Packets that have come through the fabric to an emulated node: each is handed to its queue pair
// at its modelled arrival, and what queue pairs heard at one moment is answered together.
#pragma once

#include <vector>

#include "dataplane/engine/network/network_side.h"
#include "dataplane/engine/receive/datagrams.h"
#include "dataplane/engine/receive/host_frames.h"
#include "dataplane/engine/send/cnp_queue.h"
#include "dataplane/engine/send/qp_pacing.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class Delivery {
 public:
  Delivery(ShardState& state, QpPacing& pacing, CnpQueue& cnps, NetworkSide& network,
           Datagrams& datagrams, HostFrames& host);

  /// To the emulated node's NIC, which may take a while to answer.
  void deliver(uint32_t packet, Time now) {
    const Duration delay = answers_after(pool_[packet]);
    if (delay > Duration()) return events_.push(now + delay, EventKind::kHandle, packet);
    handle(packet, now);
  }
  /// To its queue pair.
  void handle(uint32_t packet, Time now);
  /// Whether queue pairs wait for the end of this moment.
  bool has_pending() const { return !pending_acks_.empty(); }
  /// It is over: each of these answers by one ACK (rule A4.10).
  void answer_pending(Time now);
  /// The event kTimer.
  void on_timer(uint32_t slot, Time now);

 private:
  Duration answers_after(const Packet& packet) const {
    if (config_.limits.empty() || packet.kind == PacketKind::kRawIn) return Duration();
    const OpKind kind = packet.view.info().kind;
    const bool is_answer =
        kind == OpKind::kAck || kind == OpKind::kReadResponse || kind == OpKind::kCnp;
    return is_answer ? Duration() : config_.limits[packet.node].ack_delay;
  }

  const ShardConfig& config_;
  PacketPool& pool_;
  EventQueue& events_;
  QpTable& qps_;
  RealPorts& ports_;
  Duration& arrival_uncertainty_;
  QpPacing& pacing_;
  CnpQueue& cnps_;
  NetworkSide& network_;
  Datagrams& datagrams_;
  HostFrames& host_;
  std::vector<uint32_t> pending_acks_;  ///< slots that packets came for at this moment
};

}  // namespace understudy
