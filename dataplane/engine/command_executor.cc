#include "dataplane/engine/command_executor.h"

#include <utility>

namespace understudy {
namespace {

constexpr Duration kLongPause = Duration::s(1);

ReplyStatus done_if(bool done, ReplyStatus otherwise) {
  return done ? ReplyStatus::kDone : otherwise;
}

}  // namespace

CommandExecutor::CommandExecutor(ShardState& state, const Parts& parts)
    : config_(state.config),
      events_(state.events),
      qps_(state.qps),
      ports_(state.ports),
      regions_(state.regions),
      faults_(state.faults),
      parts_(parts),
      later_(kPending) {}

/// What is for now waits where it is until its turn, behind what was due before now. A shard that
/// comes late, as its first turn may on a busy machine, has done nothing since the last one: what
/// is for a moment since then is in time.
void CommandExecutor::take_new(Time now) {
  in_time_ = std::exchange(done_until_, now);
  const size_t count = queue_.commands.size();
  if (count == 0) return;
  queue_.commands.look(count, [&](const Command& command) {
    if (command.kind == CommandKind::kSetLink && command.change.may_stop()) {
      parts_.network.expect_stops();
    }
    if (command.effective <= in_time_) return;
    events_.push(command.effective, EventKind::kCommand, later_.put(command));
  });
  events_.push(now, EventKind::kCommands, static_cast<uint32_t>(count));
}

void CommandExecutor::on_effective(uint32_t slot, Time now) {
  const Command command = later_.take(slot);
  queue_.replies.push({command.sequence, execute(command, now), now});
}

void CommandExecutor::on_new(uint32_t count, Time now) {
  for (; count > 0; --count) {
    Command command;
    if (!queue_.commands.pop(command)) return;
    if (command.effective > in_time_) continue;
    queue_.replies.push({command.sequence, execute(command, now), now});
  }
}

ReplyStatus CommandExecutor::execute(const Command& command, Time now) {
  switch (command.kind) {
    case CommandKind::kAddQp:
      return add_qp(command, now);
    case CommandKind::kAddDatagramQp:
      return add_datagram_qp(command);
    case CommandKind::kRemoveQp:
      return remove_qp(command);
    case CommandKind::kModifyQp:
      return modify_qp(command, now);
    case CommandKind::kAddRegion:
      return done_if(regions_.add(command.region_index, command.region), ReplyStatus::kTableFull);
    case CommandKind::kRemoveRegion: {
      if (regions_.at(command.region_index) == nullptr) return ReplyStatus::kNoSuchObject;
      regions_.remove(command.region_index);
      return ReplyStatus::kDone;
    }
    case CommandKind::kSetLink:
      return set_link(command, now);
    case CommandKind::kSetTraffic:
      return done_if(parts_.network.set_running(command.group, command.running, now),
                     ReplyStatus::kNoSuchObject);
    case CommandKind::kSendDatagram:
      return parts_.datagrams.send(*command.datagram, command.node, now);
    case CommandKind::kReach:
      return parts_.host.reach(*command.datagram, command.node);
    case CommandKind::kWakeEndpoint:
      command.endpoint->attach(parts_.endpoints);
      command.endpoint->on_wake(now, command.cookie);
      return ReplyStatus::kDone;
    case CommandKind::kForget:
      forget(*command.endpoints);
      return ReplyStatus::kDone;
    case CommandKind::kFindDeadlock:
      return find_deadlock(command, now);
    case CommandKind::kLookAtFlows:
      if (config_.background == nullptr) return ReplyStatus::kNoSuchObject;
      config_.background->look(*command.flows);
      return ReplyStatus::kDone;
    case CommandKind::kSnapshot:
      snapshot(*command.snapshot, now, 0);
      return ReplyStatus::kDone;
    case CommandKind::kCountRc:
      *command.rc = ports_[command.port].counters.rc;
      return ReplyStatus::kDone;
  }
  return ReplyStatus::kNoSuchObject;
}

ReplyStatus CommandExecutor::add_qp(const Command& command, Time now) {
  const QpConfig& config = command.qp->config();
  const uint32_t slot = qps_.slot_of(config.qpn);
  const RoceAddressing& a = config.addressing;
  const NodeNic* nic = config_.nodes.find(config.node, a.src);
  if (slot == kNoSlot) return ReplyStatus::kTableFull;
  if (nic == nullptr || qps_[slot].is_taken()) return ReplyStatus::kNoSuchObject;
  QpSlot& q = qps_[slot];
  q.qp = command.qp;
  qps_.rest(slot).endpoint = command.endpoint;
  q.control = command.control;
  command.endpoint->attach(parts_.endpoints);
  q.node = config_.nodes.position(*nic);
  q.real = ports_.nic_toward(a.dst, q.node);
  q.wants_payload = command.needs_payload;
  q.wants_small = command.needs_small;
  q.uncertainty = Duration();
  if (!config_.limits.empty() && config_.limits[q.node].ack_every != 0) {
    q.qp->set_ask_every(static_cast<uint8_t>(config_.limits[q.node].ack_every));
  }
  faults_.on_new_qp(slot, q.node, config.sq_psn, config.rq_psn);
  parts_.network.offer(slot, now);
  return ReplyStatus::kDone;
}

ReplyStatus CommandExecutor::add_datagram_qp(const Command& command) {
  DatagramQp& added = *command.datagrams;
  const uint32_t slot = qps_.slot_of(added.qpn);
  const NodeNic* nic = config_.nodes.find(added.node, added.addressing.src);
  if (slot == kNoSlot) return ReplyStatus::kTableFull;
  if (nic == nullptr || qps_[slot].is_taken()) return ReplyStatus::kNoSuchObject;
  qps_[slot].datagrams = true;
  qps_.rest(slot).datagrams = &added;
  qps_[slot].node = config_.nodes.position(*nic);
  faults_.on_new_qp(slot, qps_[slot].node, added.next, Psn());
  return ReplyStatus::kDone;
}

ReplyStatus CommandExecutor::remove_qp(const Command& command) {
  const uint32_t slot = qps_.slot_of(command.qpn);
  if (slot == kNoSlot || !qps_[slot].is_taken()) return ReplyStatus::kNoSuchObject;
  parts_.scheduler.remove(slot);
  parts_.cnps.remove(slot);
  parts_.pacing.remove(slot);
  if (qps_[slot].qp != nullptr) qps_[slot].qp->responder().forget_answers();
  qps_[slot].qp = nullptr;
  qps_[slot].datagrams = false;
  qps_.rest(slot).datagrams = nullptr;
  qps_.rest(slot).endpoint = nullptr;
  // Packets still on their way must not reach for memory that control frees next, nor speak to the
  // number's next owner: they belong() to nobody now.
  ++qps_[slot].generation;
  return ReplyStatus::kDone;
}

ReplyStatus CommandExecutor::modify_qp(const Command& command, Time now) {
  const uint32_t slot = qps_.slot_of(command.qpn);
  if (slot == kNoSlot || qps_[slot].qp == nullptr) return ReplyStatus::kNoSuchObject;
  return done_if(modify(slot, *qps_[slot].qp, command.state, now), ReplyStatus::kNotAllowed);
}

bool CommandExecutor::modify(uint32_t slot, Qp& qp, QpState to, Time now) {
  if (slot == kNoSlot || qps_[slot].qp != &qp || !qp.modify(now, to)) return false;
  if (to == QpState::kReset && qps_[slot].control != nullptr) {
    qps_[slot].control->log().clear();
  }
  parts_.network.offer(slot, now);
  return true;
}

ReplyStatus CommandExecutor::set_link(const Command& command, Time now) {
  if (!parts_.network.set_link(command.node, command.change, now)) {
    return ReplyStatus::kNoSuchObject;
  }
  if (command.change.paused && command.change.link == kNoLink) {
    set_paused(command.node, *command.change.paused, now);
  }
  return ReplyStatus::kDone;
}

/// Timers of a node that stands still stand too. What was due meanwhile is so when it goes on.
void CommandExecutor::set_paused(NodeId id, bool paused, Time now) {
  const std::vector<NodeNic>& nics = config_.nodes.nics();
  for (uint32_t node = 0; node < nics.size(); ++node) {
    if (nics[node].id == id) qps_.pause(node, paused);
  }
  for (uint32_t slot = 0; !paused && slot < config_.queue_pairs; ++slot) {
    QpSlot& q = qps_[slot];
    if (q.qp == nullptr || nics[q.node].id != id) continue;
    if (q.qp->deadline() <= now) q.qp->on_timer(now);
    parts_.network.offer(slot, now);
  }
}

/// The calendar keeps its events, which are nobody's now.
void CommandExecutor::forget(const std::vector<const Endpoint*>& endpoints) {
  parts_.wakes.for_each([&](EndpointWake& wake) {
    if (std::ranges::binary_search(endpoints, wake.endpoint)) wake.endpoint = &nobody_;
  });
}

ReplyStatus CommandExecutor::find_deadlock(const Command& command, Time now) {
  const Network* network = parts_.network.network();
  if (network == nullptr) return ReplyStatus::kNoSuchObject;
  // The search looks at every packet: time that is taken only where pauses do not end.
  if (network->longest_pause(now) >= kLongPause) command.deadlock->find(*network);
  return ReplyStatus::kDone;
}

void CommandExecutor::fit(ShardSnapshot& out) const {
  parts_.network.fit(out);
  out.faults.resize(faults_.faults().size());
  out.controls.resize(parts_.pacing.users());
}

void CommandExecutor::snapshot(ShardSnapshot& out, Time now, uint32_t port) const {
  out.at = now;
  out.counters = ports_[port].counters;
  out.pfc = ports_[port].pfc.counters_at(now);
  parts_.pacing.snapshot(out.controls);
  parts_.network.snapshot(out, now);
  for (size_t i = 0; i < out.faults.size(); ++i) out.faults[i] = faults_.counters()[i];
}

}  // namespace understudy
