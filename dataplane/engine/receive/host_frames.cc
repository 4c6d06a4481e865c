#include "dataplane/engine/receive/host_frames.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

constexpr Duration kQuestionEvery = Duration::ms(200);
/// A frame of the host waits so long for a MAC where others, to other real NICs, wait behind it:
/// neighbours answer sooner, and TCP repeats what is dropped.
constexpr Duration kLongestWait = Duration::ms(20);

}  // namespace

HostFrames::HostFrames(ShardState& state, InboundPackets& inbound, Egress& egress,
                       NetworkSide& network)
    : config_(state.config),
      pool_(state.pool),
      ports_(state.ports),
      inbound_(inbound),
      egress_(egress),
      network_(network),
      to_host_(state.ports.size(), 1 << 20),
      from_host_(1 << 20) {}

void HostFrames::answer_echo(uint32_t packet, Time now) {
  FrameView view;
  RoceView roce;
  parse_frame({pool_.buffer(packet), pool_[packet].frame_bytes}, view, roce);
  answer(NeighbourQuery::kEcho, view, config_.nodes.nics()[pool_[packet].node], now);
  pool_.release(packet);
}

Time HostFrames::next() const {
  return !from_host_.empty() && !host_waits_ ? Time::zero() : host_asks_again_;
}

void HostFrames::receive(const FrameView& view, Time now) {
  if (ports_.is_of_wrong_vlan(view)) return ports_.here().counters.drop(Drop::kWrongVlan);
  const NodeNic* node = nullptr;
  const NeighbourQuery query = neighbour_query(view, config_.nodes, node);
  ports_.learn_mac(view.ether_type == kEtherArp ? arp_sender(view) : view.src, view.src_mac);
  if (query == NeighbourQuery::kNone) {
    if (ports_.size() == 1 || !pass_on(view, now)) hand_to_host(view);
    return;
  }
  if (query != NeighbourQuery::kEcho || !config_.icmp_through_fabric) {
    return answer(query, view, *node, now);
  }
  const uint32_t id = inbound_.take(PacketKind::kRawIn, view, config_.nodes.position(*node), now);
  if (id == kNoPacket) return;
  std::memcpy(pool_.buffer(id), view.frame.data(), view.frame.size());
  network_.accept(id, now);
}

void HostFrames::answer(NeighbourQuery query, const FrameView& view, const NodeNic& node,
                        Time now) {
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) return ports_.here().counters.drop(Drop::kNoBuffer);
  const uint32_t bytes =
      answer_neighbour(query, view, node, {pool_.buffer(id), kPacketBufferBytes});
  if (bytes == 0) {
    pool_.release(id);
    return ports_.here().counters.drop(Drop::kTruncated);
  }
  ++ports_.here().counters.neighbour_answers;
  Packet& p = pool_[id];
  p.kind = PacketKind::kRaw;
  p.qpn = 0;
  p.ce = false;
  p.tos = view.tos;
  p.udp_src = 0;
  p.vlan_tci = node.vlan_tci;
  p.frame_bytes = bytes;
  p.wire_bytes = wire_bytes(bytes);
  p.node = config_.nodes.position(node);
  p.real = ports_.here().nic;
  if (query == NeighbourQuery::kEcho && config_.icmp_through_fabric) {
    network_.send_finished(id, now);
  } else {
    egress_.send_now(ports_.here(), id, now);
  }
}

/// What real nodes say to one another beside RoCE bypasses the fabric, as it does between them and
/// the host. False if it is for no other real NIC.
bool HostFrames::pass_on(const FrameView& view, Time now) {
  const NodeNic* to = config_.nodes.find(frame_target(view));
  if (to == nullptr || !to->real) return false;
  if (to->host_speaks && view.protocol == kIpProtoTcp && view.ether_type != kEtherArp) return false;
  const uint32_t real = config_.nodes.position(*to);
  if (real == ports_.here().nic) return false;
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) {
    ports_.here().counters.drop(Drop::kNoBuffer);
    return true;
  }
  Packet& p = pool_[id];
  p.kind = PacketKind::kRaw;
  p.qpn = 0;
  p.ce = false;
  p.tos = view.tos;
  p.udp_src = 0;
  p.frame_bytes = static_cast<uint32_t>(view.frame.size());
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.node = ports_.here().nic;
  p.real = real;
  std::memcpy(pool_.buffer(id), view.frame.data(), view.frame.size());
  egress_.send_now(ports_.of(real), id, now);
  return true;
}

void HostFrames::hand_to_host(const FrameView& view) {
  if (view.ether_type == kEtherArp) return;  // a reply, or a request for somebody else
  const NodeNic* node = config_.nodes.find(view.dst);
  if (node == nullptr || (node->real && !node->host_speaks)) {
    return ports_.here().counters.drop(Drop::kNotForUs);
  }
  const uint32_t bytes =
      static_cast<uint32_t>(sizeof(EthHeader)) + static_cast<uint32_t>(view.frame.size()) - view.l3;
  ByteRing& ring = to_host_[ports_.here_index()];
  uint8_t* out = ring.reserve(bytes);
  if (out == nullptr) return ports_.here().counters.drop(Drop::kHostRingFull);
  EthHeader eth;
  std::memcpy(eth.dst, config_.host_mac.bytes.data(), 6);
  std::memcpy(eth.src, view.src_mac.bytes.data(), 6);
  eth.type = view.ether_type;
  std::memcpy(out, &eth, sizeof eth);
  std::memcpy(out + sizeof eth, view.frame.data() + view.l3, view.frame.size() - view.l3);
  ring.commit(bytes);
  ++ports_.here().counters.to_host;
}

