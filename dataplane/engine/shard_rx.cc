// Frames from the device: parsed, verified, and sorted into fabric, neighbour answers and host.
#include <algorithm>
#include <cstring>
#include <memory>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

Drop drop_for(FrameKind kind) {
  switch (kind) {
    case FrameKind::kBadIp:
      return Drop::kBadIp;
    case FrameKind::kBadTver:
      return Drop::kBadTver;
    case FrameKind::kBadOpcode:
      return Drop::kBadOpcode;
    case FrameKind::kBadPad:
      return Drop::kBadPad;
    case FrameKind::kOther:
      return Drop::kOtherEthertype;
    default:
      return Drop::kTruncated;
  }
}

constexpr uint64_t kSampleEvery = 64;

/// Frames between the one that is handled and the one of which something is asked for: its headers,
/// its queue pair. Measured with tests/bench/path_bench and responder_bench.
constexpr size_t kPrefetchAhead = 3;

void prefetch_headers(const uint8_t* frame) {
  __builtin_prefetch(frame);
  __builtin_prefetch(frame + 64);
}

}  // namespace

void Shard::rx(const RxBurst& burst) {
  arrival_uncertainty_ = burst.uncertainty;
  here_ = burst.port;
  for (size_t first = 0; first < burst.frames.size(); first += kTogether) {
    const auto frames =
        burst.frames.subspan(first, std::min(kTogether, burst.frames.size() - first));
    if (burst.read.empty()) read_headers(frames);
    rx_frames(frames, burst.read.empty() ? own_read_.data() : burst.read.data() + first, burst.at);
  }
  close_run(burst.at);
  run_.slot = kNoSlot;
}

void Shard::read_headers(std::span<const std::span<const uint8_t>> frames) {
  const ReadFrame* like = nullptr;  // packets of whose stream are read by comparing them with it
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + kPrefetchAhead < frames.size()) prefetch_headers(frames[i + kPrefetchAhead].data());
    if (like != nullptr && differs_by_psn_only(frames[i], like->view, like->roce)) {
      own_read_[i] = like;
      continue;
    }
    own_read_[i] = read_one(frames[i], i);
    like = goes_in_runs(*own_read_[i]) ? own_read_[i] : nullptr;
  }
}

const ReadFrame* Shard::read_one(std::span<const uint8_t> frame, size_t at) {
  ReadFrame& read = *std::construct_at(&own_reads_[at]);
  if (frame.size() <= kPacketBufferBytes) read.read(frame);
  return &read;
}

