// Faults carried out: packets from the real node meet them in front of the first link, packets to
// it behind the last one; what passes between two real nodes both. What a fault adds or delays
// takes no time on a link.
#include <algorithm>
#include <cstring>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/icrc.h"

namespace understudy {
namespace {

/// The bits that a fault may change: the payload's, or else those of the headers after the BTH.
struct Area {
  uint32_t at = 0, bytes = 0;
};

Area area_of(const OpcodeInfo& info, uint32_t bth, uint32_t payload_bytes) {
  const auto headers = static_cast<uint32_t>(bth + sizeof(Bth));
  if (payload_bytes > 0) return {headers + info.header_bytes, payload_bytes};
  return {headers, info.header_bytes};
}

void flip(uint8_t* frame, const Area& area, uint64_t damage) {
  if (area.bytes == 0) return;  // nothing but a BTH
  const uint64_t bit = damage % (uint64_t{area.bytes} * 8);
  frame[area.at + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
}

bool leaves(const Packet& p) {
  return p.kind == PacketKind::kToReal || p.kind == PacketKind::kRaw ||
         (p.kind == PacketKind::kThrough && p.crossed);
}

/// Between real nodes the receiver's queue pair is known, and that only together with the receiver:
/// kernels number theirs alike.
PacketStream stream_of(const Packet& p) { return {p.node, p.real, p.qpn, leaves(p)}; }

}  // namespace

/// READ requests stand for as many PSNs as their responses have.
uint32_t Shard::psns_of(uint8_t opcode, uint32_t length, uint32_t slot) const {
  if (opcode_info(opcode).kind != OpKind::kReadRequest || length == 0) return 1;
  const uint32_t mtu = qps_[slot].qp->config().mtu;
  return static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

void Shard::rx_through_faults(const FrameView& view, const RoceView& roce, uint32_t slot,
                              Time now) {
  const FaultFacts facts{false,         slot,     roce.opcode,
                         roce.syndrome, roce.psn, psns_of(roce.opcode, roce.dma_length, slot)};
  const FaultVerdict verdict = faults_.judge(facts, now);
  if (verdict.drop.any()) return here().counters.drop(Drop::kFault);
  FrameView seen = view;
  RoceView packet = roce;
  if (verdict.mark_ce) seen.tos |= 3;
  if (verdict.corrupt.any() && !damage_received(seen, packet, verdict)) return;
  const uint32_t id = store(seen, packet, slot, now);
  if (id == kNoPacket) return;
  Packet& p = pool_[id];
  p.head += verdict.delay;
  p.tail += verdict.delay;
  if (verdict.reorder.any()) {
    hold(id, verdict, now);
  } else {
    events_.push(p.tail, EventKind::kLinkArrive, id);
    go_past(id, now);
  }
  if (!verdict.duplicate.any()) return;
  const Fault& fault = faults_.faults()[verdict.duplicate.fault];
  for (uint32_t i = 0; i < fault.count; ++i) {
    const uint32_t copy = store(seen, packet, slot, now);
    if (copy == kNoPacket) return faults_.skip(verdict.duplicate);
    pool_[copy].head += fault.delay;
    pool_[copy].tail += fault.delay;
    events_.push(pool_[copy].tail, EventKind::kLinkArrive, copy);
  }
}

/// Changes one bit, as if the frame had come so; false if it is dropped for that.
bool Shard::damage_received(FrameView& view, RoceView& roce, const FaultVerdict& verdict) {
  std::copy(view.frame.begin(), view.frame.end(), scratch_.begin());
  flip(scratch_.data(), area_of(roce.info(), roce.bth, roce.payload_bytes), verdict.damage);
  const uint32_t icrc_at = view.ip_end - kIcrcBytes;
  if (faults_.faults()[verdict.corrupt.fault].good_icrc) {
    store_icrc(scratch_.data() + icrc_at, icrc({scratch_.data() + view.l3, icrc_at - view.l3}));
  }
  const uint8_t tos = view.tos;
  parse_frame({scratch_.data(), view.frame.size()}, view, roce);
  view.tos = tos;  // may have been marked
  if (config_.verify == VerifyIcrc::kOff || icrc_ok(view, roce)) return true;
  here().counters.drop(Drop::kBadIcrc);
  return false;
}

void Shard::depart_through_faults(uint32_t packet) {
  Packet& p = pool_[packet];
  if (p.kind == PacketKind::kThrough) {
    p.crossed = true;
    return pass_faults(packet, p.due);
  }
  const bool gsi = p.qpn == kGsiQpn;
  if (!gsi && (p.qpn == 0 || !belongs(p, qps_[slot_of(p.qpn)]))) {  // no RoCE, or its QP has gone
    events_.push(p.due, EventKind::kDepart, packet);
    return;
  }
  const bool datagram = p.kind == PacketKind::kRaw;
  const uint32_t slot = gsi ? faults_.datagram_slot(p.node) : slot_of(p.qpn);
  const RoceFields& fields = p.out.fields;
  const auto opcode = static_cast<uint8_t>(fields.opcode);
  const FaultFacts facts{
      true, slot, opcode, fields.syndrome, fields.psn, psns_of(opcode, fields.dma_length, slot)};
  const FaultVerdict verdict = faults_.judge(facts, p.due);
  if (verdict.drop.any()) {
    counters_of(p.real).drop(Drop::kFault);
    return pool_.release(packet);
  }
  if (verdict.mark_ce) p.addressing.traffic_class |= 3;
  if (verdict.corrupt.any()) {
    p.damaged = true;
    p.good_icrc = faults_.faults()[verdict.corrupt.fault].good_icrc;
    p.damage = verdict.damage;
  }
  if (datagram && (verdict.mark_ce || p.damaged)) damage_datagram(packet);
  if (verdict.reorder.any()) {
    hold(packet, verdict, p.due);
  } else {
    events_.push(p.due + verdict.delay, EventKind::kDepart, packet);
    go_past(packet, p.due);
  }
  if (!verdict.duplicate.any()) return;
  const Fault& fault = faults_.faults()[verdict.duplicate.fault];
  for (uint32_t i = 0; i < fault.count; ++i) {
    const uint32_t copy = pool_.take(PacketSide::kOutbound);
    if (copy == kNoPacket) return faults_.skip(verdict.duplicate);
    pool_[copy] = p;
    pool_[copy].departs = false;
    if (datagram) std::memcpy(pool_.buffer(copy), pool_.buffer(packet), p.frame_bytes);
    events_.push(p.due + fault.delay, EventKind::kDepart, copy);
  }
}

void Shard::hold(uint32_t packet, const FaultVerdict& verdict, Time now) {
  const Fault& fault = faults_.faults()[verdict.reorder.fault];
  const Time deadline = now + fault.delay + verdict.delay;
  const uint32_t entry = held_.hold(packet, stream_of(pool_[packet]), fault.count, deadline);
  if (entry == HeldPackets::kNoEntry) {
    faults_.skip(verdict.reorder);
    return go_on(packet, now);
  }
  events_.push(deadline, EventKind::kHeldLong, entry);
}

/// A packet that was held back goes on.
void Shard::go_on(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  if (leaves(p)) {
    events_.push(now, EventKind::kDepart, packet);
    return;
  }
  const uint32_t from = p.kind == PacketKind::kThrough ? p.node : p.real;
  p.head = now - port_of(from).physical.time_for(p.wire_bytes);
  p.tail = now;
  events_.push(now, EventKind::kLinkArrive, packet);
}

/// A packet between two real nodes, in front of the fabric or behind it. Of its queue pair nothing
/// is known, so that only faults that ask for nothing of it concern it.
void Shard::pass_faults(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  const FaultFacts facts{
      p.crossed, faults_.unknown_slot(), p.view.opcode, p.view.syndrome, p.view.psn, 1};
  const FaultVerdict verdict = faults_.judge(facts, now);
  if (verdict.drop.any()) {
    counters_of(p.crossed ? p.real : p.node).drop(Drop::kFault);
    return pool_.release(packet);
  }
  if (verdict.mark_ce) {
    mark_finished({pool_.buffer(packet), p.frame_bytes});
    p.tos |= 3;
  }
  if (verdict.corrupt.any()) damage_finished(packet, verdict);
  if (verdict.duplicate.any()) pass_copies(packet, verdict);
  if (verdict.reorder.any()) return hold(packet, verdict, now);
  go_later(packet, verdict.delay);
  go_past(packet, now);
}

void Shard::pass_copies(uint32_t packet, const FaultVerdict& verdict) {
  const Fault& fault = faults_.faults()[verdict.duplicate.fault];
  for (uint32_t i = 0; i < fault.count; ++i) {
    const uint32_t copy = pool_.take(PacketSide::kInbound);
    if (copy == kNoPacket) return faults_.skip(verdict.duplicate);
    pool_[copy] = pool_[packet];
    std::memcpy(pool_.buffer(copy), pool_.buffer(packet), pool_[copy].frame_bytes);
    go_later(copy, fault.delay);
  }
}

/// A packet between two real nodes goes on, so much later than it would.
void Shard::go_later(uint32_t packet, Duration delay) {
  Packet& p = pool_[packet];
  if (p.crossed) return events_.push(p.due + delay, EventKind::kDepart, packet);
  p.head += delay;
  p.tail += delay;
  events_.push(p.tail, EventKind::kLinkArrive, packet);
}

/// `packet` goes past those of its stream that are held back.
void Shard::go_past(uint32_t packet, Time now) {
  if (held_.empty()) return;
  held_.pass(stream_of(pool_[packet]), now, [&](uint32_t other, Time at) { go_on(other, at); });
}

/// A datagram is in its buffer already: its mark and its damage are put there.
void Shard::damage_datagram(uint32_t packet) {
  Packet& p = pool_[packet];
  uint8_t* frame = pool_.buffer(packet);
  const uint32_t l3 = p.addressing.l2_bytes(), l4 = l3 + p.addressing.l3_bytes();
  write_l2_l3(frame, p.addressing, kIpProtoUdp, p.frame_bytes - l4);
  if (!p.damaged) return;
  damage_sent(p, frame);
  const uint32_t icrc_at = p.frame_bytes - kIcrcBytes;
  if (p.good_icrc) store_icrc(frame + icrc_at, icrc({frame + l3, icrc_at - l3}));
}

void Shard::damage_finished(uint32_t packet, const FaultVerdict& verdict) {
  const Packet& p = pool_[packet];
  uint8_t* frame = pool_.buffer(packet);
  FrameView view;
  RoceView roce;
  parse_frame({frame, p.frame_bytes}, view, roce);
  flip(frame, area_of(roce.info(), roce.bth, roce.payload_bytes), verdict.damage);
  if (!faults_.faults()[verdict.corrupt.fault].good_icrc) return;
  const uint32_t icrc_at = view.ip_end - kIcrcBytes;
  store_icrc(frame + icrc_at, icrc({frame + view.l3, icrc_at - view.l3}));
}

void Shard::damage_sent(const Packet& p, uint8_t* frame) const {
  const uint32_t bth =
      p.addressing.l2_bytes() + p.addressing.l3_bytes() + static_cast<uint32_t>(sizeof(UdpHeader));
  flip(frame, area_of(opcode_info(p.out.fields.opcode), bth, p.out.payload_bytes), p.damage);
}

}  // namespace understudy
