// The emulated network as a graph: who is joined to whom, how fast and how far. No packets here;
// the collective model reads it too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/nic_limits.h"
#include "dataplane/base/units.h"

namespace understudy {

using VertexId = uint32_t;
using LinkId = uint32_t;  ///< of one direction; a cable's two directions are 2k and 2k + 1
inline constexpr VertexId kNoVertex = 0xffffffff;
inline constexpr LinkId kNoLink = 0xffffffff;

/// The other direction of the same cable.
constexpr LinkId reverse(LinkId link) { return link ^ 1; }

enum class VertexKind : uint8_t {
  kNic,     ///< where RoCE packets begin and end
  kGpu,     ///< where NVLink and PCIe begin
  kSwitch,  ///< forwards only: a switch, a node's router in a torus, an NVSwitch, a PCIe bridge
};

struct Vertex {
  VertexKind kind = VertexKind::kSwitch;
  std::string name;    ///< "gpu", "w3", "w3:1" (second NIC), "leaf2"; unique
  uint32_t node = 0;   ///< NIC, GPU: position of its node in the configuration
  uint16_t unit = 0;   ///< NIC, GPU: its number in the node
  uint8_t tier = 0;    ///< 0 ends, 1 leaf, 2 spine, 3 core
  NicLimits nic = {};  ///< NIC
};

/// One direction of a cable.
struct GraphLink {
  VertexId from = kNoVertex, to = kNoVertex;
  Rate rate;  ///< never unlimited
  Duration latency;
  double loss = 0;           ///< probability that a packet is lost on it
  PacketLimits limits = {};  ///< of the NIC at one of its ends

  /// Of a packet of so many bytes as links count.
  Duration time_for(uint64_t wire_bytes) const {
    return std::max(rate.time_for(wire_bytes), limits.time_for(wire_bytes));
  }
  /// At which packets of so many bytes pass it, one behind the other; `rate` where nothing limits
  /// them more.
  Rate rate_for(uint64_t wire_bytes) const { return limited_rate(rate, limits, wire_bytes); }
  struct Outage {
    Time from, to;
  };
  std::vector<Outage> down = {};  ///< ascending, apart
};

/// A NIC that tells the switch at the other end of its link to pause, again and again.
struct PfcStorm {
  bool on = false;            ///< else it lets the switch go on
  uint8_t priorities = 0xff;  ///< bit set, of those that PFC can pause
  uint32_t quanta = 65'535;   ///< of each PAUSE; the next one comes when they have run out
  Time end = Time::never();   ///< when a change says that it is over
};

/// From `at` on, a link is another one in what is given.
struct RateChange {
  Time at = {};
  LinkId link = kNoLink;
  std::optional<bool> down = {};
  /// The node of the NIC at one of its ends stands still, or goes on: nothing enters the link
  /// behind that NIC, and what comes to the NIC is lost, as by an outage.
  std::optional<bool> paused = {};
  std::optional<Rate> rate = {};
  std::optional<Duration> latency = {};
  std::optional<double> loss = {};  ///< probability that a packet is lost on it
  /// The switch at its beginning, or at its end, is down, or up again: the link is down with it. A
  /// switch that goes down loses all packets that it holds, and what still comes to it.
  std::optional<bool> from_dead = {}, to_dead = {};
  uint32_t outage = 0xffffffff;        ///< it begins the one of this number (recoveries.h), or none
  std::optional<PfcStorm> storm = {};  ///< of the NIC at its end: PAUSEs come to its beginning

  /// It may keep packets from passing.
  bool may_stop() const { return loss || down || paused || from_dead || to_dead; }
  /// It takes the link down or brings it up: routing may react.
  bool moves_link() const { return down || from_dead || to_dead; }
  /// It takes something out.
  bool stops() const {
    const auto is = [](const std::optional<bool>& what) { return what.value_or(false); };
    return is(down) || is(paused) || is(from_dead) || is(to_dead) || (storm && storm->on);
  }
  /// It lets something go on.
  bool ends_stop() const { return (may_stop() || storm) && !loss && !stops(); }
};

class Graph {
 public:
  VertexId add_vertex(Vertex vertex);
  /// Both directions of a cable; gives the one from `a` to `b`.
  LinkId connect(VertexId a, VertexId b, Rate rate, Duration latency);

  const std::vector<Vertex>& vertices() const { return vertices_; }
  const std::vector<GraphLink>& links() const { return links_; }
  GraphLink& link(LinkId id) { return links_[id]; }
  const GraphLink& link(LinkId id) const { return links_[id]; }
  /// Links that leave `vertex`, in the order in which they were made.
  std::span<const LinkId> out(VertexId vertex) const { return out_[vertex]; }
  /// Of those that leave a NIC, all but the ones to its own node's GPUs.
  std::vector<LinkId> uplinks(VertexId nic) const;
  /// "leaf0 -> spine1", for reports and errors.
  std::string link_name(LinkId id) const;
  /// The vertex of this name, or kNoVertex.
  VertexId find(const std::string& name) const;

 private:
  std::vector<Vertex> vertices_;
  std::vector<GraphLink> links_;
  std::vector<std::vector<LinkId>> out_;
};

}  // namespace understudy
