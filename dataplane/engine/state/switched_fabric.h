// A shard's packets in a network with switches (fabric/network.h), in place of its two links a
// path: the queues of the real NICs in front, emulated NICs that pull from their queue pairs, and
// what else loads the same links.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/engine/state/packet_pool.h"
#include "dataplane/fabric/network.h"
#include "dataplane/fabric/next_hops.h"
#include "dataplane/fabric/routes.h"

namespace understudy {

/// The network of a shard. Immutable, handed over by control.
struct SwitchedNetwork {
  Graph graph;
  NetworkSettings settings;
  RouteChoice choice = RouteChoice::kEcmp;
  std::vector<StaticRoute> static_routes;
  uint64_t seed = 1;                        ///< of the switches' hashes
  std::vector<VertexId> nics;               ///< by position in the shard's node table
  std::vector<std::vector<LinkId>> cables;  ///< of all NICs of a node, upwards; by NodeId
  uint32_t packets = 8192;  ///< room for as many at once, before the first allocation
};

/// A real NIC at its edge.
struct RealEnd {
  uint32_t nic = 0;  ///< position in the shard's node table
  Rate physical;     ///< of the wire to it; where the model's link is faster, the wire is the link
  bool pfc = false;  ///< it is told of pauses
};

/// The shard, as its network sees it. Packets are positions in its pool.
class FabricUser {
 public:
  virtual ~FabricUser() = default;
  /// What the emulated NIC at position `node` sends next by `uplink`, but nothing of the classes in
  /// `blocked`; kNoPacket if there is nothing.
  virtual uint32_t next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) = 0;
  /// When that stood in line, as NetworkTraffic::next_turn().
  virtual uint64_t next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) = 0;
  /// It would send by `uplink`, through which nothing comes now.
  virtual void held(uint32_t node, LinkId uplink, Time now) {
    static_cast<void>(node), static_cast<void>(uplink), static_cast<void>(now);
  }
  /// At its emulated NIC whole, or at the real one's wire with its head.
  virtual void came_through(uint32_t packet, Time now) = 0;
  virtual void lost(uint32_t packet, PacketLoss why) = 0;
  /// The real NIC is to pause this class, or may go on: the frame's first byte is due then.
  virtual void tell_pause(uint32_t real, unsigned cls, bool pause, Time due) = 0;
};

class SwitchedFabric final : public NetworkEnds {
 public:
  /// `pool` and what follows outlive this; `background` may be null.
  SwitchedFabric(std::shared_ptr<const SwitchedNetwork> network, std::vector<RealEnd> real,
                 PacketPool& pool, FabricUser& user, NetworkTraffic* background);

  Time next() { return network_.next(); }
  void step() { network_.step(); }

  /// The class of a packet of node `node` with this traffic class and, where tagged, PCP.
  unsigned class_of(uint8_t tos, std::optional<uint16_t> vlan_tci) const {
    return network_.class_of(priority_of(tos, vlan_tci));
  }
  /// Whether what the emulated NIC sends to a real one from this UDP port leaves by `uplink`, if it
  /// has several.
  bool leaves_by(uint32_t node, uint32_t real, uint16_t udp_src, LinkId uplink) {
    return uplinks_[node].size() == 1 || routes_.choice() == RouteChoice::kSpray ||
           departure(node, real, udp_src).first == uplink;
  }
  /// A queue pair of the NIC at position `node` stands in line.
  uint64_t take_turn(uint32_t node) { return network_.take_turn(config_->nics[node]); }
  /// Some queue pair of `node` may have something to send.
  void ready(uint32_t node, Time now) {
    for (const LinkId uplink : uplinks_[node]) network_.ready(uplink, now);
  }
  /// A packet of a real node is in front of its NIC's link.
  void enter(uint32_t packet, Time now);
  /// How many wait there.
  uint64_t waiting() const { return waiting_; }
  /// The real NIC stops what comes to it in class `cls`, or lets it go on; by a frame, or because
  /// the last one's time is over.
  void hear_pause(uint32_t real, unsigned cls, bool pause, bool frame, Time now);

  /// Changes `change.link`, or, if that is none, all cables of a node. False: there are none.
  bool set_link(NodeId node, const RateChange& change, Time now);
  /// The flows of a group stop, or go on. False: nothing carries flows.
  bool set_running(uint32_t group, bool running, Time now) {
    if (background_ == nullptr) return false;
    background_->set_running(group, running, now);
    return true;
  }

