// Commands of control, executed between bursts or at their effective time, and acknowledged.
#include <algorithm>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {

constexpr Duration kLongPause = Duration::s(1);

}  // namespace

/// What is for now waits where it is until its turn, behind what was due before now.
void Shard::take_commands(Time now) {
  const size_t count = control_.commands.size();
  if (count == 0) return;
  control_.commands.look(count, [&](const Command& command) {
    if (command.effective <= now) return;
    uint32_t slot;
    if (free_pending_.empty()) {
      slot = static_cast<uint32_t>(pending_.size());
      pending_.push_back(command);
    } else {
      slot = free_pending_.back();
      free_pending_.pop_back();
      pending_[slot] = command;
    }
    events_.push(command.effective, EventKind::kCommand, slot);
  });
  events_.push(now, EventKind::kCommands, static_cast<uint32_t>(count));
}

void Shard::execute_next(uint32_t count, Time now) {
  for (; count > 0; --count) {
    Command command;
    control_.commands.pop(command);
    if (command.effective > now) continue;
    control_.replies.push({command.sequence, execute(command, now), now});
  }
}

uint32_t Shard::slot_of(Qpn qpn) const {
  if (qpn >> kQpnShardShift != config_.index) return kNoSlot;
  const uint32_t slot = (qpn & ((1u << kQpnShardShift) - 1)) - kFirstQpn;
  return slot < config_.queue_pairs ? slot : kNoSlot;
}

ReplyStatus Shard::execute(const Command& command, Time now) {
  switch (command.kind) {
    case CommandKind::kAddQp: {
      const uint32_t slot = slot_of(command.qp->config().qpn);
      const RoceAddressing& a = command.qp->config().addressing;
      const NodeNic* nic = config_.nodes.find(command.qp->config().node, a.src);
      if (slot == kNoSlot) return ReplyStatus::kTableFull;
      if (nic == nullptr || qps_[slot].is_taken()) return ReplyStatus::kNoSuchObject;
      const uint32_t node = config_.nodes.position(*nic);
      QpSlot& q = qps_[slot];
      q.qp = command.qp;
      rest_[slot].endpoint = command.endpoint;
      q.control = command.control;
      command.endpoint->attach(*this);
      q.node = node;
      q.real = real_for(a.dst, node);
      q.wants_payload = command.needs_payload;
      q.wants_small = command.needs_small;
      q.uncertainty = Duration();
      faults_.on_new_qp(slot, node, command.qp->config().sq_psn, command.qp->config().rq_psn);
      kick(slot, now);
      return ReplyStatus::kDone;
    }
    case CommandKind::kAddDatagramQp: {
      DatagramQp& added = *command.datagrams;
      const uint32_t slot = slot_of(added.qpn);
      const NodeNic* nic = config_.nodes.find(added.node, added.addressing.src);
      if (slot == kNoSlot) return ReplyStatus::kTableFull;
      if (nic == nullptr || qps_[slot].is_taken()) return ReplyStatus::kNoSuchObject;
      qps_[slot].datagrams = true;
      rest_[slot].datagrams = &added;
      qps_[slot].node = config_.nodes.position(*nic);
      faults_.on_new_qp(slot, qps_[slot].node, added.next, Psn());
      return ReplyStatus::kDone;
    }
    case CommandKind::kRemoveQp: {
      const uint32_t slot = slot_of(command.qpn);
      if (slot == kNoSlot || !qps_[slot].is_taken()) return ReplyStatus::kNoSuchObject;
      leave_ready_lists(slot);
      forget_cnp(slot);
      end_control(slot);
      if (qps_[slot].qp != nullptr) qps_[slot].qp->responder().forget_answers();
      qps_[slot].qp = nullptr;
      qps_[slot].datagrams = false;
      rest_[slot].datagrams = nullptr;
      rest_[slot].endpoint = nullptr;
      // Packets still on their way must not reach for memory that control frees next, nor speak to
      // the number's next owner: they belong() to nobody now.
      ++qps_[slot].generation;
      return ReplyStatus::kDone;
    }
    case CommandKind::kModifyQp: {
      const uint32_t slot = slot_of(command.qpn);
      if (slot == kNoSlot || qps_[slot].qp == nullptr) return ReplyStatus::kNoSuchObject;
      if (!qps_[slot].qp->modify(now, command.state)) return ReplyStatus::kNotAllowed;
      if (command.state == QpState::kReset && qps_[slot].control != nullptr) {
        qps_[slot].control->log().clear();
      }
      kick(slot, now);
      return ReplyStatus::kDone;
    }
    case CommandKind::kAddRegion:
      return regions_.add(command.region_index, command.region) ? ReplyStatus::kDone
                                                                : ReplyStatus::kTableFull;
    case CommandKind::kRemoveRegion: {
      if (regions_.at(command.region_index) == nullptr) return ReplyStatus::kNoSuchObject;
      regions_.remove(command.region_index);
      return ReplyStatus::kDone;
    }
    case CommandKind::kSetLink: {
      if (fabric_ != nullptr) {
        std::optional<Rate> rate;
        std::optional<Duration> latency;
        if (command.has_rate) rate = command.rate;
        if (command.has_latency) latency = command.latency;
        const bool found = fabric_->set_link(command.node, rate, latency, now);
        return found ? ReplyStatus::kDone : ReplyStatus::kNoSuchObject;
      }
      bool found = false;
      const auto& nics = config_.nodes.nics();
      for (uint32_t node = 0; node < nics.size(); ++node) {
        if (nics[node].id != command.node) continue;
        found = true;
        if (command.has_rate) apply_rate(node, command.rate);
        for (uint32_t cls = 0; command.has_latency && cls < kClasses; ++cls) {
          links_[link_id(node, true, cls)].set_latency(command.latency);
          links_[link_id(node, false, cls)].set_latency(command.latency);
        }
      }
      return found ? ReplyStatus::kDone : ReplyStatus::kNoSuchObject;
    }
    case CommandKind::kSendDatagram:
      return send_datagram(*command.datagram, command.node, now);
    case CommandKind::kReach:
      return reach(*command.datagram, command.node);
    case CommandKind::kWakeEndpoint:
      command.endpoint->attach(*this);
      command.endpoint->on_wake(now, command.cookie);
      return ReplyStatus::kDone;
    case CommandKind::kFindDeadlock:
      if (fabric_ == nullptr) return ReplyStatus::kNoSuchObject;
      // The search looks at every packet: time that is taken only where pauses do not end.
      if (network()->longest_pause(now) >= kLongPause) command.deadlock->find(*network());
      return ReplyStatus::kDone;
    case CommandKind::kSnapshot:
      snapshot(*command.snapshot, now);
      return ReplyStatus::kDone;
    case CommandKind::kCountRc:
      *command.rc = ports_[command.port].counters.rc;
      return ReplyStatus::kDone;
  }
  return ReplyStatus::kNoSuchObject;
}

