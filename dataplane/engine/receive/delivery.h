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

  void deliver(uint32_t packet, Time now);
  /// Whether queue pairs wait for the end of this moment.
  bool has_pending() const { return !pending_acks_.empty(); }
  /// It is over: each of these answers by one ACK (rule A4.10).
  void answer_pending(Time now);
  /// The event kTimer.
  void on_timer(uint32_t slot, Time now);

 private:
  const ShardConfig& config_;
  PacketPool& pool_;
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
