// Packets on their way through the fabric, and the queue pairs at its edge. Everything here runs at
// the modelled time of its event, however late the loop comes to it.
#include <algorithm>
#include <utility>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {

/// Of the free packets so many may be finished frames that wait in front of one node's link.
constexpr uint32_t kRawShare = 64;
/// In front of an emulated node's link so many may wait for each packet that is free.
constexpr uint64_t kQueueShare = 8;

}  // namespace

void Shard::run_events(Time now) {
  while (next_event() <= now) {
    if (fabric_ != nullptr && fabric_->next() < events_.next()) {
      const Time at = fabric_->next();
      fabric_->step();
      if (!heard_.empty() && next_event() > at) answer_heard(at);
      continue;
    }
    const ShardEvent e = events_.pop();
    switch (e.kind) {
      case EventKind::kLinkFree:
        link_free(e.index, e.time);
        break;
      case EventKind::kLinkArrive:
        arrive(e.index, e.time);
        break;
      case EventKind::kDeliver:
        deliver(e.index, e.time);
        break;
      case EventKind::kDepart:
        pool_[e.index].due = e.time;
        port_of(pool_[e.index].real).departures[pool_[e.index].link % kClasses].push(e.index);
        break;
      case EventKind::kHeldLong: {
        uint32_t packet;
        if (held_.expire(e.index, e.time, packet)) go_on(packet, e.time);
        break;
      }
      case EventKind::kPace:
        on_pace(e.index, e.time);
        break;
      case EventKind::kLaw:
        on_law(e.index, e.time);
        break;
      case EventKind::kTimer: {
        QpSlot& slot = qps_[e.index];
        if (slot.qp == nullptr || slot.timer != e.time) break;
        slot.timer = Time::never();
        if (slot.qp->deadline() <= e.time) slot.qp->on_timer(e.time);
        kick(e.index, e.time);
        break;
      }
      case EventKind::kWake: {
        const Wake wake = wakes_[e.index];
        free_wakes_.push_back(e.index);
        wake.endpoint->on_wake(e.time, wake.cookie);
        break;
      }
      case EventKind::kPauseHeard:
      case EventKind::kPauseEnds:
        look_at_pause(e.index, e.kind == EventKind::kPauseHeard, e.time);
        break;
      case EventKind::kCommand: {
        const Command command = pending_[e.index];
        free_pending_.push_back(e.index);
        replies_.push({command.sequence, execute(command, e.time), e.time});
        break;
      }
    }
    if (!heard_.empty() && next_event() > e.time) answer_heard(e.time);
  }
}

/// What queue pairs heard at one moment is answered together: one ACK each (rule A4.10).
void Shard::answer_heard(Time now) {
  for (size_t i = 0; i < heard_.size(); ++i) {
    QpSlot& slot = qps_[heard_[i]];
    slot.heard = false;
    if (slot.qp != nullptr) kick(heard_[i], now);
  }
  heard_.clear();
}

TrafficKind Shard::kind_of(uint32_t line) const {
  if (line == kAckLine) return TrafficKind::kAcks;
  if (!config_.separate_control) return TrafficKind::kRequests;
  return line == 0 ? TrafficKind::kData : TrafficKind::kControl;
}

uint32_t Shard::class_of(const RoceView& packet) const {
  if (!config_.separate_control) return 0;
  const OpKind kind = packet.info().kind;
  if (kind == OpKind::kCnp) return 1;
  const bool credit = kind == OpKind::kWrite && packet.info().start && packet.info().end &&
                      !packet.info().imm;  // NCCL's CTS entries (nccl-wire 3.1)
  // An ATOMIC's answer keeps its place among READ data, as ours do.
  const bool ack = kind == OpKind::kAck && !packet.info().atomic_ack;
  return ack || credit ? 1 : 0;
}

