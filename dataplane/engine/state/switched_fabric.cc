#include "dataplane/engine/state/switched_fabric.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

constexpr uint32_t kFcsBytes = 4;
/// Of a spraying sender's packets so many have hashes of their own before they come again.
constexpr uint16_t kSprayed = 64;

/// Source and destination of a packet of a real node.
std::pair<uint32_t, uint32_t> ends_of(const Packet& p) {
  if (p.kind == PacketKind::kThrough) return {p.node, p.real};
  return {p.real, p.node};
}

uint64_t mixed(uint64_t x) {
  x *= 0x9e3779b97f4a7c15;
  return x ^ x >> 32;
}

}  // namespace

SwitchedFabric::SwitchedFabric(std::shared_ptr<const SwitchedNetwork> network,
                               std::vector<RealEnd> real, PacketPool& pool, FabricUser& user,
                               NetworkTraffic* background)
    : config_(std::move(network)),
      real_(std::move(real)),
      real_at_(config_->nics.size(), kNobody),
      pool_(pool),
      user_(user),
      background_(background),
      routes_(config_->graph, config_->choice, config_->seed, config_->static_routes),
      next_hops_(config_->graph, config_->choice, config_->seed),
      network_(config_->graph, config_->settings, *this, &next_hops_),
      node_at_(config_->graph.vertices().size(), kNobody),
      spray_(config_->nics.size()) {
  network_.reserve(config_->packets);
  const Graph& graph = config_->graph;
  for (uint32_t i = 0; i < config_->nics.size(); ++i) {
    node_at_[config_->nics[i]] = i;
    uplinks_.push_back(graph.uplinks(config_->nics[i]));
  }
  for (uint32_t i = 0; i < real_.size(); ++i) real_at_[real_[i].nic] = i;
  learn_ways();
  for (const RealEnd& end : real_) {
    first_uplink_.push_back(backlog_.size());
    for (const LinkId up : uplinks_[end.nic]) {
      for (size_t c = 0; c < config_->settings.classes.size(); ++c) {
        real_queues_.emplace_back(pool_.capacity());
      }
      backlog_.push_back(0);
      network_.lead_outside(reverse(up), end.pfc);
      for (const LinkId link : {up, reverse(up)}) {
        network_.set_rate(link, on_wire(link, graph.link(link).rate));
      }
    }
  }
  if (background_ == nullptr) return;
  before_real_.resize(graph.links().size());
  background_->start(network_);
  for (const RealEnd& end : real_) {
    for (const LinkId up : uplinks_[end.nic]) {
      for (const LinkId link : {up, reverse(up)}) {
        background_->link_changed({.link = link, .rate = on_wire(link, graph.link(link).rate)});
      }
    }
  }
}

uint8_t SwitchedFabric::priority_of(uint8_t tos, std::optional<uint16_t> vlan_tci) const {
  std::optional<uint8_t> pcp;
  if (vlan_tci) pcp = static_cast<uint8_t>(*vlan_tci >> 13);
  return config_->settings.priorities.priority_of(tos, pcp);
}

SwitchedFabric::Departure SwitchedFabric::departure(uint32_t source, uint32_t sink, uint16_t flow) {
  const VertexId from = config_->nics[source], to = config_->nics[sink];
  if (longest_ != 0 && routes_.is_static(from, to)) return static_departure(source, sink, flow);
  Departure d{kNoLink, Way::by_hash(to, flow_hash(from, to, flow)), 0};
  d.first = next_hops_.next(from, d.way);
  return d;
}

SwitchedFabric::Departure SwitchedFabric::static_departure(uint32_t source, uint32_t sink,
                                                           uint16_t flow) {
  const uint64_t key = uint64_t{source} << 40 | uint64_t{sink} << 16 | flow;
  Path& path = known_[mixed(key) % kKnownPaths];
  if (path.key != key) {
    const VertexId from = config_->nics[source], to = config_->nics[sink];
    path.key = key;
    path.hops = static_cast<uint8_t>(routes_.path(from, to, flow_hash(from, to, flow), path.links));
  }
  return {path.links[0], Way::along(path.links), static_cast<uint8_t>(path.hops - 1)};
}

/// Nothing is allocated later: what switches and routes keep of a destination is computed here, and
/// all paths of a pair have as many links.
void SwitchedFabric::learn_ways() {
  for (const VertexId nic : config_->nics) next_hops_.learn(nic);
  if (config_->static_routes.empty()) return;
  for (uint32_t node = 0; node < config_->nics.size(); ++node) {
    for (const RealEnd& other : real_) {
      if (node == other.nic) continue;
      const VertexId end = config_->nics[node], real = config_->nics[other.nic];
      longest_ = std::max(
          {longest_, routes_.path(end, real, 0).size(), routes_.path(real, end, 0).size()});
    }
  }
  known_.resize(kKnownPaths);
  of_known_.resize(kKnownPaths * longest_);
  of_packets_.resize(pool_.capacity() * longest_);
  for (size_t i = 0; i < kKnownPaths; ++i) known_[i].links = of_known_.data() + i * longest_;
}

