#include "dataplane/engine/receive/delivery.h"

#include <algorithm>

namespace understudy {

Delivery::Delivery(ShardState& state, QpPacing& pacing, CnpQueue& cnps, NetworkSide& network,
                   Datagrams& datagrams, HostFrames& host)
    : config_(state.config),
      pool_(state.pool),
      events_(state.events),
      qps_(state.qps),
      ports_(state.ports),
      arrival_uncertainty_(state.arrival_uncertainty),
      pacing_(pacing),
      cnps_(cnps),
      network_(network),
      datagrams_(datagrams),
      host_(host) {
  pending_acks_.reserve(config_.queue_pairs);
}

void Delivery::handle(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  if (p.kind == PacketKind::kRawIn) return host_.answer_echo(packet, now);
  if (p.qpn == kGsiQpn) return datagrams_.deliver_gsi(packet, now);
  const uint32_t slot = qps_.slot_of(p.qpn);
  QpSlot& q = qps_[slot];
  if (!belongs(p, q)) {  // removed while the packet was on its way
    ports_.counters_of(p.real).drop(Drop::kUnknownQpn);
    return pool_.release(packet);
  }
  if (q.datagrams) return datagrams_.echo(packet, slot, now);
  if (p.view.info().kind == OpKind::kCnp) {
    pool_.release(packet);
    if (pacing_.on_cnp(slot, now)) network_.offer(slot, now);
    return;
  }
  if (cnps_.note_mark(p, slot, now)) network_.ready(q.node, config_.control_class(), now);
  // Packets that waited for the poll in the middle of a message delay its end as well.
  arrival_uncertainty_ = q.uncertainty = std::max(q.uncertainty, p.uncertainty);
  if (p.view.info().end) q.uncertainty = Duration();
  network_.note_delivery(slot);
  if (p.kind == PacketKind::kTrain) {
    q.qp->on_train(now, p.before, p.before_bytes, p.view, pool_.buffer(packet));
  } else {
    q.qp->on_packet(now, p.view, pool_.buffer(packet));
  }
  network_.note_delivery(kNoSlot);
  pool_.release(packet);
  pacing_.note_answer(slot, now);
  if (q.ack_pending) return;
  if (!q.qp->can_send(now, TrafficKind::kAny) && q.qp->deadline() >= q.timer) return;
  q.ack_pending = true;
  pending_acks_.push_back(slot);
}

void Delivery::answer_pending(Time now) {
  for (size_t i = 0; i < pending_acks_.size(); ++i) {
    QpSlot& q = qps_[pending_acks_[i]];
    q.ack_pending = false;
    if (q.qp != nullptr) network_.offer(pending_acks_[i], now);
  }
  pending_acks_.clear();
}

void Delivery::on_timer(uint32_t slot, Time now) {
  QpSlot& q = qps_[slot];
  if (q.qp == nullptr || q.timer != now) return;
  q.timer = Time::never();
  if (qps_.is_paused(q.node)) return;
  if (q.qp->deadline() <= now) q.qp->on_timer(now);
  network_.offer(slot, now);
}

}  // namespace understudy