void Shard::arrive(uint32_t packet, Time now) {
  if (fabric_ != nullptr) return enter_switched(packet, now);
  const uint32_t link = pool_[packet].link;
  if (floods(pool_[packet]) && links_[link].waiting() >= most_waiting()) {
    ++links_[link].counters().dropped;
    counters_of(pool_[packet].real).drop(Drop::kQueueFull);
    return pool_.release(packet);
  }
  links_[link].enqueue(packet, pool_.links());
  if (!links_[link].busy()) start(link, now);
}

/// Whether it has come from a real node and stands in front of another node's link.
bool Shard::floods(const Packet& p) const {
  const bool up = (p.link / kClasses) % 2 != 0;
  return !up && (p.kind == PacketKind::kFromReal || p.kind == PacketKind::kThrough);
}

/// In front of one node's link a flood never takes the room of all: no more than half of it, and,
/// where several are flooded, a few times what is left free, so that there is always some for
/// another (dynamic thresholds: Choudhury, Hahne, 1998).
uint64_t Shard::most_waiting() const {
  return std::min<uint64_t>(pool_.capacity() / 2,
                            kQueueShare * pool_.available(PacketSide::kInbound) + 1);
}

void Shard::start(uint32_t link, Time now) {
  const uint32_t packet = links_[link].dequeue(pool_.links());
  const Packet& p = pool_[packet];
  const LinkPassage passage = links_[link].pass(p.head, p.tail, p.wire_bytes);
  events_.push(passage.tail, EventKind::kLinkFree, link);
  after_link(packet, link, passage, now);
}

void Shard::after_link(uint32_t packet, uint32_t link, const LinkPassage& passage, Time now) {
  Packet& p = pool_[packet];
  const LinkExit exit = links_[link].exit(passage);
  const uint32_t cls = link % kClasses;
  const bool inbound = p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRawIn;
  p.head = exit.head;
  p.tail = exit.tail;
  if (link == link_id(inbound ? p.real : p.node, true, cls)) {  // first of the path's two links
    p.link = link_id(inbound ? p.node : p.real, false, cls);
    p.head = head_at_next_link(p);
    // With a physical wire in front the head may have passed before the frame was handed over.
    events_.push(std::max(now, p.head), EventKind::kLinkArrive, packet);
  } else if (inbound) {
    events_.push(p.tail, EventKind::kDeliver, packet);
  } else {
    // The wire takes its own time; where it is as fast as the model both end together.
    p.due = std::max(p.head, p.tail - port_of(p.real).physical.time_for(p.wire_bytes));
    if (faults_.active()) return depart_through_faults(packet);
    port_of(p.real).departures[cls].push(packet);
  }
}

/// When a packet's head may pass the link that it comes to next. Into a faster link it waits until
/// it can go through in one piece, so that the link serves others meanwhile.
Time Shard::head_at_next_link(const Packet& p) const {
  Rate rate = links_[p.link].rate();
  if (rate.is_unlimited()) rate = ports_[port_at_[p.real]].physical;
  // A serializer's carried remainder may add a picosecond to the time that the rate gives.
  return std::max(p.head, p.tail - rate.time_for(p.wire_bytes) - Duration::ps(1));
}

void Shard::link_free(uint32_t link, Time now) {
  links_[link].release();
  if (!links_[link].queue_empty()) return start(link, now);
  const uint32_t node = link / (2 * kClasses);
  const bool up = (link / kClasses) % 2 != 0;
  if (up && !is_real(node)) pull(node, link % kClasses, now);
}

bool Shard::pull(uint32_t node, uint32_t cls, Time now) {
  if (cls == control_class()) {
    if (const uint32_t cnp = take_cnp(node, now); cnp != kNoPacket) {
      arrive(cnp, now);
      return true;
    }
    if (pull_line(node, kAckLine, now)) return true;
  }
  stand_again(node, cls, now);
  return pull_line(node, cls, now);
}