/// All headers have been read before the first frame is handled, so that what the packets are for
/// is on its way from memory when its turn comes.
void Shard::rx_frames(std::span<const std::span<const uint8_t>> frames,
                      const ReadFrame* const* read, Time now) {
  const size_t count = frames.size();
  std::array<uint32_t, kTogether> slots;  // of the queue pairs that they name
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    bytes += frames[i].size();
    if (i > 0 && read[i] == read[i - 1]) {
      slots[i] = slots[i - 1];
      continue;
    }
    slots[i] = read[i]->kind == FrameKind::kRoce ? slot_of(read[i]->roce.dest_qpn) : kNoSlot;
    if (slots[i] != kNoSlot) __builtin_prefetch(&qps_[slots[i]]);
  }
  here().counters.rx_frames += count;
  here().counters.rx_bytes += bytes;
  for (size_t i = 0; i < std::min(kPrefetchAhead, count); ++i) {
    if (slots[i] != kNoSlot) prefetch_qp(slots[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (const size_t ahead = i + kPrefetchAhead; ahead < count) {
      const uint32_t slot = slots[ahead];  // often that of the one before
      if (slot != kNoSlot && slot != slots[ahead - 1]) prefetch_qp(slot);
    }
    const auto at = static_cast<uint32_t>(i);
    const ReadFrame* one = read[i];
    if (i > 0 && one == read[i - 1]) {
      if (continues_run(*one, frames[i], at, now)) continue;
      one = read_one(frames[i], i);
    }
    rx_frame(*one, slots[i], frames[i], at, now);
  }
}

void Shard::prefetch_qp(uint32_t slot) const {
  const auto* at = reinterpret_cast<const uint8_t*>(qps_[slot].qp);
  if (at == nullptr) return;
  for (size_t i = 0; i < Qp::kHotBytes; i += 64) __builtin_prefetch(at + i);
}

void Shard::rx_frame(const ReadFrame& read, uint32_t slot, std::span<const uint8_t> frame,
                     uint32_t at, Time now) {
  if (frame.size() > kPacketBufferBytes) return here().counters.drop(Drop::kTooLong);
  if (read.kind == FrameKind::kRoce) return rx_roce(read, slot, at, now);
  close_run(now);
  switch (read.kind) {
    case FrameKind::kIp:
    case FrameKind::kArp:
      return rx_ip(read.view, now);
    case FrameKind::kMacControl:
      return rx_mac_control(frame, now);
    default:
      here().counters.drop(drop_for(read.kind));
  }
}

bool Shard::from_wrong_vlan(const FrameView& view) const {
  const auto& tci = config_.nodes.nics()[ports_[here_].nic].vlan_tci;
  if (!tci) return view.vlans != 0 && view.vlan[0].vid() != 0;  // VID 0 is a priority tag only
  return view.vlans == 0 || view.vlan[0].vid() != (*tci & 0xfff);
}

void Shard::learn_mac(const IpAddress& from, const MacAddress& mac) {
  const NodeNic& real = config_.nodes.nics()[ports_[here_].nic];
  if ((mac == real.mac && real.mac_known) || mac.is_multicast()) return;
  NodeNic* nic = config_.nodes.find(from);
  if (nic == nullptr || !nic->real) return;
  nic->mac = mac;
  nic->mac_known = true;
}

/// Whether the ICRC of the next RoCE packet is looked at.
bool Shard::verifies_next() {
  const uint64_t before = rx_count_++;
  return config_.verify == VerifyIcrc::kFull ||
         (config_.verify == VerifyIcrc::kSampled && before % kSampleEvery == 0);
}

void Shard::rx_roce(const ReadFrame& read, uint32_t slot, uint32_t at, Time now) {
  const FrameView& view = read.view;
  const RoceView& roce = read.roce;
  ++here().counters.rx_roce;
  if (verifies_next() && !read.has_good_icrc(icrc_memory_)) {
    return here().counters.drop(Drop::kBadIcrc);
  }
  if (from_wrong_vlan(view)) return here().counters.drop(Drop::kWrongVlan);
  if (slot == kNoSlot || qps_[slot].qp == nullptr) close_run(now);
  if (ports_.size() > 1) {
    const NodeNic* to = config_.nodes.find(view.dst);
    if (to != nullptr && to->real) return rx_through(view, roce, *to, now);
  }
  if (roce.dest_qpn == kGsiQpn) return rx_gsi(view, roce, now);
  if (slot == kNoSlot) return here().counters.drop(Drop::kUnknownQpn);
  if (qps_[slot].qp == nullptr) return rx_datagram(view, roce, slot, now);
  const QpConfig& qp = qps_[slot].qp->config();
  if (view.src != qp.addressing.dst || view.dst != qp.addressing.src ||
      qps_[slot].real != here().nic) {
    return here().counters.drop(Drop::kWrongAddress);
  }
  if (!pkey_matches(roce.pkey, qp.pkey)) return here().counters.drop(Drop::kWrongPkey);
  learn_mac(view.src, view.src_mac);
  if (faults_.active()) return rx_through_faults(view, roce, slot, now);
  if (joins_run(view, roce, slot)) {
    run_.at = at;
    return join_run(view, roce, now);
  }
  close_run(now);
  const bool opens = opens_run(view, roce, slot);
  run_.slot = kNoSlot;
  const uint32_t id = store(view, roce, slot, now);
  if (id == kNoPacket) return;
  run_.slot = slot;
  run_.psn = roce.psn;
  run_.at = at;
  if (opens) return open_run(id, roce);
  come_in(id, now);
}

/// From one real NIC to another: it crosses the fabric as it is.
void Shard::rx_through(const FrameView& view, const RoceView& roce, const NodeNic& to, Time now) {
  const NodeNic* from = config_.nodes.find(view.src);
  const uint32_t real = config_.nodes.position(to);
  if (from == nullptr || config_.nodes.position(*from) != here().nic || real == here().nic) {
    return here().counters.drop(Drop::kWrongAddress);
  }
  learn_mac(view.src, view.src_mac);
  if (marked(view.tos)) ++here().counters.ce_marked;
  const uint32_t id = take_inbound(PacketKind::kThrough, view, here().nic, now);
  if (id == kNoPacket) return;
  Packet& p = pool_[id];
  p.real = real;
  p.qpn = roce.dest_qpn;
  p.view = roce;
  p.crossed = false;
  p.link = link_id(here().nic, true, class_of(roce));
  std::memcpy(pool_.buffer(id), view.frame.data(), view.frame.size());
  if (faults_.active()) return pass_faults(id, now);
  come_in(id, now);
}

/// A slot for a frame to the emulated node at position `node`, in front of the real node's link,
/// data class; kNoPacket, and counted, if there is none.
uint32_t Shard::take_inbound(PacketKind kind, const FrameView& view, uint32_t node, Time now) {
  const uint32_t id = pool_.take(PacketSide::kInbound);
  if (id == kNoPacket) {
    here().counters.drop(Drop::kNoBuffer);
    return kNoPacket;
  }
  Packet& p = pool_[id];
  p.kind = kind;
  p.tos = view.tos;
  p.ce = false;
  p.udp_src = view.udp_src;
  p.vlan_tci = view.vlans == 0 ? std::nullopt : std::optional(view.vlan[0].tci);
  p.frame_bytes = static_cast<uint32_t>(view.frame.size());
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.node = node;
  p.real = here().nic;
  p.head = now - here().in.time_for(p.wire_bytes);
  p.tail = now;
  p.uncertainty = arrival_uncertainty_;
  p.link = link_id(here().nic, true, 0);
  return id;
}

/// A packet for the queue pair in `slot`, in front of the first link; kNoPacket if none goes there.
uint32_t Shard::store(const FrameView& view, const RoceView& roce, uint32_t slot, Time now) {
  if (marked(view.tos)) ++here().counters.ce_marked;
  if (roce.dest_qpn == kGsiQpn)
    return store_datagram(view, roce, slot - faults_.datagram_slot(0), now);
  if (qps_[slot].datagrams) return store_datagram(view, roce, qps_[slot].node, now);
  const uint32_t id = take_inbound(PacketKind::kFromReal, view, qps_[slot].node, now);
  if (id == kNoPacket) return kNoPacket;
  Packet& p = pool_[id];
  p.qpn = roce.dest_qpn;
  p.owner = qps_[slot].generation;
  p.view = roce;
  p.link = link_id(here().nic, true, class_of(roce));
  const QpSlot& q = qps_[slot];
  const auto is_small = [&] { return roce.info().start && roce.info().end; };
  if (roce.payload_bytes > 0 && (q.wants_payload || (q.wants_small && is_small()))) {
    std::memcpy(pool_.buffer(id), view.frame.data() + roce.payload, roce.payload_bytes);
  }
  return id;
}

void Shard::rx_ip(const FrameView& view, Time now) {
  if (from_wrong_vlan(view)) return here().counters.drop(Drop::kWrongVlan);
  const NodeNic* node = nullptr;
  const NeighbourQuery query = neighbour_query(view, config_.nodes, node);
  learn_mac(view.ether_type == kEtherArp ? arp_sender(view) : view.src, view.src_mac);
  if (query == NeighbourQuery::kNone) {
    if (ports_.size() == 1 || !pass_on(view, now)) hand_to_host(view);
    return;
  }
  if (query != NeighbourQuery::kEcho || !config_.icmp_through_fabric) {
    return answer(query, view, *node, now);
  }
  const uint32_t id = take_inbound(PacketKind::kRawIn, view, config_.nodes.position(*node), now);
  if (id == kNoPacket) return;
  std::memcpy(pool_.buffer(id), view.frame.data(), view.frame.size());
  come_in(id, now);
}

void Shard::answer(NeighbourQuery query, const FrameView& view, const NodeNic& node, Time now) {
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) return here().counters.drop(Drop::kNoBuffer);
  const uint32_t bytes =
      answer_neighbour(query, view, node, {pool_.buffer(id), kPacketBufferBytes});
  if (bytes == 0) {
    pool_.release(id);
    return here().counters.drop(Drop::kTruncated);
  }
  ++here().counters.neighbour_answers;
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
  p.real = here().nic;
  if (query == NeighbourQuery::kEcho && config_.icmp_through_fabric) {
    send_raw(id, now);
  } else {
    p.due = now;
    here().send_now.push(id);
  }
}

