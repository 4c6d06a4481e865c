// The shard's events, and what packets come to at their end. Everything here runs at the modelled
// time of its event, however late the loop comes to it.
#include <algorithm>
#include <utility>

#include "dataplane/engine/shard.h"

namespace understudy {
void Shard::run_events(Time now) {
  for (;;) {
    const Time own = events_.next();
    if (fabric_ != nullptr) {
      if (const Time at = fabric_->next(); at < own) {
        if (at > now) return;
        fabric_->step();
        if (!heard_.empty() && next_event() > at) answer_heard(at);
        continue;
      }
    }
    if (own > now) return;
    const ShardEvent e = events_.pop();
    if (const uint32_t ahead = events_.packet_ahead(); ahead != kNoPacket) pool_.prefetch(ahead);
    switch (e.kind) {
      case EventKind::kLinkFree:
        link_free(e.index, e.time);
        break;
      case EventKind::kLinkArrive:
        if (takes_at_once() && leaves_real(pool_[e.index].link)) {
          --port_of(pool_[e.index].link / (2 * kClasses)).coming_in;
        }
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
        control_.replies.push({command.sequence, execute(command, e.time), e.time});
        break;
      }
      case EventKind::kCommands:
        execute_next(e.index, e.time);
        break;
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
  if (qps_[slot].datagrams) return echo_datagram(packet, slot, now);
  if (p.view.info().kind == OpKind::kCnp) {
    pool_.release(packet);
    return hear_cnp(slot, now);
  }
  look_for_mark(p, slot, now);
  // Packets that waited for the poll in the middle of a message delay its end as well.
  Duration& uncertainty = qps_[slot].uncertainty;
  arrival_uncertainty_ = uncertainty = std::max(uncertainty, p.uncertainty);
  if (p.view.info().end) uncertainty = Duration();
  QpSlot& q = qps_[slot];
  if (p.kind == PacketKind::kRun) {
    q.qp->on_run(now, p.before, p.before_bytes, p.view, pool_.buffer(packet));
  } else {
    q.qp->on_packet(now, p.view, pool_.buffer(packet));
  }
  pool_.release(packet);
  note_answer(slot, now);
  if (q.heard) return;
  if (!q.qp->can_send(now, TrafficKind::kAny) && q.qp->deadline() >= q.timer) return;
  q.heard = true;
  heard_.push_back(slot);
}

}  // namespace understudy
