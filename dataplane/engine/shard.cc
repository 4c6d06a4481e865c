#include "dataplane/engine/shard.h"

#include <algorithm>

namespace understudy {

Shard::Shard(const ShardConfig& config)
    : state_(config),
      pacing_(state_),
      cnps_(state_),
      scheduler_(state_, pacing_, cnps_),
      uplinks_(state_, pacing_, cnps_, scheduler_),
      inbound_(state_),
      faults_(state_, inbound_),
      pauses_(state_),
      egress_(state_, faults_, pauses_),
      network_(state_, scheduler_, uplinks_, egress_, *this),
      datagrams_(state_, inbound_, faults_, network_),
      host_(state_, inbound_, egress_, network_),
      receive_path_(state_, {inbound_, faults_, network_, datagrams_, host_, pauses_}),
      delivery_(state_, pacing_, cnps_, network_, datagrams_, host_),
      wakes_(config.packets),
      commands_(state_, {pacing_, cnps_, scheduler_, network_, datagrams_, host_, *this, wakes_}),
      held_(state_) {}

void Shard::poll(Time now, std::span<TxSink* const> sinks) {
  commands_.take_new(now);
  run_events(now);
  send_due(now, sinks);
  if (scheduler_.is_starved()) {
    network_.feed_starved(now);
    send_due(now, sinks);
  }
  host_.send(now, sinks);
}

void Shard::send_due(Time now, std::span<TxSink* const> sinks) {
  for (uint32_t i = 0; i < ports(); ++i) egress_.send_due(state_.ports[i], now, *sinks[i]);
}

Time Shard::next_wake() const {
  if (commands_.has_new()) return Time::zero();
  Time next = std::min(next_event(), host_.next());
  for (const RealPort& port : state_.ports) next = std::min(next, egress_.next(port));
  return next;
}

[[gnu::always_inline]] inline void Shard::handle(ShardEvent event) {
  switch (event.kind) {
    case EventKind::kLinkFree:
    case EventKind::kLinkArrive:
      return network_.on_event(event);
    case EventKind::kDeliver:
      return delivery_.deliver(event.index, event.time);
    case EventKind::kHandle:
      return delivery_.handle(event.index, event.time);
    case EventKind::kPost:
      if (const uint32_t slot = held_.on_due(event.index, event.time); slot != kNoSlot) {
        network_.offer(slot, event.time);
      }
      return;
    case EventKind::kDepart:
      return egress_.on_depart(event.index, event.time);
    case EventKind::kHeldLong:
      return faults_.on_held_long(event.index, event.time);
    case EventKind::kPace:
      if (pacing_.on_pace_alarm(event.index, event.time)) network_.offer(event.index, event.time);
      return;
    case EventKind::kController:
      if (pacing_.on_controller_alarm(event.index, event.time)) {
        network_.offer(event.index, event.time);
      }
      return;
    case EventKind::kTimer:
      return delivery_.on_timer(event.index, event.time);
    case EventKind::kWake: {
      const EndpointWake wake = wakes_.take(event.index);
      return wake.endpoint->on_wake(event.time, wake.cookie);
    }
    case EventKind::kPauseHeard:
    case EventKind::kPauseEnds:
      return look_at_pause(event);
    case EventKind::kCommand:
      return commands_.on_effective(event.index, event.time);
    case EventKind::kCommands:
      return commands_.on_new(event.index, event.time);
  }
}

/// Everything here runs at the modelled time of its event, however late the loop comes to it. At
/// one moment the shard's own events come before its network's.
void Shard::run_events(Time now) {
  for (;;) {
    const Time own = state_.events.next(), networks = network_.next();
    const Time at = std::min(own, networks);
    if (at > now) return;
    if (networks < own) {
      network_.step();
    } else {
      const ShardEvent event = state_.events.pop();
      if (const uint32_t ahead = state_.events.packet_ahead(); ahead != kNoPacket) {
        state_.pool.prefetch(ahead);
      }
      handle(event);
    }
    if (delivery_.has_pending() && next_event() > at) delivery_.answer_pending(at);
  }
}

/// A class may have been paused by a real node, or its pause may be over.
void Shard::look_at_pause(ShardEvent event) {
  RealPort& port = state_.ports[PauseFrames::port_of_event(event.index)];
  const unsigned cls = PauseFrames::class_of_event(event.index);
  if (!port.pfc.look(cls, event.time)) return;
  network_.hear_pause(port.nic, cls, port.pfc.is_paused(cls), event.kind == EventKind::kPauseHeard,
                      event.time);
}

bool Shard::post(Time now, Qp& qp, const WorkRequest& request) {
  const uint32_t slot = state_.qps.slot_of(qp.config().qpn);
  if (slot == kNoSlot || state_.qps[slot].qp != &qp) return false;
  if (const Duration time = held_.time(slot); time > Duration()) {
    return held_.hold(slot, request, now + time);
  }
  if (!qp.post(request)) return false;
  network_.offer(slot, now);
  return true;
}

bool Shard::modify(Time now, Qp& qp, QpState to) {
  return commands_.modify(state_.qps.slot_of(qp.config().qpn), qp, to, now);
}

void Shard::wake_at(Time t, Endpoint& endpoint, uint64_t cookie) {
  state_.events.push(t, EventKind::kWake, wakes_.put({&endpoint, cookie}));
}

void Shard::tell(Time now, const Qp& qp, NoticeKind kind, std::span<const uint8_t> bytes) {
  const QpConfig& c = qp.config();
  state_.notify({kind, c.qpn, now, c.addressing.src, c.addressing.dst}, bytes);
}

uint32_t Shard::next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now) {
  return uplinks_.next_packet(node, uplink, blocked, now);
}

uint64_t Shard::next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now) {
  return uplinks_.next_turn(node, uplink, blocked, now);
}

void Shard::came_through(uint32_t packet, Time now) {
  const PacketKind kind = state_.pool[packet].kind;
  if (kind == PacketKind::kFromReal || kind == PacketKind::kRawIn) {
    return delivery_.deliver(packet, now);
  }
  egress_.depart(packet, 0);
}

void Shard::lost(uint32_t packet, PacketLoss why) { drop_lost(state_, packet, why); }

void Shard::tell_pause(uint32_t real, unsigned cls, bool pause, Time due) {
  state_.ports.of(real).pfc.tell(cls, pause, due);
}

}  // namespace understudy