/// What real nodes say to one another beside RoCE bypasses the fabric, as it does between them and
/// the host. False if it is for no other real NIC.
bool Shard::pass_on(const FrameView& view, Time now) {
  const NodeNic* to = config_.nodes.find(frame_target(view));
  if (to == nullptr || !to->real) return false;
  const uint32_t real = config_.nodes.position(*to);
  if (real == here().nic) return false;
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  if (id == kNoPacket) {
    here().counters.drop(Drop::kNoBuffer);
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
  p.node = here().nic;
  p.real = real;
  p.due = now;
  std::memcpy(pool_.buffer(id), view.frame.data(), view.frame.size());
  port_of(real).send_now.push(id);
  return true;
}

void Shard::hand_to_host(const FrameView& view) {
  if (view.ether_type == kEtherArp) return;  // a reply, or a request for somebody else
  const NodeNic* node = config_.nodes.find(view.dst);
  if (node == nullptr || node->real) return here().counters.drop(Drop::kNotForUs);
  const uint32_t bytes =
      static_cast<uint32_t>(sizeof(EthHeader)) + static_cast<uint32_t>(view.frame.size()) - view.l3;
  uint8_t* out = to_host_.reserve(bytes);
  if (out == nullptr) return here().counters.drop(Drop::kHostRingFull);
  EthHeader eth;
  std::memcpy(eth.dst, config_.host_mac.bytes.data(), 6);
  std::memcpy(eth.src, view.src_mac.bytes.data(), 6);
  eth.type = view.ether_type;
  std::memcpy(out, &eth, sizeof eth);
  std::memcpy(out + sizeof eth, view.frame.data() + view.l3, view.frame.size() - view.l3);
  to_host_.commit(bytes);
  ++here().counters.to_host;
}

}  // namespace understudy
