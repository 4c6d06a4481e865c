#include "dataplane/node/flow_traffic.h"

#include <algorithm>
#include <utility>

namespace understudy {

FlowTraffic::FlowTraffic(const Graph& graph, const std::vector<FlowSpec>& flows,
                         const FlowSettings& settings, MakeControl make)
    : graph_(graph),
      specs_(flows),
      settings_(settings),
      make_(std::move(make)),
      flows_(flows.size()),
      results_(flows.size()),
      followers_(flows.size()),
      nics_(graph.vertices().size()) {
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    flows_[i].waits_for = static_cast<uint32_t>(specs_[i].after.size());
    for (const uint32_t before : specs_[i].after) followers_[before].push_back(i);
  }
}

void FlowTraffic::start(Network& network) {
  network_ = &network;
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    if (flows_[i].waits_for == 0) {
      network.wake_at(Time::zero() + specs_[i].start, i << kWakeShift | kStart);
    }
  }
}

Rate FlowTraffic::rate(size_t flow) const {
  return flows_[flow].running ? flows_[flow].control->rate() : Rate();
}

/// An idle path's time for a full packet to go and its acknowledgement to come back.
Duration FlowTraffic::idle_round_trip(const FlowSpec& spec) const {
  Duration sum;
  for (const LinkId link : spec.path) {
    const GraphLink& l = graph_.link(link);
    sum += l.latency * 2 + l.rate.time_for(settings_.payload + settings_.overhead + settings_.gap) +
           l.rate.time_for(settings_.ack_bytes + settings_.gap);
  }
  return sum;
}

void FlowTraffic::begin(uint32_t flow, Time now) {
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  f.back.assign(spec.path.rbegin(), spec.path.rend());
  for (LinkId& link : f.back) link = reverse(link);
  FlowControl made = make_(spec, graph_.link(spec.path.front()).rate, idle_round_trip(spec));
  f.control = std::move(made.controller);
  f.cnps = made.cnps;
  f.cnp_interval = made.cnp_interval;
  f.control->start(now);
  f.running = true;
  f.next_send = f.heard = now;
  results_[flow].start = now;
  arm_control(flow);
  make_ready(flow, now);
}

bool FlowTraffic::may_send(const Flow& f, const FlowSpec& spec) const {
  return f.running && f.next < spec.bytes && f.next - f.acked < f.control->window();
}

Duration FlowTraffic::spacing(const Flow& f) const {
  const Duration exact = f.control->rate().time_for(f.last_bytes);
  if (settings_.resolution.ps() == 0) return exact;
  return Duration::ps(exact.ps() - exact.ps() % settings_.resolution.ps());
}

/// Into its NIC's list if it may send now; if only its pacing forbids it, later.
void FlowTraffic::make_ready(uint32_t flow, Time now) {
  Flow& f = flows_[flow];
  const FlowSpec& spec = specs_[flow];
  if (f.queued || !may_send(f, spec)) return;
  if (f.next_send > now) return arm_send(flow, f.next_send);
  ReadyList& list = nics_[spec.from].ready[network_->class_of(spec.priority)];
  f.queued = true;
  f.next_ready = kNone;
  if (list.first == kNone) {
    list.first = flow;
  } else {
    flows_[list.last].next_ready = flow;
  }
  list.last = flow;
  network_->ready(spec.path.front(), now);
}

void FlowTraffic::arm_send(uint32_t flow, Time at) {
  Flow& f = flows_[flow];
  if (f.armed_send <= at) return;
  f.armed_send = at;
  network_->wake_at(at, flow << kWakeShift | kSend);
}

void FlowTraffic::arm_control(uint32_t flow) {
  Flow& f = flows_[flow];
  const Time at = f.control->deadline();
  if (f.armed_control <= at) return;
  f.armed_control = at;
  network_->wake_at(at, flow << kWakeShift | kControl);
}

void FlowTraffic::arm_timeout(uint32_t flow, Time now) {
  Flow& f = flows_[flow];
  if (f.timing || settings_.timeout.ps() == 0) return;
  f.timing = true;
  f.heard = now;
  network_->wake_at(now + settings_.timeout, flow << kWakeShift | kTimeout);
}