void HostFrames::send(Time now, std::span<TxSink* const> sinks) {
  if (unresolved_.from != nullptr) {
    ask_for_real_mac(*unresolved_.from, unresolved_.own, unresolved_.target, now, sinks);
    unresolved_ = {};
  }
  host_waits_ = false;
  host_asks_again_ = Time::never();
  for (;;) {
    const auto frame = from_host_.front();
    if (frame.data() == nullptr) return;
    FrameView view;
    RoceView roce;
    const FrameKind kind = parse_frame(frame, view, roce);
    const NodeNic* node = kind == FrameKind::kIp ? config_.nodes.find(view.src) : nullptr;
    if (node == nullptr || (node->real && !node->host_speaks)) {  // the namespace's own chatter
      from_host_.pop();
      continue;
    }
    if (!send_one(view, *node, now, sinks)) return;
    from_host_.pop();
  }
}

/// False if the host's frames have to wait; a frame that is dropped is done. The TAP is untagged and knows no MAC of ours, so both
/// are set here.
bool HostFrames::send_one(const FrameView& view, const NodeNic& node, Time now,
                          std::span<TxSink* const> sinks) {
  const uint32_t position = ports_.nic_toward(view.dst, config_.nodes.position(node));
  const NodeNic& real = config_.nodes.nics()[position];
  ShardCounters& counters = ports_.counters_of(position);
  TxSink& sink = *sinks[ports_.index_of(position)];
  if (!real.mac_known) {
    if (waits_for_mac(node, view, now, sinks)) return false;
    counters.drop(Drop::kNoNeighbour);
    return true;
  }
  host_gives_up_ = Time::never();
  const uint32_t tag = real.vlan_tci ? static_cast<uint32_t>(sizeof(VlanTag)) : 0;
  const uint32_t body = static_cast<uint32_t>(view.frame.size()) - view.l3;
  const uint32_t bytes = static_cast<uint32_t>(sizeof(EthHeader)) + tag + body;
  uint8_t* out = sink.reserve(bytes);
  if (out == nullptr) {
    ++counters.tx_busy;
    host_waits_ = true;
    return false;
  }
  EthHeader eth;
  std::memcpy(eth.dst, real.mac.bytes.data(), 6);
  std::memcpy(eth.src, node.mac.bytes.data(), 6);
  eth.type = tag != 0 ? kEtherVlan : view.ether_type;
  std::memcpy(out, &eth, sizeof eth);
  if (tag != 0) {
    const VlanTag vlan{*real.vlan_tci, view.ether_type};
    std::memcpy(out + sizeof eth, &vlan, sizeof vlan);
  }
  std::memcpy(out + sizeof eth + tag, view.frame.data() + view.l3, body);
  sink.commit(bytes, now);
  ++counters.from_host;
  ++counters.tx_frames;
  counters.tx_bytes += bytes;
  return true;
}

/// All frames of the host go to real NICs: they wait for an answer in their ring. False if the first
/// one, which `view` is, has held up others for too long.
bool HostFrames::waits_for_mac(const NodeNic& node, const FrameView& view, Time now,
                               std::span<TxSink* const> sinks) {
  const RealPort& port = ports_.of(ports_.nic_toward(view.dst, config_.nodes.position(node)));
  ask_for_real_mac(node, view.src, view.dst, now, sinks);
  if (ports_.size() > 1 && host_gives_up_.is_never()) host_gives_up_ = now + kLongestWait;
  if (host_gives_up_ <= now) {
    host_gives_up_ = Time::never();
    return false;
  }
  host_waits_ = true;
  host_asks_again_ =
      std::min(port.next_question > now ? port.next_question : Time::never(), host_gives_up_);
  return true;
}

void HostFrames::ask_for_real_mac(const NodeNic& node, const IpAddress& own,
                                  const IpAddress& target, Time now,
                                  std::span<TxSink* const> sinks) {
  RealPort& port = ports_.of(ports_.nic_toward(target, config_.nodes.position(node)));
  if (now < port.next_question) return;
  TxSink& sink = *sinks[ports_.index_of(port.nic)];
  uint8_t* out = sink.reserve(kNeighbourQuestionBytes);
  if (out == nullptr) {
    ++port.counters.tx_busy;
    return;
  }
  const uint32_t bytes = ask_neighbour(node, own, target, out);
  sink.commit(bytes, now);
  ++port.counters.tx_frames;
  port.counters.tx_bytes += bytes;
  port.next_question = now + kQuestionEvery;
}

ReplyStatus HostFrames::reach(const Datagram& datagram, NodeId node) {
  const NodeNic* from = config_.nodes.find(node, datagram.addressing.src);
  if (from == nullptr) return ReplyStatus::kNoSuchObject;
  const uint32_t real = ports_.nic_toward(datagram.addressing.dst, config_.nodes.position(*from));
  if (config_.nodes.nics()[real].mac_known) return ReplyStatus::kDone;
  unresolved_ = {from, datagram.addressing.src, datagram.addressing.dst};
  return ReplyStatus::kUnresolved;
}

}  // namespace understudy
