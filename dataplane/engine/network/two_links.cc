#include "dataplane/engine/network/two_links.h"

#include <algorithm>

#include "dataplane/engine/state/packet_train.h"

namespace understudy {
namespace {

/// So long before its time a packet may pass a link, which then knows no change of its rate.
constexpr Duration kAhead = Duration::us(12);
/// Neither link needs longer for a packet of a train: a change of its rate, which takes effect with
/// the next train, is at most 12 us late, and 12 more where the train passes a link ahead.
constexpr Duration kLongestOfTrain = Duration::ns(375);

/// When the head of a packet that has come out of a link may pass the next one, which takes `time`
/// for it. Into a faster link it waits until it can go through in one piece, so that the link
/// serves others meanwhile.
Time head_behind(const LinkExit& exit, Duration time) {
  // A serializer's carried remainder may add a picosecond to the time that the rate gives.
  return std::max(exit.head, exit.tail - time - Duration::ps(1));
}

}  // namespace

TwoLinks::TwoLinks(ShardState& state, QpScheduler& scheduler, Egress& egress)
    : config_(state.config),
      pool_(state.pool),
      events_(state.events),
      ports_(state.ports),
      faults_(state.faults),
      scheduler_(scheduler),
      egress_(egress),
      links_(state.config.nodes.nics().size() * 2 * kLinkClasses),
      trouble_(state.config.nodes.nics().size() * 2 * kLinkClasses) {
  for (uint32_t i = 0; i < config_.nodes.nics().size(); ++i) {
    for (uint32_t cls = 0; cls < kLinkClasses; ++cls) {
      links_[link_id(i, true, cls)] = Link(Rate(), config_.latencies[i]);
      links_[link_id(i, false, cls)] = Link(Rate(), config_.latencies[i]);
    }
    apply_rate(i, config_.rates[i]);
    if (!config_.limits.empty() && config_.pacing) limit(i, config_.limits[i].packets);
  }
}

void TwoLinks::limit(uint32_t node, const PacketLimits& limits) {
  if (!limits.any()) return;
  for (uint32_t cls = 0; cls < kLinkClasses; ++cls) {
    links_[link_id(node, true, cls)].set_limits(&limits);
    links_[link_id(node, false, cls)].set_limits(&limits);
  }
}

void TwoLinks::accept(uint32_t packet, Time now) {
  if (takes_at_once()) {
    RealPort& here = ports_.here();
    if (here.coming_in == 0 && links_[pool_[packet].link].idle(now)) return enter(packet, now);
    ++here.coming_in;
  }
  events_.push(now, EventKind::kLinkArrive, packet);
}

void TwoLinks::on_link_arrive(uint32_t packet, Time now) {
  const uint32_t link = pool_[packet].link;
  if (may_stop_ && (link & kBehind) != 0) return on_exit(packet, now);
  if (may_stop_ && lose_in_front(packet)) return;
  if (takes_at_once() && is_uplink(link) && ports_.is_real(node_of_link(link))) {
    --ports_.of(node_of_link(link)).coming_in;
  }
  enter(packet, now);
}

/// A packet is in front of its link.
void TwoLinks::enter(uint32_t packet, Time now) {
  if (drop_flood(packet)) return;
  Packet& p = pool_[packet];
  Link& link = links_[p.link];
  p.due = now;
  if (link.idle(now)) {
    link.note_waiting(p.packets());
    return transmit(packet, p.link, now);
  }
  link.enqueue(packet, pool_.links(), p.packets());
  link.note_waiting();
  await_free(p.link);
}

/// A packet will arrive at `at`, and none before it but those that wait already: there is one way
/// only to its link. Its place there is taken now.
void TwoLinks::enqueue_early(uint32_t packet, Time at) {
  if (drop_flood(packet)) return;
  Packet& p = pool_[packet];
  p.due = at;
  links_[p.link].enqueue(packet, pool_.links(), p.packets());
  await_free(p.link);
}

bool TwoLinks::drop_behind_many(uint32_t packet) {
  const Packet& p = pool_[packet];
  if (!waits_for_node(p) && !(may_stop_ && holds(p.link))) return false;
  Link& link = links_[p.link];
  link.counters().dropped += p.packets();
  ports_.counters_of(p.real).drop(Drop::kQueueFull, p.packets());
  pool_.release(packet);
  return true;
}

/// Who of those that were expected has arrived.
void TwoLinks::note_arrived(uint32_t link, Time now) {
  links_[link].note_arrived(pool_.links(), [&](uint32_t packet, bool& all) {
    const uint32_t packets = arrived_packets(pool_, packet, now);
    all = packets == pool_[packet].packets();
    return packets;
  });
}

/// Whether it has come from a real node and stands in front of another node's link.
bool TwoLinks::waits_for_node(const Packet& p) const {
  return !is_uplink(p.link) && (p.kind == PacketKind::kFromReal || p.kind == PacketKind::kTrain ||
                                p.kind == PacketKind::kThrough);
}

void TwoLinks::transmit_first(uint32_t link, Time now) {
  const uint32_t packets = pool_[links_[link].first()].packets();
  transmit(links_[link].dequeue(pool_.links(), packets), link, now);
}

/// The link is idle, and the packet the first that comes to it.
void TwoLinks::transmit(uint32_t packet, uint32_t link, Time now) {
  const Packet& p = pool_[packet];
  if (p.kind == PacketKind::kTrain) return transmit_train(packet, link, now);
  Link& passed = links_[link];
  passed.pass(p.head, p.tail, p.wire_bytes);
  // What a link takes no time for leaves those that come at the same moment their turn.
  const bool asked =
      serves_node(link) &&
      (passed.free_at() <= now || scheduler_.has_more(node_of_link(link), class_of_link(link)));
  if (asked || !passed.queue_empty()) await_free(link);
  leave(packet, link, now);
}

/// Whether all that takes it has come by one other link.
bool TwoLinks::has_one_source(uint32_t link) const {
  return !is_uplink(link) && ports_.size() == 1 && !ports_.is_real(node_of_link(link)) &&
         !may_stop_;
}

/// Whether queue pairs wait for this link.
bool TwoLinks::serves_node(uint32_t link) const {
  return is_uplink(link) && !ports_.is_real(node_of_link(link));
}

void TwoLinks::await_free(uint32_t link) {
  Link& l = links_[link];
  if (l.awaited()) return;
  l.await();
  Time at = l.free_at();
  if (const uint32_t first = l.first(); first != kNoPacket) at = std::max(at, pool_[first].due);
  events_.push(at, EventKind::kLinkFree, link);
}

void TwoLinks::leave(uint32_t packet, uint32_t link, Time now) {
  Packet& p = pool_[packet];
  const LinkExit exit = links_[link].exit();
  const uint32_t cls = class_of_link(link);
  const bool inbound = p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRawIn;
  p.head = exit.head;
  p.tail = exit.tail;
  if (link == link_id(inbound ? p.real : p.node, true, cls)) {  // first of the path's two links
    p.link = link_id(inbound ? p.node : p.real, false, cls);
    p.head = head_behind(exit, time_of_next_link(p, p.wire_bytes));
    // With a physical wire in front the head may have passed before the frame was handed over.
    const Time at = std::max(now, p.head);
    if (may_pass_early(p.link, at, now)) {
      Link& next = links_[p.link];
      next.note_passing(at, std::max(p.head, next.free_at()), p.wire_bytes);
      return transmit(packet, p.link, now);
    }
    if (has_one_source(p.link)) return enqueue_early(packet, at);
    events_.push(at, EventKind::kLinkArrive, packet);
  } else if (may_stop_) {
    p.link |= kBehind;
    events_.push(std::max(now, inbound ? p.tail : p.head), EventKind::kLinkArrive, packet);
  } else if (inbound) {
    events_.push(p.tail, EventKind::kDeliver, packet);
  } else {
    egress_.depart(packet, cls);
  }
}

/// Whether what will arrive at `at` can pass the link now: nothing comes before it, and neither its
/// arrival nor its turn is far away. Where packets are short it queues, so that a flood is seen.
bool TwoLinks::may_pass_early(uint32_t link, Time at, Time now) const {
  const Link& l = links_[link];
  return has_one_source(link) && l.queue_empty() && !l.awaited() && pool_.half_free() &&
         std::max(at, l.free_at()) <= now + kAhead;
}

/// Of the link that a packet comes to next.
Duration TwoLinks::time_of_next_link(const Packet& p, uint32_t bytes) {
  Link& link = links_[p.link];
  if (!link.rate().is_unlimited() || link.is_limited()) return link.time_for(bytes);
  RealPort& port = ports_.of(p.real);
  return (ports_.is_real(node_of_link(p.link)) ? port.out : port.in).time_for(bytes);
}

void TwoLinks::on_link_free(uint32_t link, Time now) {
  Link& l = links_[link];
  if (may_stop_ && holds(link)) {
    trouble_[link].parked = true;
    return;
  }
  l.release();
  if (!l.queue_empty()) {
    if (has_one_source(link)) note_arrived(link, now);
    return transmit_first(link, now);
  }
  if (serves_node(link)) serve_node(node_of_link(link), class_of_link(link), now);
}

void TwoLinks::transmit_train(uint32_t packet, uint32_t link, Time now) {
  Packet& p = pool_[packet];
  Link& passed = links_[link];
  LinkExit* const times = train_times(pool_, packet);
  const auto pass = [&](uint32_t i, uint32_t bytes) {
    const Time start = passed.pass(times[i].head, times[i].tail, bytes);
    times[i] = passed.exit();
    return start;
  };
  for (uint32_t i = 0; i < p.before; ++i) pass(i, p.before_wire_bytes);
  const Time arrival = times[p.before].head;
  const Time last = pass(p.before, p.wire_bytes);
  if (!passed.queue_empty()) await_free(link);
  const uint32_t cls = class_of_link(link);
  if (link != link_id(p.real, true, cls)) {
    passed.note_passing(arrival, last, p.before_wire_bytes);
    return events_.push(times[p.before].tail, EventKind::kDeliver, packet);
  }
  p.link = link_id(p.node, false, cls);
  const Duration time = time_of_next_link(p, p.before_wire_bytes);
  for (uint32_t i = 0; i < p.before; ++i) times[i].head = head_behind(times[i], time);
  times[p.before].head = head_behind(times[p.before], time_of_next_link(p, p.wire_bytes));
  const Time at = std::max(now, times[0].head);
  if (!may_pass_early(p.link, at, now)) return enqueue_early(packet, at);
  transmit_train(packet, p.link, now);
}

/// A busy link takes what the node has when it is free.
void TwoLinks::ready(uint32_t node, uint32_t cls, Time now) {
  const uint32_t link = link_id(node, true, cls);
  if (links_[link].idle(now)) {
    serve_node(node, cls, now);
  } else {
    await_free(link);
  }
}

void TwoLinks::serve_node(uint32_t node, uint32_t cls, Time now) {
  const QpScheduler::Next next = scheduler_.take(node, cls, now);
  if (next.packet == kNoPacket) return;
  enter(next.packet, now);
  if (next.slot != kNoSlot) offer(next.slot, now);
}

void TwoLinks::offer(uint32_t slot, Time now) {
  const uint32_t node = scheduler_.node_of(slot), control = config_.control_class();
  if (scheduler_.line_up(slot, kAckLine, now)) ready(node, control, now);
  for (uint32_t cls = 0; cls <= control; ++cls) {
    if (scheduler_.line_up(slot, cls, now)) ready(node, cls, now);
  }
  scheduler_.arm_timer(slot);
}

bool TwoLinks::carries_trains(uint32_t node, uint32_t cls, uint32_t wire_bytes) {
  if (!takes_at_once()) return false;
  Link& first = links_[link_id(ports_.here().nic, true, cls)];
  const uint32_t second = link_id(node, false, cls);
  return has_one_source(second) && first.time_for(wire_bytes) <= kLongestOfTrain &&
         links_[second].time_for(wire_bytes) <= kLongestOfTrain;
}

bool TwoLinks::set_link(NodeId id, const RateChange& change, Time now) {
  bool found = false;
  const auto& nics = config_.nodes.nics();
  for (uint32_t node = 0; change.link == kNoLink && node < nics.size(); ++node) {
    if (nics[node].id != id) continue;
    found = true;
    if (change.rate) apply_rate(node, *change.rate);
    for (uint32_t cls = 0; cls < kLinkClasses; ++cls) {
      for (const bool up : {true, false}) {
        const uint32_t link = link_id(node, up, cls);
        if (change.latency) links_[link].set_latency(*change.latency);
        if (change.may_stop()) this->change(link, change, now);
      }
    }
  }
  return found;
}

void TwoLinks::apply_rate(uint32_t node, Rate rate) {
  // Where the model is at least as fast as the port, the wire itself is the link.
  const Rate wire = ports_.is_real(node) ? ports_.of(node).physical : Rate::unlimited();
  const bool wire_is_link = !wire.is_unlimited() && (rate.is_unlimited() || rate >= wire);
  const Rate applied = config_.pacing && !wire_is_link ? rate : Rate::unlimited();
  for (uint32_t cls = 0; cls < kLinkClasses; ++cls) {
    links_[link_id(node, true, cls)].set_rate(applied);
    links_[link_id(node, false, cls)].set_rate(applied);
  }
}

void TwoLinks::fit(ShardSnapshot& out) const {
  out.up.resize(config_.nodes.nics().size());
  out.down.resize(config_.nodes.nics().size());
  out.network.clear();
}

void TwoLinks::snapshot(ShardSnapshot& out, Time /*now*/) const {
  const auto sum = [&](uint32_t node, bool up) {
    LinkCounters total = links_[link_id(node, up, 0)].counters();
    const LinkCounters& control = links_[link_id(node, up, 1)].counters();
    total.packets += control.packets;
    total.wire_bytes += control.wire_bytes;
    total.dropped += control.dropped;
    return total;
  };
  for (uint32_t i = 0; i < out.up.size(); ++i) {
    out.up[i] = sum(i, true);
    out.down[i] = sum(i, false);
  }
}

}  // namespace understudy
