#include "dataplane/engine/send/fault_path.h"

#include <algorithm>
#include <cstring>

#include "dataplane/engine/send/frame_changes.h"

namespace understudy {
namespace {

bool leaves(const Packet& p) {
  return p.kind == PacketKind::kToReal || p.kind == PacketKind::kRaw ||
         (p.kind == PacketKind::kThrough && p.crossed);
}

/// Between real nodes the receiver's queue pair is known, and that only together with the receiver:
/// kernels number theirs alike.
PacketStream stream_of(const Packet& p) { return {p.node, p.real, p.qpn, leaves(p)}; }

}  // namespace

FaultPath::FaultPath(ShardState& state, InboundPackets& inbound)
    : config_(state.config),
      pool_(state.pool),
      events_(state.events),
      qps_(state.qps),
      ports_(state.ports),
      faults_(state.faults),
      inbound_(inbound),
      scratch_(state.config.faults.empty() ? 0 : kPacketBufferBytes) {}

void FaultPath::receive(const FrameView& view, const RoceView& roce, uint32_t slot, Time now) {
  const FaultFacts facts{false,         slot,     roce.opcode,
                         roce.syndrome, roce.psn, qps_.psns_of(roce.opcode, roce.dma_length, slot)};
  const FaultVerdict verdict = faults_.judge(facts, now);
  if (verdict.drop.any()) return ports_.here().counters.drop(Drop::kFault);
  FrameView seen = view;
  RoceView packet = roce;
  if (verdict.mark_ce) seen.tos |= 3;
  if (verdict.corrupt.any() && !damage_received(seen, packet, verdict)) return;
  const uint32_t id = inbound_.store(seen, packet, slot, now);
  if (id == kNoPacket) return;
  Packet& p = pool_[id];
  p.head += verdict.delay;
  p.tail += verdict.delay;
  if (verdict.reorder.any()) {
    hold(id, verdict, now);
  } else {
    events_.push(p.tail, EventKind::kLinkArrive, id);
    count_past_held(id, now);
  }
  if (verdict.duplicate.any()) copy_received(seen, packet, slot, verdict, now);
}

void FaultPath::copy_received(const FrameView& view, const RoceView& roce, uint32_t slot,
                              const FaultVerdict& verdict, Time now) {
  const Fault& fault = faults_.faults()[verdict.duplicate.fault];
  for (uint32_t i = 0; i < fault.count; ++i) {
    const uint32_t copy = inbound_.store(view, roce, slot, now);
    if (copy == kNoPacket) return faults_.skip(verdict.duplicate);
    pool_[copy].head += fault.delay;
    pool_[copy].tail += fault.delay;
    events_.push(pool_[copy].tail, EventKind::kLinkArrive, copy);
  }
}

/// Changes one bit, as if the frame had come so; false if it is dropped for that.
bool FaultPath::damage_received(FrameView& view, RoceView& roce, const FaultVerdict& verdict) {
  std::copy(view.frame.begin(), view.frame.end(), scratch_.begin());
  const std::span<uint8_t> frame(scratch_.data(), view.frame.size());
  damage_frame(frame, view, roce, verdict.damage,
               faults_.faults()[verdict.corrupt.fault].good_icrc);
  const uint8_t tos = view.tos;
  parse_frame(frame, view, roce);
  view.tos = tos;  // may have been marked
  if (config_.verify == VerifyIcrc::kOff || icrc_ok(view, roce)) return true;
  ports_.here().counters.drop(Drop::kBadIcrc);
  return false;
}

void FaultPath::depart(uint32_t packet) {
  Packet& p = pool_[packet];
  if (p.kind == PacketKind::kThrough) {
    p.crossed = true;
    return cross(packet, p.due);
  }
  const bool gsi = p.qpn == kGsiQpn;
  if (!gsi &&
      (p.qpn == 0 || !belongs(p, qps_[qps_.slot_of(p.qpn)]))) {  // no RoCE, or its QP has gone
    events_.push(p.due, EventKind::kDepart, packet);
    return;
  }
  const bool datagram = p.kind == PacketKind::kRaw;
  const uint32_t slot = gsi ? faults_.datagram_slot(p.node) : qps_.slot_of(p.qpn);
  const RoceFields& fields = p.out.fields;
  const auto opcode = static_cast<uint8_t>(fields.opcode);
  const FaultFacts facts{true,       slot,
                         opcode,     fields.syndrome,
                         fields.psn, qps_.psns_of(opcode, fields.dma_length, slot)};
  const FaultVerdict verdict = faults_.judge(facts, p.due);
  if (verdict.drop.any()) {
    ports_.counters_of(p.real).drop(Drop::kFault);
    return pool_.release(packet);
  }
  if (verdict.mark_ce) p.addressing.traffic_class |= 3;
  if (verdict.corrupt.any()) {
    p.damaged = true;
    p.good_icrc = faults_.faults()[verdict.corrupt.fault].good_icrc;
    p.damage = verdict.damage;
  }
  if (datagram && (verdict.mark_ce || p.damaged)) rebuild_datagram(p, pool_.buffer(packet));
  if (verdict.reorder.any()) {
    hold(packet, verdict, p.due);
  } else {
    events_.push(p.due + verdict.delay, EventKind::kDepart, packet);
    count_past_held(packet, p.due);
  }
  if (verdict.duplicate.any()) copy_departing(packet, verdict);
}

void FaultPath::copy_departing(uint32_t packet, const FaultVerdict& verdict) {
  const Packet& p = pool_[packet];
  const Fault& fault = faults_.faults()[verdict.duplicate.fault];
  for (uint32_t i = 0; i < fault.count; ++i) {
    const uint32_t copy = pool_.take(PacketSide::kOutbound);
    if (copy == kNoPacket) return faults_.skip(verdict.duplicate);
    pool_[copy] = p;
    pool_[copy].departs = false;
    if (p.kind == PacketKind::kRaw)
      std::memcpy(pool_.buffer(copy), pool_.buffer(packet), p.frame_bytes);
    events_.push(p.due + fault.delay, EventKind::kDepart, copy);
  }
}

void FaultPath::hold(uint32_t packet, const FaultVerdict& verdict, Time now) {
  const Fault& fault = faults_.faults()[verdict.reorder.fault];
  const Time deadline = now + fault.delay + verdict.delay;
  const uint32_t entry = held_.hold(packet, stream_of(pool_[packet]), fault.count, deadline);
  if (entry == HeldPackets::kNoEntry) {
    faults_.skip(verdict.reorder);
    return release_held(packet, now);
  }
  events_.push(deadline, EventKind::kHeldLong, entry);
}

/// A packet that was held back goes on.
void FaultPath::release_held(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  if (leaves(p)) {
    events_.push(now, EventKind::kDepart, packet);
    return;
  }
  const uint32_t from = p.kind == PacketKind::kThrough ? p.node : p.real;
  p.head = now - ports_.of(from).physical.time_for(p.wire_bytes);
  p.tail = now;
  events_.push(now, EventKind::kLinkArrive, packet);
}

void FaultPath::cross(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  const FaultFacts facts{
      p.crossed, faults_.unknown_slot(), p.view.opcode, p.view.syndrome, p.view.psn, 1};
  const FaultVerdict verdict = faults_.judge(facts, now);
  if (verdict.drop.any()) {
    ports_.counters_of(p.crossed ? p.real : p.node).drop(Drop::kFault);
    return pool_.release(packet);
  }
  if (verdict.mark_ce) {
    mark_frame({pool_.buffer(packet), p.frame_bytes});
    p.tos |= 3;
  }
  if (verdict.corrupt.any()) damage_crossing(packet, verdict);
  if (verdict.duplicate.any()) copy_crossing(packet, verdict);
  if (verdict.reorder.any()) return hold(packet, verdict, now);
  forward_crossing(packet, verdict.delay);
  count_past_held(packet, now);
}

void FaultPath::copy_crossing(uint32_t packet, const FaultVerdict& verdict) {
  const Fault& fault = faults_.faults()[verdict.duplicate.fault];
  for (uint32_t i = 0; i < fault.count; ++i) {
    const uint32_t copy = pool_.take(PacketSide::kInbound);
    if (copy == kNoPacket) return faults_.skip(verdict.duplicate);
    pool_[copy] = pool_[packet];
    std::memcpy(pool_.buffer(copy), pool_.buffer(packet), pool_[copy].frame_bytes);
    forward_crossing(copy, fault.delay);
  }
}

/// A packet between two real nodes goes on, so much later than it would.
void FaultPath::forward_crossing(uint32_t packet, Duration delay) {
  Packet& p = pool_[packet];
  if (p.crossed) return events_.push(p.due + delay, EventKind::kDepart, packet);
  p.head += delay;
  p.tail += delay;
  events_.push(p.tail, EventKind::kLinkArrive, packet);
}

/// `packet` goes past those of its stream that are held back.
void FaultPath::count_past_held(uint32_t packet, Time now) {
  if (held_.empty()) return;
  held_.pass(stream_of(pool_[packet]), now,
             [&](uint32_t other, Time at) { release_held(other, at); });
}

void FaultPath::damage_crossing(uint32_t packet, const FaultVerdict& verdict) {
  const Packet& p = pool_[packet];
  uint8_t* frame = pool_.buffer(packet);
  FrameView view;
  RoceView roce;
  parse_frame({frame, p.frame_bytes}, view, roce);
  damage_frame({frame, p.frame_bytes}, view, roce, verdict.damage,
               faults_.faults()[verdict.corrupt.fault].good_icrc);
}

void FaultPath::on_held_long(uint32_t entry, Time now) {
  uint32_t packet;
  if (held_.expire(entry, now, packet)) release_held(packet, now);
}

}  // namespace understudy