bool Shard::pull_line(uint32_t node, uint32_t line, Time now) {
  ReadyList& ready = ready_[node * kLines + line];
  while (ready.first != kNoSlot) {
    const uint32_t slot = ready.first;
    QpSlot& q = qps_[slot];
    const bool raw = slot == raw_slot(node);
    const bool goes = raw || (q.qp != nullptr && sends(slot, line, now));
    if (goes && !raw && pool_.available(PacketSide::kOutbound) == 0) {
      starve(node * kLines + line);  // it stays in the line
      return false;
    }
    ready.first = q.next[line];
    q.queued[line] = false;
    if (!goes) continue;
    arrive(raw ? take_raw(node, now) : make_packet(slot, line, now), now);
    if (!raw) kick(slot, now);
    return true;
  }
  return false;
}

/// The next packet of a queue pair that has one, in front of its node's link.
uint32_t Shard::make_packet(uint32_t slot, uint32_t line, Time now) {
  const QpSlot& q = qps_[slot];
  const uint32_t id = pool_.take(PacketSide::kOutbound);
  Packet& p = pool_[id];
  p.kind = PacketKind::kToReal;
  p.damaged = p.ce = false;
  // What came at this moment may have left an ACK that does not stand in line yet.
  const bool ack_too = line != kAckLine && !config_.separate_control;
  q.qp->pull(now, ack_too ? TrafficKind::kAny : kind_of(line), p.out, p.departs, p.id);
  p.addressing = q.qp->config().addressing;
  p.qpn = q.qp->config().qpn;
  p.owner = q.generation;
  p.node = q.node;
  p.real = q.real;
  p.frame_bytes = roce_frame_bytes(p.addressing, p.out.fields.opcode, p.out.payload_bytes);
  p.wire_bytes = wire_bytes(p.frame_bytes);
  p.link = link_id(q.node, true, line == kAckLine ? control_class() : line);
  p.head = p.tail = now;
  if (line != kAckLine) ready_[q.node * kLines + line].sending = slot;
  note_start(p, slot, now);
  return id;
}

/// A finished frame of node `packet.node` goes out as if of a queue pair of its own: in turn with
/// the others, whatever number of them a peer makes the node send. Beyond a share of the packets
/// that are free they are lost.
void Shard::send_raw(uint32_t packet, Time now) {
  const uint32_t node = pool_[packet].node;
  RawQueue& queue = raw_[node];
  const uint32_t link = link_id(node, true, 0);
  if (queue.waiting > pool_.available(PacketSide::kOutbound) / kRawShare) {
    ++links_[link].counters().dropped;
    counters_of(pool_[packet].real).drop(Drop::kQueueFull);
    return pool_.release(packet);
  }
  pool_.links()[packet] = kNoPacket;
  (queue.first == kNoPacket ? queue.first : pool_.links()[queue.last]) = packet;
  queue.last = packet;
  ++queue.waiting;
  make_ready(raw_slot(node), 0, now);
  if (fabric_ != nullptr) return fabric_->ready(node, now);
  if (!links_[link].busy()) pull(node, 0, now);
}

uint32_t Shard::take_raw(uint32_t node, Time now) {
  RawQueue& queue = raw_[node];
  const uint32_t id = queue.first;
  queue.first = pool_.links()[id];
  --queue.waiting;
  Packet& p = pool_[id];
  p.link = link_id(node, true, 0);
  p.head = p.tail = p.due = now;
  if (queue.waiting != 0) make_ready(raw_slot(node), 0, now);
  return id;
}

/// Puts a slot behind the others of its node's line, if it does not stand there. One whose packet
/// is on the link waits until that is free: those that come meanwhile are before it.
void Shard::make_ready(uint32_t slot, uint32_t line, Time now) {
  QpSlot& q = qps_[slot];
  ReadyList& ready = ready_[q.node * kLines + line];
  if (q.queued[line] || ready.sending == slot) return;
  q.queued[line] = true;
  q.next[line] = kNoSlot;
  (ready.first == kNoSlot ? ready.first : qps_[ready.last].next[line]) = slot;
  ready.last = slot;
  if (line == kAckLine) return;
  if (fabric_ != nullptr) q.turn = fabric_->take_turn();
  if (q.control != nullptr) q.control->ready(now);
}

