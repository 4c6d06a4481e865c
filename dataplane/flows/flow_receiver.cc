// The receiving side of flows: what comes in, in order or not, and what is answered.
#include <algorithm>
#include <utility>

#include "dataplane/flows/flow_traffic.h"

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
  if (sprayed(p.flow)) {
    const uint64_t before = f.expected;
    const uint64_t placed =
        sequence < before ? 0 : place(f, sequence, sequence + payload_of(f, sequence));
    count(p.flow, placed);
    answer(p.flow, kAck, p.sent, id, now);
    if (before < f.end && f.expected == f.end) came_in(p.flow, now);
    return;
  }
  if (sequence > f.expected) {
    if (f.gap_told) return;
    f.gap_told = true;
    return answer(p.flow, kNak, p.sent, id, now);
  }
  if (sequence < f.expected) return answer(p.flow, kAck, p.sent, id, now);
  f.gap_told = false;
  const uint32_t payload = payload_of(f, sequence);
  f.expected += payload;
  count(p.flow, payload);
  const bool whole = f.expected == f.end;
  if (++f.unacked >= packets_of_ack(spec) || whole) {
    f.unacked = 0;
    answer(p.flow, kAck, p.sent, id, now);
  }
  if (whole) came_in(p.flow, now);
}

/// Bytes that came in for the first time.
void FlowTraffic::count(uint32_t flow, uint64_t bytes) {
  if (flows_[flow].empty) return;
  results_[flow].delivered += bytes;
  delivered_ += bytes;
}

/// Takes bytes that may come early or again; gives how many of them are new.
uint64_t FlowTraffic::place(Flow& f, uint64_t from, uint64_t to) {
  if (f.ahead == nullptr) f.ahead = std::make_unique<std::map<uint64_t, uint64_t>>();
  std::map<uint64_t, uint64_t>& ahead = *f.ahead;
  if (from < f.expected || ahead.contains(from)) return 0;  // packets keep their borders
  ahead.emplace(from, to);
  for (auto it = ahead.begin(); it != ahead.end() && it->first == f.expected;) {
    f.expected = it->second;
    it = ahead.erase(it);
  }
  return to - from;
}

void FlowTraffic::received_all(uint32_t flow, Time now) {
  results_[flow].received = now;
  heard_all(flow);
  const uint32_t end = first_follower_.empty() ? 0 : first_follower_[flow + 1];
  for (uint32_t i = first_follower_.empty() ? 0 : first_follower_[flow]; i < end; ++i) {
    const uint32_t follower = followers_[i];
    if (--flows_[follower].waits_for != 0) continue;
    start_by_clock(follower, groups_.clock(specs_[follower].group, now) + specs_[follower].start);
  }
  for (FlowListener* listener : listeners_) listener->on_received(flow, now);
}

/// The sender hears, mostly after the receiver.
void FlowTraffic::acknowledged_all(uint32_t flow, Time now) {
  results_[flow].acknowledged = now;
  heard_all(flow);
  for (FlowListener* listener : listeners_) listener->on_acknowledged(flow, now);
}

/// `of`: the data packet whose telemetry goes back, or none.
void FlowTraffic::answer(uint32_t flow, Kind kind, Time sent, PacketId of, Time now) {
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  const Sender& s = senders_[f.sender];
  const PacketId id = network_->take();
  NetPacket& p = (*network_)[id];
  p.way = s.back;
  p.priority =
      kind == kCnp ? settings_.cnp_priority : settings_.ack_priority.value_or(spec.priority);
  p.kind = kind;
  p.flow = flow;
  p.number = static_cast<uint32_t>((f.expected + settings_.payload - 1) / settings_.payload);
  p.buffer_bytes = kind == kCnp ? settings_.cnp_bytes : settings_.ack_bytes;
  p.wire_bytes = p.buffer_bytes + settings_.gap;
  p.sent = sent;
  if (kind != kCnp) {
    p.tells_ce = !s.cnps && std::exchange(f.marked, false);
    if (network_->has_telemetry()) network_->telemetry(id) = network_->telemetry(of);
  }
  line_up_answer(id, s.first_back, now);
}

}  // namespace understudy
