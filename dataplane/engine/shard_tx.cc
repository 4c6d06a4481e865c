// Departures: frames are built when they are due, straight into the device's memory.
#include <cstring>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {
constexpr Duration kQuestionEvery = Duration::ms(200);
}

void Shard::send_due(Time now, TxSink& sink) {
  if (!send_pfc(now, sink)) return;
  while (!send_now_.empty()) {
    if (!send(send_now_.front(), now, sink)) return;
    send_now_.pop();
  }
  uint32_t cls;
  const Time until = now + sink.lead();
  while (next_departure(cls) <= until) {
    if (!send(departures_[cls].front(), now, sink)) return;
    departures_[cls].pop();
  }
}

Time Shard::next_departure(uint32_t& cls) const {
  Time next = Time::never();
  cls = 0;
  for (uint32_t c = 0; c < kClasses; ++c) {
    if (departures_[c].empty() || pool_[departures_[c].front()].due >= next) continue;
    next = pool_[departures_[c].front()].due;
    cls = c;
  }
  return next;
}

bool Shard::send(uint32_t packet, Time now, TxSink& sink) {
  Packet& p = pool_[packet];
  uint8_t* out = sink.reserve(p.frame_bytes);
  if (out == nullptr) {
    ++counters_.tx_busy;
    return false;
  }
  if (p.kind == PacketKind::kRaw) {
    std::memcpy(out, pool_.buffer(packet), p.frame_bytes);
  } else {
    if (p.addressing.dst_mac == MacAddress{}) {
      p.addressing.dst_mac = config_.nodes.nics()[real_].mac;  // as learned by now
    }
    if (p.ce) {
      p.addressing.traffic_class |= kCongestionExperienced;
      ++counters_.ce_sent;
    }
    const QpSlot& q = qps_[slot_of(p.qpn)];
    if (!belongs(p, q) || !regions_.holds(p.out.payload)) p.out.payload = PayloadRef{};
    uint8_t* payload = begin_roce(out, p.addressing, p.out.fields, p.out.payload_bytes);
    p.out.payload.write({payload, p.out.payload_bytes});
    if (p.damaged && p.good_icrc) damage_sent(p, out);
    finish_roce(out, p.addressing, p.out.fields.opcode, p.out.payload_bytes);
    if (p.damaged && !p.good_icrc) damage_sent(p, out);
    ++counters_.tx_roce;
    const Time actual = std::max(now, p.due);  // handed over early, it leaves at its time
    counters_.lateness.add(actual - p.due);
    if (p.departs && belongs(p, q)) q.endpoint->on_transmitted(p.due, actual, *q.qp, p.id);
  }
  ++counters_.tx_frames;
  counters_.tx_bytes += p.frame_bytes;
  sink.commit(p.frame_bytes, p.due);
  pool_.release(packet);
  return true;
}

/// Frames of the host: the TAP is untagged and knows no MAC of ours, so both are set here.
void Shard::drain_host(Time now, TxSink& sink) {
  if (unresolved_.from != nullptr) {
    ask_for_real_mac(*unresolved_.from, unresolved_.own, unresolved_.target, now, sink);
    unresolved_ = {};
  }
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
    const NodeNic& real = config_.nodes.nics()[real_];
    // All frames here go to the one real NIC: they wait for its answer in their ring.
    if (!real.mac_known) return ask_for_real_mac(*node, view.src, view.dst, now, sink);
    const uint32_t tag = real.vlan_tci ? static_cast<uint32_t>(sizeof(VlanTag)) : 0;
    const uint32_t body = static_cast<uint32_t>(frame.size()) - view.l3;
    const uint32_t bytes = static_cast<uint32_t>(sizeof(EthHeader)) + tag + body;
    uint8_t* out = sink.reserve(bytes);
    if (out == nullptr) {
      ++counters_.tx_busy;
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
    ++counters_.from_host;
    ++counters_.tx_frames;
    counters_.tx_bytes += bytes;
    from_host_.pop();
  }
}

void Shard::ask_for_real_mac(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                             Time now, TxSink& sink) {
  if (now < next_question_) return;
  uint8_t* out = sink.reserve(kNeighbourQuestionBytes);
  if (out == nullptr) {
    ++counters_.tx_busy;
    return;
  }
  const uint32_t bytes = ask_neighbour(node, own, target, out);
  sink.commit(bytes, now);
  ++counters_.tx_frames;
  counters_.tx_bytes += bytes;
  next_question_ = now + kQuestionEvery;
}

}  // namespace understudy