  const Network& network() const { return network_; }
  size_t links() const { return config_->graph.links().size(); }

  // NetworkEnds
  PacketId pull(LinkId nic, uint8_t blocked, Time now) override;
  void deliver(PacketId packet, Time now) override;
  void lost(PacketId packet, PacketLoss why, Time now) override;
  void pause_leaves(LinkId link, unsigned cls, bool pause, Time now) override;
  void wake(uint32_t index, Time now) override { background_->wake(index, now); }
  void rerouted(Time now) override;
  /// Of queue pairs: who sends to whom by which UDP port, which is what switches hash.
  uint64_t stream_of(const NetPacket& packet) const override {
    if (packet.kind != kOthersPacket) return background_->stream_of(packet);
    return packet.way.key ^ uint64_t { packet.way.to } << 32 ^ kOwnStream;
  }
  void held(LinkId nic, Time now) override;
  void prefetch(uint32_t index, int stage) const override { background_->prefetch(index, stage); }
  void prefetch_delivery(const NetPacket& packet) const override {
    if (packet.kind != kOthersPacket) background_->prefetch_delivery(packet);
  }

 private:
  void set_one_link(RateChange change);
  static constexpr size_t kKnownPaths = 4096;
  static constexpr uint32_t kNobody = 0xffffffff;
  static constexpr uint64_t kOwnStream = uint64_t{1} << 63;  ///< flows have lower numbers
  struct Path {
    uint64_t key = ~uint64_t{0};
    LinkId* links = nullptr;
    uint8_t hops = 0;
  };

  /// How a packet leaves its NIC. A way that has its links is valid until the next call.
  struct Departure {
    LinkId first = kNoLink;
    Way way;
    uint8_t links = 0;  ///< that the way has, but the first
  };

  /// From one NIC to another.
  Departure departure(uint32_t from, uint32_t to, uint16_t flow);
  Departure departure_by(uint32_t from, uint32_t to, uint16_t flow, LinkId uplink);
  Departure static_departure(uint32_t from, uint32_t to, uint16_t flow);
  Rate on_wire(LinkId link, Rate rate) const;
  uint8_t priority_of(uint8_t tos, std::optional<uint16_t> vlan_tci) const;
  void learn_ways();
  PacketId wrap(uint32_t packet, const Departure& departure);
  PacketId pull_beside_real(uint32_t node, LinkId nic, uint8_t blocked, Time now);
  PacketId pull_of(uint32_t node, LinkId nic, uint8_t blocked, Time now);
  PacketId pull_real(uint32_t node, LinkId nic, uint8_t blocked, Time now);
  /// Of a real NIC's uplink, among all of these.
  size_t position_of(uint32_t node, LinkId uplink) const;
  bool is_real(uint32_t node) const { return real_at_[node] != kNobody; }

  std::shared_ptr<const SwitchedNetwork> config_;
  std::vector<RealEnd> real_;
  std::vector<uint32_t> real_at_;     ///< by position in the node table: in real_, or kNobody
  std::vector<size_t> first_uplink_;  ///< of each in real_: position_of() its first one
  PacketPool& pool_;
  FabricUser& user_;
  NetworkTraffic* background_;
  Routes routes_;
  NextHops next_hops_;
  Network network_;
  std::vector<uint32_t> node_at_;             ///< by vertex: position in the node table, or kNobody
  std::vector<std::vector<LinkId>> uplinks_;  ///< into the fabric, by position in the node table
  /// In front of the real NICs' links, by link and class.
  std::vector<PacketFifo> real_queues_;
  std::vector<uint64_t> backlog_;  ///< bytes of the same, by link
  uint64_t waiting_ = 0;
  std::vector<uint16_t> spray_;  ///< by position in the node table: of the NIC's next packet
  // Static routes, whose packets have their links:
  size_t longest_ = 0;              ///< links of a path
  std::vector<Path> known_;         ///< by hash of the key
  std::vector<LinkId> of_known_;    ///< their links, longest_ each
  std::vector<LinkId> of_packets_;  ///< the same of packets on their way, by position in the pool
  /// The real NIC's packets are in line by themselves, one sender among those beside it. By link:
  /// how many of theirs may still leave before its next one.
  std::vector<uint32_t> before_real_;
};

}  // namespace understudy