/// The controller may have changed its mind.
void FlowTraffic::after_control(uint32_t flow, Time now) {
  Flow& f = flows_[flow];
  if (!f.running) return;
  arm_control(flow);
  if (f.last_bytes != 0 && f.control->rate_changes_gap()) f.next_send = f.last_start + spacing(f);
  make_ready(flow, now);
}

PacketId FlowTraffic::pull(LinkId nic, uint8_t blocked, Time now) {
  Nic& n = nics_[graph_.link(nic).from];
  for (size_t i = n.control_at; i < n.control.size(); ++i) {
    const PacketId id = n.control[i];
    if ((blocked >> network_->class_of((*network_)[id].priority) & 1) != 0) continue;
    std::move_backward(n.control.begin() + static_cast<ptrdiff_t>(n.control_at),
                       n.control.begin() + static_cast<ptrdiff_t>(i),
                       n.control.begin() + static_cast<ptrdiff_t>(i + 1));
    if (++n.control_at == n.control.size()) {
      n.control.clear();
      n.control_at = 0;
    }
    return id;
  }
  for (unsigned tried = 0; tried < kPriorities; ++tried) {
    const unsigned cls = n.turn = (n.turn + 1) % kPriorities;
    ReadyList& list = n.ready[cls];
    while (list.first != kNone && (blocked >> cls & 1) == 0) {
      const uint32_t flow = list.first;
      Flow& f = flows_[flow];
      list.first = f.next_ready;
      f.queued = false;
      if (!may_send(f, specs_[flow])) continue;
      if (f.next_send > now) {  // its rate was cut while it waited
        arm_send(flow, f.next_send);
        continue;
      }
      return next_packet(flow, now);
    }
  }
  return kNoPacketId;
}

PacketId FlowTraffic::next_packet(uint32_t flow, Time now) {
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  const PacketId id = network_->take();
  NetPacket& p = (*network_)[id];
  p.path = spec.path.data();
  p.hops = static_cast<uint8_t>(spec.path.size());
  p.priority = spec.priority;
  p.ect = true;
  p.kind = kData;
  p.flow = flow;
  p.sequence = f.next;
  p.payload = static_cast<uint32_t>(std::min<uint64_t>(settings_.payload, spec.bytes - f.next));
  p.buffer_bytes = p.payload + settings_.overhead;
  p.wire_bytes = p.buffer_bytes + settings_.gap;
  p.sent = now;
  if (network_->has_telemetry()) {
    p.telemetry = true;
    network_->telemetry(id).count = 0;
  }
  ++results_[flow].packets;
  if (f.next < f.sent) ++results_[flow].repeated;
  f.next += p.payload;
  f.sent = std::max(f.sent, f.next);
  f.last_start = now;
  f.last_bytes = settings_.rate_counts_gap ? p.wire_bytes : p.buffer_bytes;
  f.control->on_sent(now, f.last_bytes);
  f.next_send = now + spacing(f);
  arm_control(flow);
  arm_timeout(flow, now);
  make_ready(flow, now);
  return id;
}

void FlowTraffic::deliver(PacketId id, Time now) {
  const NetPacket packet = (*network_)[id];
  if (packet.kind == kData) {
    on_data(packet, id, now);
  } else {
    on_ack(packet, id, now);
  }
  network_->release(id);
}

void FlowTraffic::on_data(const NetPacket& p, PacketId id, Time now) {
  const FlowSpec& spec = specs_[p.flow];
  Flow& f = flows_[p.flow];
  FlowResult& result = results_[p.flow];
  if (p.ce) {
    ++result.marked;
    f.marked = true;
    if (f.cnps && now - f.last_cnp >= f.cnp_interval) {
      f.last_cnp = now;
      ++result.cnps;
      answer(p.flow, kCnp, p.sent, kNoPacketId, now);
    }
  }
  if (p.sequence > f.expected) {
    if (f.gap_told) return;
    f.gap_told = true;
    return answer(p.flow, kNak, p.sent, id, now);
  }
  if (p.sequence < f.expected) return answer(p.flow, kAck, p.sent, id, now);
  f.gap_told = false;
  f.expected += p.payload;
  result.delivered += p.payload;
  const bool whole = f.expected == spec.bytes;
  if (++f.unacked >= settings_.ack_every || whole) {
    f.unacked = 0;
    answer(p.flow, kAck, p.sent, id, now);
  }
  if (whole) received_all(p.flow, now);
}