/// The link is free: who sent last is behind all that wait now.
void Shard::stand_again(uint32_t node, uint32_t line, Time now) {
  const uint32_t slot = std::exchange(ready_[node * kLines + line].sending, kNoSlot);
  if (slot == kNoSlot || qps_[slot].qp == nullptr) return;
  if (sends(slot, line, now)) make_ready(slot, line, now);
}

void Shard::starve(uint32_t list) {
  if (ready_[list].starved) return;
  ready_[list].starved = true;
  ready_[list].next = kNoList;
  (first_starved_ == kNoList ? first_starved_ : ready_[last_starved_].next) = list;
  last_starved_ = list;
}

/// Packets have been sent or delivered since queue pairs found too few of them. Whoever has got one
/// and finds none again is behind all others, so that none takes all that others have freed.
void Shard::feed_starved(Time now) {
  while (first_starved_ != kNoList && pool_.available(PacketSide::kOutbound) != 0) {
    const uint32_t list = first_starved_;
    first_starved_ = ready_[list].next;
    ready_[list].starved = false;
    const uint32_t node = list / kLines, line = list % kLines;
    const uint32_t cls = line == kAckLine ? control_class() : line;
    if (fabric_ != nullptr) {
      fabric_->ready(node, now);
      continue;
    }
    // A busy link takes its next packet when it is free.
    if (!links_[link_id(node, true, cls)].busy()) pull(node, cls, now);
  }
}

void Shard::kick(uint32_t slot, Time now) {
  if (fabric_ != nullptr) return kick_switched(slot, now);
  kick_line(slot, kAckLine, control_class(), now);
  for (uint32_t cls = 0; cls <= control_class(); ++cls) kick_line(slot, cls, cls, now);
  arm_timer(slot);
}

void Shard::kick_line(uint32_t slot, uint32_t line, uint32_t cls, Time now) {
  QpSlot& q = qps_[slot];
  if (!q.queued[line] && sends(slot, line, now)) make_ready(slot, line, now);
  if (q.queued[line] && !links_[link_id(q.node, true, cls)].busy()) pull(q.node, cls, now);
}

void Shard::arm_timer(uint32_t slot) {
  const Time deadline = qps_[slot].qp->deadline();
  if (deadline >= qps_[slot].timer) return;
  qps_[slot].timer = deadline;
  events_.push(deadline, EventKind::kTimer, slot);
}

void Shard::deliver(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  if (p.kind == PacketKind::kRawIn) {
    FrameView view;
    RoceView roce;
    parse_frame({pool_.buffer(packet), p.frame_bytes}, view, roce);
    answer(NeighbourQuery::kEcho, view, config_.nodes.nics()[p.node], now);
    pool_.release(packet);
    return;
  }
  if (p.qpn == kGsiQpn) return deliver_gsi(packet, now);
  const uint32_t slot = slot_of(p.qpn);
  if (!belongs(p, qps_[slot])) {  // removed while the packet was on its way
    counters_of(p.real).drop(Drop::kUnknownQpn);
    return pool_.release(packet);
  }
  if (qps_[slot].datagrams != nullptr) return echo_datagram(packet, slot, now);
  if (p.view.info().kind == OpKind::kCnp) {
    pool_.release(packet);
    return hear_cnp(slot, now);
  }
  look_for_mark(p, slot, now);
  // Packets that waited for the poll in the middle of a message delay its end as well.
  Duration& uncertainty = qps_[slot].uncertainty;
  arrival_uncertainty_ = uncertainty = std::max(uncertainty, p.uncertainty);
  if (p.view.info().end) uncertainty = Duration();
  qps_[slot].qp->on_packet(now, p.view, pool_.buffer(packet));
  pool_.release(packet);
  note_answer(slot, now);
  if (qps_[slot].heard) return;
  qps_[slot].heard = true;
  heard_.push_back(slot);
}

}  // namespace understudy