/// A sprayed packet takes any path that begins with this link.
SwitchedFabric::Departure SwitchedFabric::departure_by(uint32_t from, uint32_t to, uint16_t flow,
                                                       LinkId uplink) {
  if (routes_.choice() != RouteChoice::kSpray) return departure(from, to, flow);
  for (uint16_t tries = 0; tries < kSprayed; ++tries) {
    const Departure d = departure(from, to, spray_[from]++ % kSprayed);
    if (d.first == uplink) return d;
  }
  return departure(from, to, 0);
}

/// The network's packet for one of the pool.
PacketId SwitchedFabric::wrap(uint32_t packet, const Departure& departure) {
  const Packet& p = pool_[packet];
  const PacketId id = network_.take();
  NetPacket& n = network_[id];
  n.way = departure.way;
  if (n.way.has_links()) {
    LinkId* links = of_packets_.data() + packet * longest_;
    std::copy_n(n.way.links(), departure.links, links + 1);
    n.way = Way::along(links);
  }
  n.priority = p.priority;
  n.ect = (p.tos & 3) == 1 || (p.tos & 3) == 2;
  n.kind = kOthersPacket;
  n.buffer_bytes = p.frame_bytes + kFcsBytes;
  n.wire_bytes = p.wire_bytes;
  n.flow = packet;
  return id;
}

size_t SwitchedFabric::position_of(uint32_t node, LinkId uplink) const {
  const std::vector<LinkId>& out = uplinks_[node];
  return first_uplink_[real_at_[node]] +
         static_cast<size_t>(std::find(out.begin(), out.end(), uplink) - out.begin());
}

void SwitchedFabric::enter(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  p.priority = priority_of(p.tos, p.vlan_tci);
  const auto [from, to] = ends_of(p);
  LinkId uplink = uplinks_[from].front();
  if (uplinks_[from].size() > 1 && routes_.choice() != RouteChoice::kSpray) {
    uplink = departure(from, to, p.udp_src).first;
  }
  const size_t at = position_of(from, uplink);
  const size_t classes = config_->settings.classes.size();
  real_queues_[at * classes + network_.class_of(p.priority)].push(packet);
  ++waiting_;
  backlog_[at] += p.frame_bytes + kFcsBytes;
  network_.ready(uplink, now);
  network_.note_backlog(uplink, backlog_[at], now);
}

void SwitchedFabric::held(LinkId nic, Time now) {
  if (background_ != nullptr) background_->held(nic, now);
  const uint32_t node = node_at_[config_->graph.link(nic).from];
  if (node != kNobody && !is_real(node)) user_.held(node, nic, now);
}

PacketId SwitchedFabric::pull(LinkId nic, uint8_t blocked, Time now) {
  const VertexId vertex = config_->graph.link(nic).from;
  const uint32_t node = node_at_[vertex];
  if (node == kNobody) {
    return background_ != nullptr ? background_->pull(nic, blocked, now) : kNoPacketId;
  }
  if (is_real(node)) {
    return background_ == nullptr ? pull_real(node, nic, blocked, now)
                                  : pull_beside_real(node, nic, blocked, now);
  }
  if (background_ == nullptr) return pull_of(node, nic, blocked, now);
  // Queue pairs and flows stand in one line.
  const uint64_t own = user_.next_turn(node, nic, blocked, now);
  const bool flows_first = background_->next_turn(nic, blocked, now) < own;
  if (!flows_first) {
    if (const PacketId id = pull_of(node, nic, blocked, now); id != kNoPacketId) return id;
  }
  const PacketId id = background_->pull(nic, blocked, now);
  return id != kNoPacketId || !flows_first ? id : pull_of(node, nic, blocked, now);
}

PacketId SwitchedFabric::pull_beside_real(uint32_t node, LinkId nic, uint8_t blocked, Time now) {
  uint32_t& before = before_real_[nic];
  if (before > 0) {
    --before;
    if (const PacketId id = background_->pull(nic, blocked, now); id != kNoPacketId) return id;
  }
  before = background_->senders(nic);
  if (const PacketId id = pull_real(node, nic, blocked, now); id != kNoPacketId) return id;
  return background_->pull(nic, blocked, now);
}

