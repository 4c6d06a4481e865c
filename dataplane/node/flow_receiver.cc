// The receiving side of flows: what comes in, in order or not, and what is answered.
#include <algorithm>
#include <utility>

#include "dataplane/node/flow_traffic.h"

namespace understudy {

void FlowTraffic::on_data(const NetPacket& p, PacketId id, Time now) {
  const FlowSpec& spec = specs_[p.flow];
  Flow& f = flows_[p.flow];
  FlowResult& result = results_[p.flow];
  if (p.ce) {
    ++result.marked;
    f.marked = true;
    Sender& s = senders_[f.sender];
    if (s.cnps && !s.cnp_waits && now - s.last_cnp >= s.cnp_interval) {
      s.cnp_waits = true;
      ++result.cnps;
      answer(p.flow, kCnp, p.sent, kNoPacketId, now);
    }
  }
  const uint64_t sequence = uint64_t{p.number} * settings_.payload;
  if (!spec.spray.empty()) {
    const uint64_t before = f.expected;
    const uint64_t placed = place(f, sequence, sequence + p.payload);
    count(p.flow, placed);
    answer(p.flow, kAck, p.sent, id, now);
    if (before < f.end && f.expected == f.end) received_all(p.flow, now);
    return;
  }
  if (sequence > f.expected) {
    if (f.gap_told) return;
    f.gap_told = true;
    return answer(p.flow, kNak, p.sent, id, now);
  }
  if (sequence < f.expected) return answer(p.flow, kAck, p.sent, id, now);
  f.gap_told = false;
  f.expected += p.payload;
  count(p.flow, p.payload);
  const bool whole = f.expected == f.end;
  if (++f.unacked >= (spec.ack_every == 0 ? settings_.ack_every : spec.ack_every) || whole) {
    f.unacked = 0;
    answer(p.flow, kAck, p.sent, id, now);
  }
  if (whole) received_all(p.flow, now);
}

/// Bytes that came in for the first time.
void FlowTraffic::count(uint32_t flow, uint64_t bytes) {
  if (flows_[flow].empty) return;
  results_[flow].delivered += bytes;
  delivered_ += bytes;
}

/// Takes bytes that may come early or again; gives how many of them are new.
uint64_t FlowTraffic::place(Flow& f, uint64_t from, uint64_t to) {
  if (from < f.expected || f.ahead.contains(from)) return 0;  // packets keep their borders
  f.ahead.emplace(from, to);
  for (auto it = f.ahead.begin(); it != f.ahead.end() && it->first == f.expected;) {
    f.expected = it->second;
    it = f.ahead.erase(it);
  }
  return to - from;
}

void FlowTraffic::received_all(uint32_t flow, Time now) {
  results_[flow].received = now;
  for (const uint32_t follower : followers_[flow]) {
    if (--flows_[follower].waits_for != 0) continue;
    start_at(follower, now + specs_[follower].start);
  }
  for (FlowListener* listener : listeners_) listener->on_received(flow, now);
}

void FlowTraffic::acknowledged_all(uint32_t flow, Time now) {
  for (FlowListener* listener : listeners_) listener->on_acknowledged(flow, now);
}

/// `of`: the data packet whose telemetry goes back, or none.
void FlowTraffic::answer(uint32_t flow, Kind kind, Time sent, PacketId of, Time now) {
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  const Sender& s = senders_[f.sender];
  const PacketId id = network_->take();
  NetPacket& p = (*network_)[id];
  p.path = s.back.data();
  p.hops = static_cast<uint8_t>(s.back.size());
  p.priority =
      kind == kCnp ? settings_.cnp_priority : settings_.ack_priority.value_or(spec.priority);
  p.kind = kind;
  p.flow = flow;
  p.number = static_cast<uint32_t>((f.expected + settings_.payload - 1) / settings_.payload);
  p.buffer_bytes = kind == kCnp ? settings_.cnp_bytes : settings_.ack_bytes;
  p.wire_bytes = p.buffer_bytes + settings_.gap;
  p.sent = sent;
  if (kind != kCnp) {
    p.payload = !s.cnps && std::exchange(f.marked, false) ? 1 : 0;
    if (network_->has_telemetry()) network_->telemetry(id) = network_->telemetry(of);
  }
  nics_[s.back.front()].control.push_back(id);
  network_->ready(s.back.front(), now);
}

}  // namespace understudy
