#include "dataplane/flows/flow_traffic.h"

#include <algorithm>

#include "dataplane/fabric/routes.h"

namespace understudy {

void FlowTraffic::release(uint32_t flow, Time at) {
  if (--flows_[flow].waits_for != 0) return;
  start_at(flow, at + specs_[flow].start);
}

void FlowTraffic::set_bytes(Flow& f, uint64_t base, uint64_t bytes) {
  f.empty = bytes == 0;
  f.hears_more = true;
  f.base = f.next = f.sent = f.acked = f.expected = base;
  f.end = base + std::max<uint64_t>(bytes, 1);
}

void FlowTraffic::post(uint32_t flow, uint64_t bytes) {
  Flow& f = flows_[flow];
  const uint64_t packets = (f.end + settings_.payload - 1) / settings_.payload;
  set_bytes(f, packets * settings_.payload, bytes);
  f.busy = true;
}

void FlowTraffic::send(uint32_t flow, uint64_t bytes, Time now, bool at_once) {
  post(flow, bytes);
  if (at_once) return begin(flow, now);
  start_at(flow, now);
}

void FlowTraffic::close(uint32_t flow) {
  Sender& s = senders_[flows_[flow].sender];
  if (--s.flows_left == 0) s.control.reset();
}

Rate FlowTraffic::rate(size_t flow) const {
  return flows_[flow].running ? senders_[flows_[flow].sender].control->rate() : Rate();
}

uint64_t FlowTraffic::window(size_t flow) const {
  return flows_[flow].running ? senders_[flows_[flow].sender].control->window()
                              : Controller::kNoWindow;
}

void FlowTraffic::begin(uint32_t flow, Time now) {
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  Sender& s = senders_[f.sender];
  f.running = true;
  if (spec.path.empty() && !f.sprays) {
    f.hash = flow_hash(spec.from, spec.to, spec.number);
    if (const auto out = graph_.out(spec.from); out.size() == 1) f.only_link = out.front();
  }
  results_[flow].start = now - lead(flow);
  if (begun_ != nullptr) begun_->push_back(flow);
  list(flow, false);
  open(flow);
  if (s.control == nullptr) {
    Duration round_trip;
    unsigned links = 0;
    const Rate line = measure_idle_path(spec, round_trip, links);
    s.switches = static_cast<uint8_t>(links - 1);
    if (s.first_back == kNoLink) choose_back(flow);
    FlowControl made = make_(spec, line, round_trip);
    s.control = std::move(made.controller);
    s.cnps = made.cnps;
    s.cnp_interval = made.cnp_interval;
    s.pacing.begin(now);
    s.control->start(now);
    arm_control(f.sender);
  }
  make_ready(f.sender, now);
}

/// Among the flows of its sender that have something to send.
void FlowTraffic::list(uint32_t flow, bool in_front) {
  Flow& f = flows_[flow];
  Sender& s = senders_[f.sender];
  f.listed = true;
  if (s.first == kNone) {
    s.first = s.last = flow;
    f.next_flow = kNone;
  } else if (in_front) {
    f.next_flow = s.first;
    s.first = flow;
  } else {
    f.next_flow = kNone;
    flows_[s.last].next_flow = flow;
    s.last = flow;
  }
}

/// Into its NIC's list if it may send now; if only its pacing forbids it, later. Gives the NIC's
/// link; none if it is not there now, or was before.
LinkId FlowTraffic::queue(uint32_t sender, Time now) {
  Sender& s = senders_[sender];
  if (s.queued || !may_send(s)) return kNoLink;
  if (nics_queue_ && nic(specs_[s.first].from).acks_wait()) return hand_over(sender, now);
  if (s.pacing.next() > now) {
    arm_send(sender, s.pacing.next());
    return kNoLink;
  }
  const LinkId nic = first_link(s.first);
  ReadyList& list = nics_[nic].ready[network_->class_of(specs_[s.first].priority)];
  s.queued = true;
  s.turn = network_->take_turn(specs_[s.first].from);
  s.pacing.ready(now);
  s.next_ready = kNone;
  if (list.first == kNone) {
    list.first = sender;
  } else {
    senders_[list.last].next_ready = sender;
  }
  list.last = sender;
  return nic;
}

void FlowTraffic::arm_send(uint32_t sender, Time at) {
  if (!senders_[sender].send_alarm.set(at)) return;
  network_->wake_at(at, sender << kWakeShift | kSend);
}

void FlowTraffic::arm_control(uint32_t sender) {
  Sender& s = senders_[sender];
  const Time at = s.control->deadline();
  if (!s.control_alarm.set(at)) return;
  network_->wake_at(at, sender << kWakeShift | kControl);
}

void FlowTraffic::arm_timeout(uint32_t sender, Time now) {
  Sender& s = senders_[sender];
  if (s.timing || settings_.timeout.ps() == 0) return;
  s.timing = true;
  network_->wake_at(now + settings_.timeout, sender << kWakeShift | kTimeout);
}

/// As a queue pair's (dataplane/rc/requester.h, rule A5.8): packets that follow put it off, but not
/// for ever.
Time FlowTraffic::timeout_of(const Sender& s) const {
  constexpr int64_t kLatest = 4;
  return std::min(std::max(s.heard, s.last_start) + settings_.timeout,
                  s.heard + settings_.timeout * kLatest);
}

void FlowTraffic::on_timeout(uint32_t sender, Time now) {
  Sender& s = senders_[sender];
  s.timing = false;
  if (s.gave_up) return;
  // Nothing is on its way; the next packet arms it again.
  if (s.in_flight == 0 && !is_held(sender, now)) return;
  if (now >= timeout_of(s)) {
    if (has_tried_enough(sender, now)) return give_up(sender, now);
    ++s.timeouts;
    s.heard = now;
    // The oldest comes first then.
    for (uint32_t flow = s.newest; flow != kNone; flow = flows_[flow].older) {
      if (flows_[flow].next > flows_[flow].acked) go_back(flow);
    }
    make_ready(sender, now);
  }
  s.timing = true;
  network_->wake_at(timeout_of(s), sender << kWakeShift | kTimeout);
}

/// Into the list of its sender's flows that have begun and not ended, and out of it.
void FlowTraffic::open(uint32_t flow) {
  Sender& s = senders_[flows_[flow].sender];
  flows_[flow].older = s.newest;
  flows_[flow].newer = kNone;
  if (s.newest != kNone) flows_[s.newest].newer = flow;
  s.newest = flow;
}

void FlowTraffic::shut(uint32_t flow) {
  const Flow& f = flows_[flow];
  if (f.older != kNone) flows_[f.older].newer = f.newer;
  (f.newer != kNone ? flows_[f.newer].older : senders_[f.sender].newest) = f.older;
}

/// All of a flow that is not acknowledged is sent again.
void FlowTraffic::go_back(uint32_t flow) {
  Flow& f = flows_[flow];
  senders_[f.sender].in_flight -= f.next - f.acked;
  f.next = f.acked;
  if (!f.listed) list(flow, true);
}

/// Takes flows off the list that have nothing to send.
void FlowTraffic::drop_sent(Sender& s) {
  while (s.first != kNone && flows_[s.first].next == flows_[s.first].end) {
    flows_[s.first].listed = false;
    s.first = flows_[s.first].next_flow;
  }
}

/// The controller may have changed its mind.
void FlowTraffic::after_control(uint32_t sender, Time now) {
  Sender& s = senders_[sender];
  arm_control(sender);
  s.pacing.changed(*s.control, {settings_.resolution, settings_.catch_up});
  make_ready(sender, now);
}

/// If it is a CNP, the next one may follow after a while.
void FlowTraffic::note_cnp(const NetPacket& p, Time now) {
  if (p.kind != kCnp) return;
  Sender& s = senders_[flows_[p.flow].sender];
  s.cnp_waits = false;
  s.last_cnp = now;
}

PacketId FlowTraffic::next_control_packet(LinkId nic, uint8_t blocked, Time now) {
  Nic& n = nics_[nic];
  for (size_t i = n.control_at; i < n.control.size(); ++i) {
    const PacketId id = n.control[i];
    const NetPacket& p = (*network_)[id];
    if ((blocked >> network_->class_of(p.priority) & 1) != 0) continue;
    note_cnp(p, now);
    if (Sender& s = senders_[flows_[p.flow].sender]; s.ack == id) s.ack = kNoPacketId;
    std::move_backward(n.control.begin() + static_cast<ptrdiff_t>(n.control_at),
                       n.control.begin() + static_cast<ptrdiff_t>(i),
                       n.control.begin() + static_cast<ptrdiff_t>(i + 1));
    if (++n.control_at == n.control.size()) {
      n.control.clear();
      n.control_at = 0;
    }
    return id;
  }
  return kNoPacketId;
}

uint32_t FlowTraffic::senders(LinkId nic) const {
  const Nic& n = nics_[nic];
  auto count =
      static_cast<uint32_t>(n.control.size() - n.control_at + n.handed.size() - n.handed_at);
  for (const ReadyList& list : n.ready) {
    for (uint32_t sender = list.first; sender != kNone; sender = senders_[sender].next_ready) {
      ++count;
    }
  }
  return count;
}

/// Of what pull() would give.
uint64_t FlowTraffic::next_turn(LinkId nic, uint8_t blocked, Time now) const {
  const Nic& n = nics_[nic];
  for (size_t i = n.handed_at; i < n.handed.size(); ++i) {
    const NetPacket& p = (*network_)[n.handed[i].packet];
    if ((blocked >> network_->class_of(p.priority) & 1) == 0) return n.handed[i].turn;
  }
  for (size_t i = n.control_at; i < n.control.size(); ++i) {
    const NetPacket& p = (*network_)[n.control[i]];
    if ((blocked >> network_->class_of(p.priority) & 1) == 0) return 0;
  }
  for (unsigned tried = 1; tried <= kPriorities; ++tried) {
    const unsigned cls = (n.turn + tried) % kPriorities;
    if ((blocked >> cls & 1) != 0) continue;
    for (uint32_t sender = n.ready[cls].first; sender != kNone;) {
      const Sender& s = senders_[sender];
      if (may_send(s) && s.pacing.next() <= now) return s.turn;
      sender = s.next_ready;
    }
  }
  return kNoTurn;
}

PacketId FlowTraffic::pull(LinkId nic, uint8_t blocked, Time now) {
  if (acks_wait(nic)) return next_handed(nic, blocked, now);
  if (const PacketId id = next_control_packet(nic, blocked, now); id != kNoPacketId) return id;
  Nic& n = nics_[nic];
  for (unsigned tried = 0; tried < kPriorities; ++tried) {
    const unsigned cls = n.turn = (n.turn + 1) % kPriorities;
    ReadyList& list = n.ready[cls];
    while (list.first != kNone && (blocked >> cls & 1) == 0) {
      const uint32_t sender = list.first;
      Sender& s = senders_[sender];
      list.first = s.next_ready;
      s.queued = false;
      if (!may_send(s)) continue;
      if (s.pacing.next() > now) {  // its rate was cut while it waited
        arm_send(sender, s.pacing.next());
        continue;
      }
      // The next one's turn comes when this packet has left.
      if (list.first != kNone) prefetch_flow(senders_[list.first].first);
      return next_packet(sender, nic, now);
    }
  }
  return kNoPacketId;
}

PacketId FlowTraffic::next_packet(uint32_t sender, LinkId nic, Time now) {
  Sender& s = senders_[sender];
  const uint32_t flow = s.first;
  const FlowSpec& spec = specs_[flow];
  Flow& f = flows_[flow];
  const PacketId id = network_->take();
  NetPacket& p = (*network_)[id];
  p.way = departure_by(flow, nic).way;
  p.priority = spec.priority;
  p.ect = spec.ect;
  p.kind = kData;
  p.flow = flow;
  p.number = static_cast<uint32_t>(f.next / settings_.payload);
  const uint32_t payload = payload_of(f, f.next);
  p.buffer_bytes = (f.empty ? 0 : payload) + settings_.overhead;
  if (f.next == f.base) p.buffer_bytes += spec.first_header;
  if (f.next + payload == f.end) p.buffer_bytes += spec.last_header;
  p.wire_bytes = p.buffer_bytes + settings_.gap;
  p.sent = now;
  if (network_->has_telemetry()) {
    p.telemetry = true;
    network_->telemetry(id).count = 0;
  }
  ++results_[flow].packets;
  if (f.next < f.sent) ++results_[flow].repeated;
  if (s.in_flight == 0) s.heard = now;
  s.last_start = now;
  f.next += payload;
  s.in_flight += payload;
  if (f.next > f.sent) {
    s.sent += f.next - f.sent;
    f.sent = f.next;
  }
  drop_sent(s);
  s.pacing.started(now, settings_.rate_counts_gap ? p.wire_bytes : p.buffer_bytes, *s.control,
                   {settings_.resolution, settings_.catch_up});
  arm_control(sender);
  arm_timeout(sender, now);
  queue(sender, now);  // the wire is about to be busy: it asks for more by itself
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

void FlowTraffic::lost(PacketId packet, PacketLoss, Time) {
  ++results_[(*network_)[packet].flow].lost;
}

template <typename Object>
void prefetch_all(const Object& object) {
  const auto* at = reinterpret_cast<const char*>(&object);
  for (size_t i = 0; i < sizeof(object); i += 64) __builtin_prefetch(at + i);
}

/// A hundred thousand flows do not fit into the cache, and each packet is another one's.
void FlowTraffic::prefetch(uint32_t index, int stage) const {
  if (static_cast<Wake>(index & ((1u << kWakeShift) - 1)) != kSend) return;
  const Sender& s = senders_[index >> kWakeShift];
  if (stage == 0) return prefetch_all(s);
  if (s.first == kNone) return;
  if (stage == 2) return __builtin_prefetch(specs_[s.first].path.data());
  prefetch_flow(s.first);
  __builtin_prefetch(s.control.get());
}

void FlowTraffic::prefetch_flow(uint32_t flow) const {
  if (flow == kNone) return;
  prefetch_all(flows_[flow]);
  prefetch_all(results_[flow]);
  __builtin_prefetch(&specs_[flow]);
}

void FlowTraffic::prefetch_delivery(const NetPacket& packet) const {
  prefetch_flow(packet.flow);
  // Mostly flows have a sender each, in the same order.
  if (senders_.size() == flows_.size()) prefetch_all(senders_[packet.flow]);
}

void FlowTraffic::wake(uint32_t index, Time now) {
  const uint32_t what = index >> kWakeShift;
  const auto kind = static_cast<Wake>(index & ((1u << kWakeShift) - 1));
  if (kind == kStart) return on_start(what, now);
  if (kind == kListener) {
    for (FlowListener* listener : listeners_) listener->on_wake(what, now);
    return;
  }
  if (on_nic(kind, what, now)) return;
  Sender& s = senders_[what];
  if (s.control == nullptr) return;
  switch (kind) {
    case kSend:
      s.send_alarm.rung(now);
      return make_ready(what, now);
    case kControl:
      s.control_alarm.rung(now);
      while (s.control->deadline() <= now) s.control->on_timer(now);
      return after_control(what, now);
    case kTimeout:
      return on_timeout(what, now);
    default:
      return;
  }
}

}  // namespace understudy