void Shard::leave_ready_lists(uint32_t slot) {
  QpSlot& q = qps_[slot];
  for (uint32_t line = 0; line < kLines; ++line) {
    ReadyList& ready = ready_[q.node * kLines + line];
    if (ready.sending == slot) ready.sending = kNoSlot;
    if (!q.queued[line]) continue;
    uint32_t before = kNoSlot;
    for (uint32_t at = ready.first; at != slot; at = qps_[at].next[line]) before = at;
    (before == kNoSlot ? ready.first : qps_[before].next[line]) = q.next[line];
    if (ready.last == slot) ready.last = before;
    q.queued[line] = false;
  }
}

void Shard::apply_rate(uint32_t node, Rate rate) {
  // Where the model is at least as fast as the port, the wire itself is the link.
  const Rate wire = is_real(node) ? port_of(node).physical : Rate::unlimited();
  const bool wire_is_link = !wire.is_unlimited() && (rate.is_unlimited() || rate >= wire);
  const Rate applied = config_.pacing && !wire_is_link ? rate : Rate::unlimited();
  for (uint32_t cls = 0; cls < kClasses; ++cls) {
    links_[link_id(node, true, cls)].set_rate(applied);
    links_[link_id(node, false, cls)].set_rate(applied);
  }
}

void Shard::fit(ShardSnapshot& out) const {
  const size_t nodes = fabric_ == nullptr ? config_.nodes.nics().size() : 0;
  out.up.resize(nodes);
  out.down.resize(nodes);
  out.network.resize(fabric_ == nullptr ? 0 : fabric_->links());
  out.faults.resize(faults_.faults().size());
  out.controls.resize(control_users_.size());
}

void Shard::snapshot(ShardSnapshot& out, Time now, uint32_t port) const {
  out.at = now;
  out.counters = ports_[port].counters;
  out.pfc = ports_[port].pfc.counters_at(now);
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
  std::copy(control_users_.begin(), control_users_.end(), out.controls.begin());
  for (const QpSlot& q : qps_) {
    if (q.control != nullptr) out.controls[q.control->user()].add(q.control->counters());
  }
  for (LinkId link = 0; link < out.network.size(); ++link) {
    out.network[link] = network()->counters_at(link, now);
  }
  for (size_t i = 0; i < out.faults.size(); ++i) out.faults[i] = faults_.counters()[i];
}

}  // namespace understudy
