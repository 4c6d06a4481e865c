#include "dataplane/engine/send/egress.h"

#include <cstring>

#include "dataplane/engine/send/frame_changes.h"

namespace understudy {
namespace {

/// Fewer zeros are written and summed sooner than they are left out, and fewer bytes of any value
/// sooner than somebody else is asked to.
constexpr uint32_t kManyBytes = 256;

}  // namespace

Egress::Egress(ShardState& state, FaultPath& faults, PauseFrames& pauses)
    : config_(state.config),
      pool_(state.pool),
      qps_(state.qps),
      ports_(state.ports),
      regions_(state.regions),
      injector_(state.faults),
      faults_(faults),
      pauses_(pauses),
      heads_(kHeadTemplates) {}

void Egress::on_depart(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  p.due = now;
  ports_.of(p.real).departures[class_of_link(p.link)].push(packet);
}

void Egress::send_due(RealPort& port, Time now, TxSink& sink) {
  if (!pauses_.send_due(port, now, sink)) return;
  while (!port.send_now.empty()) {
    if (!send(port.send_now.front(), now, sink)) return;
    port.send_now.pop();
  }
  uint32_t cls;
  const Time until = now + sink.lead();
  while (next_departure(port, cls) <= until) {
    if (!send(port.departures[cls].front(), now, sink)) return;
    port.departures[cls].pop();
  }
}

Time Egress::next(const RealPort& port) const {
  if (!port.send_now.empty()) return Time::zero();
  uint32_t cls;
  return std::min(next_departure(port, cls), port.pfc.next_frame());
}

Time Egress::next_departure(const RealPort& port, uint32_t& cls) const {
  Time next = Time::never();
  cls = 0;
  for (uint32_t c = 0; c < kLinkClasses; ++c) {
    if (port.departures[c].empty() || pool_[port.departures[c].front()].due >= next) continue;
    next = pool_[port.departures[c].front()].due;
    cls = c;
  }
  return next;
}

inline void Egress::copy_finished(uint32_t packet, uint8_t* out) {
  const Packet& p = pool_[packet];
  std::memcpy(out, pool_.buffer(packet), p.frame_bytes);
  if (p.kind == PacketKind::kThrough && p.ce) mark_frame({out, p.frame_bytes});
}

[[gnu::always_inline]] inline void Egress::build(Packet& p, uint32_t slot, bool zeros, TxSink& sink,
                                                 uint8_t* out) {
  const uint32_t bytes = p.out.payload_bytes;
  if (p.addressing.dst_mac == MacAddress{}) {
    p.addressing.dst_mac = config_.nodes.nics()[p.real].mac;  // as learned by now
  }
  if (p.ce) p.addressing.traffic_class |= kCongestionExperienced;
  if (p.damaged) {
    p.out.payload.write({begin_roce(out, p.addressing, p.out.fields, bytes), bytes});
    if (p.good_icrc) damage_built(p, out);
    finish_roce(out, p.addressing, p.out.fields.opcode, bytes);
    if (!p.good_icrc) damage_built(p, out);
    return;
  }
  uint32_t crc;
  uint8_t* payload = head_template(p, slot).begin(out, p.out.fields, crc);
  if (zeros) return finish_payload_of_zeros(payload, bytes, crc);
  p.out.payload.write({payload, bytes});
  const bool left = bytes >= kManyBytes && sink.finishes(payload, bytes, crc);
  if (!left) finish_payload(payload, bytes, crc);
}

bool Egress::send(uint32_t packet, Time now, TxSink& sink) {
  Packet& p = pool_[packet];
  ShardCounters& counters = ports_.counters_of(p.real);
  const bool builds = p.kind == PacketKind::kToReal;
  const uint32_t slot = builds ? qps_.slot_of(p.qpn) : 0;
  const bool owned = builds && belongs(p, qps_[slot]);
  if (builds && (!owned || !regions_.holds(p.out.payload))) p.out.payload = PayloadRef{};
  const uint32_t bytes = p.out.payload_bytes;
  const bool zeros = builds && bytes >= kManyBytes && p.out.payload.is_zeros() && !p.damaged;
  const uint32_t head = zeros ? roce_head_bytes(p.addressing, p.out.fields.opcode) : 0;
  uint8_t* out = zeros ? sink.reserve_zeros(head, bytes, p.frame_bytes - head - bytes)
                       : sink.reserve(p.frame_bytes);
  if (out == nullptr) {
    ++counters.tx_busy;
    return false;
  }
  const Time actual = std::max(now, p.due);  // handed over early, it leaves at its time
  if (builds) {
    build(p, slot, zeros, sink, out);
  } else {
    copy_finished(packet, out);
  }
  if (p.kind == PacketKind::kToReal || p.kind == PacketKind::kThrough) {
    ++counters.tx_roce;
    counters.lateness.add(actual - p.due);
    if (p.ce) ++counters.ce_sent;
  }
  if (owned && p.departs) {
    qps_.rest(slot).endpoint->on_transmitted(p.due, actual, *qps_[slot].qp, p.id);
  }
  ++counters.tx_frames;
  counters.tx_bytes += p.frame_bytes;
  sink.commit(p.frame_bytes, p.due);
  pool_.release(packet);
  return true;
}

const HeadTemplate& Egress::head_template(const Packet& p, uint32_t slot) {
  const RoceFields& fields = p.out.fields;
  // Opcodes of a queue pair, and those of its neighbours, are far apart.
  OwnHead& own = heads_[(slot + static_cast<size_t>(fields.opcode) * 67) % kHeadTemplates];
  const uint32_t bytes = p.out.payload_bytes;
  if (own.slot != slot || own.generation != p.owner ||
      !own.head.fits(p.addressing, fields, bytes)) {
    own.slot = slot;
    own.generation = p.owner;
    own.head.set(p.addressing, fields, bytes);
  }
  return own.head;
}

}  // namespace understudy
