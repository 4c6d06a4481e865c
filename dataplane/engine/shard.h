// A shard: everything behind one real port, or several that share a network. Packets and a time go
// in, packets come out; it has no clock, socket or thread of its own, and allocates at construction
// only (design rules 1 to 5). It composes its parts and hands each event to the one it is for:
//
//   frames -> ReceivePath -> NetworkSide -> Delivery -> queue pairs
//                                 ^                         |
//   frames <- Egress <------------+------ QpScheduler <-----+
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/command_executor.h"
#include "dataplane/engine/receive/delivery.h"
#include "dataplane/engine/receive/receive_path.h"
#include "dataplane/engine/send/held_posts.h"
#include "dataplane/engine/shard_interface.h"

namespace understudy {

class Shard final : public EngineShard, public EndpointHost, private FabricUser {
 public:
  explicit Shard(const ShardConfig& config);

  void rx(const RxBurst& burst) override { receive_path_.rx(burst); }
  using EngineShard::poll;
  void poll(Time now, std::span<TxSink* const> sinks) override;
  Time next_wake() const override;

  // Control's side: single producer of commands, single consumer of replies.
  CommandQueue& commands() { return commands_.queue(); }
  SpscChain<Reply>& replies() { return commands_.queue().replies; }
  FairRings& to_host() { return host_.to_host(); }     ///< frames for the exception port
  ByteRing& from_host() { return host_.from_host(); }  ///< frames of the exception port
  NoticeRings& notices() { return state_.notices; }

  /// The one with switches, if there is one.
  const Network* network() const { return network_.network(); }
  const NodeTable& node_table() const { return state_.config.nodes; }
  const std::vector<NodeNic>& nodes() const { return state_.config.nodes.nics(); }
  uint32_t queue_pairs() const { return state_.config.queue_pairs; }
  uint32_t region_capacity() const { return state_.config.regions; }
  const RegionTable& regions() const { return state_.regions; }
  RegionTable& regions() { return state_.regions; }  ///< for the queue pairs that control makes
  uint32_t ports() const { return state_.ports.size(); }
  /// Of queue pairs to this address: those of the port behind which it is.
  RcCounters& rc_counters(const IpAddress& to = {}) {
    return state_.ports.counters_of(state_.ports.nic_toward(to, 0)).rc;
  }
  /// The one behind which this address of a real node is.
  uint32_t port_to(const IpAddress& real) const {
    return state_.ports.index_of(state_.ports.nic_toward(real, 0));
  }
  const ShardCounters& counters(uint32_t port = 0) const { return state_.ports[port].counters; }
  /// Makes room in `out` for all that this shard counts.
  void fit(ShardSnapshot& out) const { commands_.fit(out); }
  /// Copies counters, those of the wire from `port`; `out` has been through fit().
  void snapshot(ShardSnapshot& out, Time now, uint32_t port = 0) const {
    commands_.snapshot(out, now, port);
  }
  /// Local QPN of slot `slot`: unique over all shards (design rule 3).
  Qpn qpn_of(uint32_t slot) const { return state_.qps.qpn_of(slot); }

  // EndpointHost
  bool post(Time now, Qp& qp, const WorkRequest& request) override;
  bool modify(Time now, Qp& qp, QpState to) override;
  void wake_at(Time t, Endpoint& endpoint, uint64_t cookie) override;
  Duration arrival_uncertainty() const override { return state_.arrival_uncertainty; }
  void tell(Time now, const Qp& qp, NoticeKind kind, std::span<const uint8_t> bytes) override;

 private:
  void run_events(Time now);
  void handle(ShardEvent event);
  void send_due(Time now, std::span<TxSink* const> sinks);
  Time next_event() const { return std::min(state_.events.next(), network_.next()); }
  void look_at_pause(ShardEvent event);

  // FabricUser
  uint32_t next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) override;
  uint64_t next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) override;
  void held(uint32_t node, LinkId uplink, Time now) override { uplinks_.held(node, uplink, now); }
  void came_through(uint32_t packet, Time now) override;
  void lost(uint32_t packet, PacketLoss why) override;
  void tell_pause(uint32_t real, unsigned cls, bool pause, Time due) override;

  ShardState state_;
  QpPacing pacing_;
  CnpQueue cnps_;
  QpScheduler scheduler_;
  UplinkScheduler uplinks_;
  InboundPackets inbound_;
  FaultPath faults_;
  PauseFrames pauses_;
  Egress egress_;
  NetworkSide network_;
  Datagrams datagrams_;
  HostFrames host_;
  ReceivePath receive_path_;
  Delivery delivery_;
  ReusedSlots<EndpointWake> wakes_;
  CommandExecutor commands_;
  HeldPosts held_;
};

}  // namespace understudy