PacketId SwitchedFabric::pull_of(uint32_t node, LinkId nic, uint8_t blocked, Time now) {
  const uint32_t packet = user_.next_packet(node, nic, blocked, now);
  if (packet == kNoPacket) return kNoPacketId;
  pool_[packet].priority = priority_of(pool_[packet].tos, pool_[packet].vlan_tci);
  return wrap(packet, departure_by(node, pool_[packet].real, pool_[packet].udp_src, nic));
}

/// Classes of higher priority first.
PacketId SwitchedFabric::pull_real(uint32_t node, LinkId nic, uint8_t blocked, Time now) {
  const size_t at = position_of(node, nic), classes = config_->settings.classes.size();
  for (size_t c = classes; c-- > 0;) {
    PacketFifo& queue = real_queues_[at * classes + c];
    if (queue.empty()) continue;
    const uint32_t packet = queue.front();
    if ((blocked >> c & 1) != 0) {
      // One that is just coming in over the wire is not stopped in its middle.
      const Packet& p = pool_[packet];
      if (p.tail != now || !network_.began_before_pause(nic, static_cast<unsigned>(c), p.head)) {
        continue;
      }
    }
    queue.pop();
    --waiting_;
    backlog_[at] -= pool_[packet].frame_bytes + kFcsBytes;
    network_.note_backlog(nic, backlog_[at], now);
    const PacketId id =
        wrap(packet, departure_by(node, ends_of(pool_[packet]).second, pool_[packet].udp_src, nic));
    network_[id].head = pool_[packet].head;
    network_[id].tail = pool_[packet].tail;
    return id;
  }
  return kNoPacketId;
}

void SwitchedFabric::deliver(PacketId id, Time now) {
  const NetPacket& n = network_[id];
  if (n.kind != kOthersPacket) return background_->deliver(id, now);
  const uint32_t packet = n.flow;
  Packet& p = pool_[packet];
  p.head = n.head;
  p.tail = n.tail;
  p.ce = n.ce;
  network_.release(id);
  user_.came_through(packet, now);
}

void SwitchedFabric::lost(PacketId id, PacketLoss why, Time now) {
  const NetPacket& n = network_[id];
  if (n.kind != kOthersPacket) return background_->lost(id, why, now);
  user_.lost(n.flow, why);
}

/// Emulated NICs that have a choice of cables choose again. What a real NIC has put in front of a
/// cable stays there.
void SwitchedFabric::rerouted(Time now) {
  if (background_ != nullptr) background_->rerouted(now);
  for (uint32_t node = 0; node < uplinks_.size(); ++node) {
    if (uplinks_[node].size() > 1) ready(node, now);
  }
}

void SwitchedFabric::pause_leaves(LinkId link, unsigned cls, bool pause, Time now) {
  // The wire takes its own time; where it is as fast as the model both end together.
  const RealEnd& end = real_[real_at_[node_at_[config_->graph.link(link).to]]];
  const Duration modelled = network_.pfc_time_on(link);
  const Duration wire = end.physical.time_for(config_->settings.pfc_frame_bytes);
  user_.tell_pause(end.nic, cls, pause, now + std::max(Duration(), modelled - wire));
}

void SwitchedFabric::hear_pause(uint32_t real, unsigned cls, bool pause, bool frame, Time now) {
  for (const LinkId up : uplinks_[real]) network_.pause_from_outside(up, cls, pause, frame, now);
}

/// Where the model of a real NIC's link is faster than the wire to it, the wire is the link.
Rate SwitchedFabric::on_wire(LinkId link, Rate rate) const {
  const GraphLink& l = config_->graph.link(link);
  for (const VertexId end : {l.from, l.to}) {
    const uint32_t node = node_at_[end];
    if (node == kNobody || !is_real(node)) continue;
    const Rate wire = real_[real_at_[node]].physical;
    if (!wire.is_unlimited()) rate = std::min(rate, wire);
  }
  return rate;
}

void SwitchedFabric::set_one_link(RateChange change) {
  if (change.rate) change.rate = on_wire(change.link, *change.rate);
  network_.change(change);
  if (background_ != nullptr) background_->link_changed(change);
}

bool SwitchedFabric::set_link(NodeId node, const RateChange& given, Time now) {
  RateChange change = given;
  change.at = now;
  if (change.link != kNoLink) {
    if (change.link >= links()) return false;
    set_one_link(change);
    return true;
  }
  if (node >= config_->cables.size()) return false;
  for (const LinkId up : config_->cables[node]) {
    for (const LinkId link : {up, reverse(up)}) {
      change.link = link;
      set_one_link(change);
    }
  }
  return true;
}

}  // namespace understudy