void FlowTraffic::received_all(uint32_t flow, Time now) {
  results_[flow].received = now;
  for (const uint32_t follower : followers_[flow]) {
    if (--flows_[follower].waits_for != 0) continue;
    network_->wake_at(now + specs_[follower].start, follower << kWakeShift | kStart);
  }
}

/// `of`: the data packet whose telemetry goes back, or none.
void FlowTraffic::answer(uint32_t flow, Kind kind, Time sent, PacketId of, Time now) {
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  const PacketId id = network_->take();
  NetPacket& p = (*network_)[id];
  p.path = f.back.data();
  p.hops = static_cast<uint8_t>(f.back.size());
  p.priority =
      kind == kCnp ? settings_.cnp_priority : settings_.ack_priority.value_or(spec.priority);
  p.kind = kind;
  p.flow = flow;
  p.sequence = f.expected;
  p.buffer_bytes = kind == kCnp ? settings_.cnp_bytes : settings_.ack_bytes;
  p.wire_bytes = p.buffer_bytes + settings_.gap;
  p.sent = sent;
  if (kind != kCnp) {
    p.payload = !f.cnps && std::exchange(f.marked, false) ? 1 : 0;
    if (network_->has_telemetry()) network_->telemetry(id) = network_->telemetry(of);
  }
  nics_[spec.to].control.push_back(id);
  network_->ready(f.back.front(), now);
}

void FlowTraffic::on_ack(const NetPacket& p, PacketId id, Time now) {
  const FlowSpec& spec = specs_[p.flow];
  Flow& f = flows_[p.flow];
  if (!f.running) return;  // late ones of a flow that has ended
  if (p.kind == kCnp) {
    f.control->on_cnp(now);
    return after_control(p.flow, now);
  }
  AckHeard heard;
  heard.newly_acked = p.sequence > f.acked ? p.sequence - f.acked : 0;
  f.acked = std::max(f.acked, p.sequence);
  f.next = std::max(f.next, f.acked);
  if (heard.newly_acked != 0) f.heard = now;
  if (p.kind == kNak) f.next = f.acked;
  if (f.acked == spec.bytes) {
    results_[p.flow].acknowledged = now;
    f.running = false;
    ++finished_;
    return;
  }
  heard.at = now;
  heard.rtt = now - p.sent;
  heard.acked = f.acked;
  heard.sent = f.sent;
  heard.marked = p.payload != 0;
  if (network_->has_telemetry()) {
    const TelemetryRecord& record = network_->telemetry(id);
    heard.hops = std::span(record.hops).first(record.count);
  }
  f.control->on_ack(heard);
  after_control(p.flow, now);
}

void FlowTraffic::lost(PacketId packet, PacketLoss, Time) {
  ++results_[(*network_)[packet].flow].lost;
}

void FlowTraffic::wake(uint32_t index, Time now) {
  const uint32_t flow = index >> kWakeShift;
  Flow& f = flows_[flow];
  switch (static_cast<Wake>(index & ((1u << kWakeShift) - 1))) {
    case kStart:
      return begin(flow, now);
    case kSend:
      if (f.armed_send == now) f.armed_send = Time::never();
      return make_ready(flow, now);
    case kControl:
      if (f.armed_control == now) f.armed_control = Time::never();
      if (!f.running) return;
      while (f.control->deadline() <= now) f.control->on_timer(now);
      return after_control(flow, now);
    case kTimeout:
      f.timing = false;
      if (!f.running) return;
      if (f.sent == f.acked) return;  // nothing is on its way; the next packet arms it again
      if (now - f.heard >= settings_.timeout) {
        f.next = f.acked;
        f.heard = now;
        make_ready(flow, now);
      }
      f.timing = true;
      network_->wake_at(f.heard + settings_.timeout, flow << kWakeShift | kTimeout);
      return;
  }
}

}  // namespace understudy
