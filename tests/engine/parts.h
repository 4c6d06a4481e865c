// The parts of a shard up to its network side, put together without the shard: what comes through
// a network with switches is kept.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/engine/network/network_side.h"
#include "tests/engine/rig.h"

namespace understudy {

struct Parts : private FabricUser {
  explicit Parts(const ShardConfig& config)
      : state(config),
        pacing(state),
        cnps(state),
        scheduler(state, pacing, cnps),
        uplinks(state, pacing, cnps, scheduler),
        inbound(state),
        faults(state, inbound),
        pauses(state),
        egress(state, faults, pauses),
        network(state, scheduler, uplinks, egress, *this) {}

  /// A frame of `bytes` from the real node, on its way to the emulated one at position `node`.
  uint32_t frame_from_real(uint32_t node, Time now, uint32_t bytes = 1000) {
    const std::vector<uint8_t> frame(bytes);
    FrameView view;
    view.frame = frame;
    return inbound.take(PacketKind::kFromReal, view, node, now);
  }
  /// A finished frame of the emulated node at position `node`, to the real one.
  uint32_t finished_frame(uint32_t node, uint32_t bytes = 1000) {
    const uint32_t id = state.pool.take(PacketSide::kOutbound);
    Packet& p = state.pool[id];
    p = Packet{};
    p.node = node;
    p.real = state.ports[0].nic;
    p.frame_bytes = bytes;
    p.wire_bytes = wire_bytes(bytes);
    return id;
  }
  /// A queue pair of the emulated node at position `node`, in `slot`, that may send.
  Qp& connect(uint32_t slot, uint32_t node) {
    QpConfig c;
    c.node = node;
    c.qpn = state.qps.qpn_of(slot);
    c.remote_qpn = c.qpn;
    c.timeout = 0;
    c.addressing.src_mac = node_mac(node);
    c.addressing.dst_mac = node_mac(kRealNode);
    c.addressing.src = node_ip(node);
    c.addressing.dst = node_ip(kRealNode);
    made.push_back(
        std::make_unique<Qp>(c, state.regions, state.ports.counters_of(kRealNode).rc, endpoint));
    QpSlot& q = state.qps[slot];
    q.qp = made.back().get();
    q.node = node;
    q.real = kRealNode;
    state.qps.rest(slot).endpoint = &endpoint;
    return *q.qp;
  }
  /// Runs the events of links and of the network up to `until`; times of kDeliver are kept.
  void run(Time until) {
    while (std::min(state.events.next(), network.next()) <= until) {
      if (network.next() < state.events.next()) {
        network.step();
        continue;
      }
      const ShardEvent e = state.events.pop();
      if (e.kind == EventKind::kLinkFree || e.kind == EventKind::kLinkArrive) {
        network.on_event(e);
      } else if (e.kind == EventKind::kDeliver) {
        arrived.push_back({e.index, e.time});
      } else if (e.kind == EventKind::kDepart) {
        egress.on_depart(e.index, e.time);
      }
    }
  }
  uint64_t drops(Drop reason) const {
    return state.ports[0].counters.drops[static_cast<size_t>(reason)];
  }

  struct Arrived {
    uint32_t packet;
    Time at;
  };

  RigEndpoint endpoint;
  std::vector<std::unique_ptr<Qp>> made;
  std::vector<Arrived> arrived;
  ShardState state;
  QpPacing pacing;
  CnpQueue cnps;
  QpScheduler scheduler;
  UplinkScheduler uplinks;
  InboundPackets inbound;
  FaultPath faults;
  PauseFrames pauses;
  Egress egress;
  NetworkSide network;

 private:
  uint32_t next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) override {
    return uplinks.next_packet(node, uplink, blocked, now);
  }
  uint64_t next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) override {
    return uplinks.next_turn(node, uplink, blocked, now);
  }
  void came_through(uint32_t packet, Time now) override {
    if (state.pool[packet].kind == PacketKind::kFromReal) return arrived.push_back({packet, now});
    egress.depart(packet, 0);
  }
  void lost(uint32_t packet, PacketLoss why) override { drop_lost(state, packet, why); }
  void tell_pause(uint32_t real, unsigned cls, bool pause, Time due) override {
    state.ports.of(real).pfc.tell(cls, pause, due);
  }
};

inline Time at_ns(int64_t ns) { return Time::zero() + Duration::ns(ns); }

/// A WRITE of `bytes` of zeros.
inline WorkRequest write_of(uint32_t bytes, uint64_t id = 1) {
  WorkRequest w;
  w.id = id;
  w.length = bytes;
  return w;
}

/// A real node and an emulated one at links of 400 Gbit/s and 500 ns, with a switch between them or
/// without.
inline ShardConfig two_nodes(bool with_switch) {
  const Rate rate = Rate::bits_per_second(400'000'000'000);
  ShardConfig c = rig_config(rate, Duration::ns(500));
  if (!with_switch) return c;
  auto network = std::make_shared<SwitchedNetwork>();
  Graph& g = network->graph;
  const VertexId real = g.add_vertex({VertexKind::kNic, "n0", 0, 0, 0});
  const VertexId emulated = g.add_vertex({VertexKind::kNic, "n1", 1, 0, 0});
  const VertexId middle = g.add_vertex({VertexKind::kSwitch, "s0", 0, 0, 1});
  const LinkId first = g.connect(real, middle, rate, Duration::ns(500));
  const LinkId second = g.connect(emulated, middle, rate, Duration::ns(500));
  network->settings.classes = {ClassSettings()};
  network->nics = {real, emulated};
  network->cables = {{first}, {second}};
  c.network = std::move(network);
  return c;
}

}  // namespace understudy
