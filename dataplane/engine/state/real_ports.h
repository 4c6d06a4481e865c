// The real NICs of a shard, each with its wire, what waits to leave by it, and what it counts.
// Positions are those of the node table.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/engine/state/counters.h"
#include "dataplane/engine/state/link_ids.h"
#include "dataplane/engine/state/packet_pool.h"
#include "dataplane/engine/state/port_pfc.h"
#include "dataplane/engine/state/shard_config.h"
#include "dataplane/node/node_table.h"

namespace understudy {

/// A real NIC and its wire.
struct RealPort {
  RealPort(uint32_t nic_position, const ShardWire& wire, const ShardConfig& config);
  uint32_t nic;  ///< position in the node table
  Rate physical;
  Serializer in,
      out;  ///< at that rate: the times of what the real NIC sends, and of what it gets
  PortPfc pfc;
  /// Modelled packets to the real node by class, each in order of departure.
  std::array<PacketFifo, kLinkClasses> departures;
  PacketFifo send_now;     ///< answers that bypass the fabric
  uint32_t coming_in = 0;  ///< packets on the calendar to arrive at the real node's link
  Time next_question;      ///< for the real NIC's MAC
  ShardCounters counters;
};

class RealPorts {
 public:
  /// `config` outlives this; MACs that real NICs are heard to have are written into its node table.
  explicit RealPorts(ShardConfig& config);

  uint32_t size() const { return static_cast<uint32_t>(ports_.size()); }
  RealPort& operator[](uint32_t port) { return ports_[port]; }
  const RealPort& operator[](uint32_t port) const { return ports_[port]; }
  auto begin() { return ports_.begin(); }
  auto end() { return ports_.end(); }
  auto begin() const { return ports_.begin(); }
  auto end() const { return ports_.end(); }

  bool is_real(uint32_t node) const { return port_at_[node] != kNoPort; }
  /// Of the real NIC at this position.
  uint32_t index_of(uint32_t real) const { return port_at_[real]; }
  RealPort& of(uint32_t real) { return ports_[port_at_[real]]; }
  ShardCounters& counters_of(uint32_t real) { return of(real).counters; }
  /// Position of the real NIC that what the NIC at `node` sends to this address goes to. A
  /// reference node knows no addresses of others: all are at the end of its NIC's cable.
  uint32_t nic_toward(const IpAddress& to, uint32_t node) const;

  /// The port that frames come in from.
  RealPort& here() { return ports_[here_]; }
  const RealPort& here() const { return ports_[here_]; }
  uint32_t here_index() const { return here_; }
  void receive_from(uint32_t port) { here_ = port; }
  /// Whether a frame that came in here is not of its NIC's VLAN.
  bool is_of_wrong_vlan(const FrameView& view) const {
    const auto& tci = nodes_.nics()[here().nic].vlan_tci;
    if (!tci) return view.vlans != 0 && view.vlan[0].vid() != 0;  // VID 0 is a priority tag only
    return view.vlans == 0 || view.vlan[0].vid() != (*tci & 0xfff);
  }
  /// Whether a real NIC's address may be in what comes in here: nobody speaks in the name of one at
  /// another port.
  bool is_here(const NodeNic& real) const {
    return ports_.size() == 1 || nodes_.position(real) == here().nic;
  }
  /// A frame came in here from this MAC: it is the real NIC's that has the address `from`, if that
  /// one is here.
  void learn_mac(const IpAddress& from, const MacAddress& mac) {
    const NodeNic& real = nodes_.nics()[here().nic];
    if ((mac != real.mac || !real.mac_known) && !mac.is_multicast()) set_mac(from, mac);
  }

 private:
  void set_mac(const IpAddress& from, const MacAddress& mac);

  static constexpr uint32_t kNoPort = 0xffffffff;

  NodeTable& nodes_;
  std::vector<RealPort> ports_;
  std::vector<uint32_t> port_at_;  ///< of real NICs, by position in the node table
  uint32_t here_ = 0;
};

}  // namespace understudy
