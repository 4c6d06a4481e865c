// Departures: frames are built when they are due, straight into the device's memory.
#include <cstring>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {
constexpr Duration kQuestionEvery = Duration::ms(200);
/// Fewer zeros are written and summed sooner than they are left out, and fewer bytes of any value
/// sooner than somebody else is asked to.
constexpr uint32_t kManyBytes = 256;
}  // namespace

void Shard::send_due(Port& port, Time now, TxSink& sink) {
  if (!send_pfc(port, now, sink)) return;
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

Time Shard::next_departure(const Port& port, uint32_t& cls) const {
  Time next = Time::never();
  cls = 0;
  for (uint32_t c = 0; c < kClasses; ++c) {
    if (port.departures[c].empty() || pool_[port.departures[c].front()].due >= next) continue;
    next = pool_[port.departures[c].front()].due;
    cls = c;
  }
  return next;
}

bool Shard::send(uint32_t packet, Time now, TxSink& sink) {
  Packet& p = pool_[packet];
  ShardCounters& counters = counters_of(p.real);
  const bool builds = p.kind == PacketKind::kToReal;
  const QpSlot& q = qps_[builds ? slot_of(p.qpn) : 0];
  if (builds && (!belongs(p, q) || !regions_.holds(p.out.payload))) p.out.payload = PayloadRef{};
  const uint32_t bytes = p.out.payload_bytes;
  const bool zeros = builds && bytes >= kManyBytes && p.out.payload.is_zeros() && !p.damaged;
  const uint32_t head = zeros ? roce_head_bytes(p.addressing, p.out.fields.opcode) : 0;
  uint8_t* out = zeros ? sink.reserve_zeros(head, bytes, p.frame_bytes - head - bytes)
                       : sink.reserve(p.frame_bytes);
  if (out == nullptr) {
    ++counters.tx_busy;
    return false;
  }
  if (!builds) {
    std::memcpy(out, pool_.buffer(packet), p.frame_bytes);
    if (p.kind == PacketKind::kThrough) {
      ++counters.tx_roce;
      counters.lateness.add(std::max(now, p.due) - p.due);
      if (p.ce) {
        mark_finished({out, p.frame_bytes});
        ++counters.ce_sent;
      }
    }
  } else {
    if (p.addressing.dst_mac == MacAddress{}) {
      p.addressing.dst_mac = config_.nodes.nics()[p.real].mac;  // as learned by now
    }
    if (p.ce) {
      p.addressing.traffic_class |= kCongestionExperienced;
      ++counters.ce_sent;
    }
    if (p.damaged) {
      p.out.payload.write({begin_roce(out, p.addressing, p.out.fields, bytes), bytes});
      if (p.good_icrc) damage_sent(p, out);
      finish_roce(out, p.addressing, p.out.fields.opcode, bytes);
      if (!p.good_icrc) damage_sent(p, out);
    } else {
      uint32_t crc;
      uint8_t* payload = head_template(p, slot_of(p.qpn)).begin(out, p.out.fields, crc);
      if (zeros) {
        finish_payload_of_zeros(payload, bytes, crc);
      } else {
        p.out.payload.write({payload, bytes});
        const bool left = bytes >= kManyBytes && sink.finishes(payload, bytes, crc);
        if (!left) finish_payload(payload, bytes, crc);
      }
    }
    ++counters.tx_roce;
    const Time actual = std::max(now, p.due);  // handed over early, it leaves at its time
    counters.lateness.add(actual - p.due);
    if (p.departs && belongs(p, q)) {
      rest_[slot_of(p.qpn)].endpoint->on_transmitted(p.due, actual, *q.qp, p.id);
    }
  }
  ++counters.tx_frames;
  counters.tx_bytes += p.frame_bytes;
  sink.commit(p.frame_bytes, p.due);
  pool_.release(packet);
  return true;
}

const HeadTemplate& Shard::head_template(const Packet& p, uint32_t slot) {
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

/// As congestion marks a packet (RFC 3168). The ICRC leaves these bits out.
void Shard::mark_finished(std::span<uint8_t> frame) {
  FrameView view;
  RoceView roce;
  parse_frame(frame, view, roce);
  uint8_t* l3 = frame.data() + view.l3;
  if (l3[0] >> 4 == 6) {
    l3[1] |= kCongestionExperienced << 4;
    return;
  }
  Ipv4Header ip;
  std::memcpy(&ip, l3, sizeof ip);
  ip.tos |= kCongestionExperienced;
  ip.checksum = 0;
  std::memcpy(l3, &ip, sizeof ip);
  ip.checksum = checksum_finish(checksum_add(0, l3, sizeof ip));
  std::memcpy(l3, &ip, sizeof ip);
}

/// Frames of the host: the TAP is untagged and knows no MAC of ours, so both are set here.
void Shard::drain_host(Time now, std::span<TxSink* const> sinks) {
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
    if (node == nullptr || node->real) {  // the namespace's own chatter
      from_host_.pop();
      continue;
    }
    const uint32_t position = real_for(view.dst, config_.nodes.position(*node));
    const NodeNic& real = config_.nodes.nics()[position];
    ShardCounters& counters = counters_of(position);
    TxSink& sink = *sinks[port_at_[position]];
    // All frames here go to a real NIC: they wait for its answer in their ring.
    if (!real.mac_known) {
      host_waits_ = true;
      ask_for_real_mac(*node, view.src, view.dst, now, sinks);
      if (next_question_ > now) host_asks_again_ = next_question_;
      return;
    }
    const uint32_t tag = real.vlan_tci ? static_cast<uint32_t>(sizeof(VlanTag)) : 0;
    const uint32_t body = static_cast<uint32_t>(frame.size()) - view.l3;
    const uint32_t bytes = static_cast<uint32_t>(sizeof(EthHeader)) + tag + body;
    uint8_t* out = sink.reserve(bytes);
    if (out == nullptr) {
      ++counters.tx_busy;
      host_waits_ = true;
      return;
    }
    EthHeader eth;
    std::memcpy(eth.dst, real.mac.bytes.data(), 6);
    std::memcpy(eth.src, node->mac.bytes.data(), 6);
    eth.type = tag != 0 ? kEtherVlan : view.ether_type;
    std::memcpy(out, &eth, sizeof eth);
    if (tag != 0) {
      const VlanTag vlan{*real.vlan_tci, view.ether_type};
      std::memcpy(out + sizeof eth, &vlan, sizeof vlan);
    }
    std::memcpy(out + sizeof eth + tag, frame.data() + view.l3, body);
    sink.commit(bytes, now);
    ++counters.from_host;
    ++counters.tx_frames;
    counters.tx_bytes += bytes;
    from_host_.pop();
  }
}

void Shard::ask_for_real_mac(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                             Time now, std::span<TxSink* const> sinks) {
  if (now < next_question_) return;
  Port& port = port_of(real_for(target, config_.nodes.position(node)));
  TxSink& sink = *sinks[port_at_[port.nic]];
  uint8_t* out = sink.reserve(kNeighbourQuestionBytes);
  if (out == nullptr) {
    ++port.counters.tx_busy;
    return;
  }
  const uint32_t bytes = ask_neighbour(node, own, target, out);
  sink.commit(bytes, now);
  ++port.counters.tx_frames;
  port.counters.tx_bytes += bytes;
  next_question_ = now + kQuestionEvery;
}

}  // namespace understudy
