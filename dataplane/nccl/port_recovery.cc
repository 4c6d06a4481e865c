// How a device that has failed is used again: the sender says by its unreliable queue pair that it
// lives, the receiver acknowledges that, the sender acknowledges the acknowledgement
// (docs/nccl 3.15).
#include <algorithm>

#include "dataplane/nccl/port_failover.h"

namespace understudy {
namespace {

constexpr uint32_t kAcknowledgement = 0x1234;
constexpr uint64_t kReceives = 10;                     // of a receiver's unreliable queue pair
constexpr uint64_t kAcknowledges = uint64_t{1} << 32;  // id of that work request
constexpr uint64_t kUnsignalled = kAcknowledges + 1;

WorkRequest short_message(uint64_t id, uint32_t number) {
  WorkRequest send;
  send.op = WorkOp::kSendImm;
  send.id = id;
  send.imm = __builtin_bswap32(number);  // it is not swapped for the wire
  return send;
}

}  // namespace

void PortFailover::begin_recovery(Time now, uint32_t device) {
  states_[device] = DeviceState::kRecovering;
  Recovery& r = recoveries_[device];
  const uint32_t epoch = r.epoch;
  r = {};
  r.epoch = epoch;
  r.step = Step::kWaits;
  for (size_t q = device; q < setup_.data.size(); q += setup_.devices) {
    host_->modify(now, *setup_.data[q], QpState::kError);
  }
  setup_.recovery[device]->responder().post_receives(setup_.sends ? 1 : kReceives);
  wake_recovery(now + setup_.settings.recovery_delay, device);
}

/// Instead of what was to come before.
void PortFailover::wake_recovery(Time at, uint32_t device) {
  const uint32_t epoch = ++recoveries_[device].epoch;
  host_->wake_at(at, *this, cookie(WakeKind::kRecovery, uint64_t{device} << 32 | epoch));
}

void PortFailover::recovery_due(Time now, uint32_t device) {
  Recovery& r = recoveries_[device];
  switch (r.step) {
    case Step::kIdle:
      return;
    case Step::kWaits:
      r.step = Step::kAlive;
      if (setup_.sends) return send_alive(now, device);
      if (r.early_count == 0) {
        // It has never heard anything: its first timeout is over at once.
        if (!try_again(device)) return;
        r.last = now;
        return wake_recovery(now + setup_.settings.alive_timeout, device);
      }
      for (uint32_t i = 0; i < r.early_count && r.step == Step::kAlive; ++i) {
        alive_came(now, device, r.early[i]);
      }
      return;
    case Step::kAlive:
      if (setup_.sends) return send_alive(now, device);
      if (!try_again(device)) return;
      r.last = now;
      r.acknowledges = false;
      return wake_recovery(now + setup_.settings.alive_timeout, device);
    case Step::kAcknowledges:
      if (!try_again(device)) return;
      r.step = Step::kAlive;
      r.acknowledges = false;
      r.in_order = 0;
      if (!setup_.sends) return wake_recovery(now + setup_.settings.alive_timeout, device);
      return wake_recovery(std::max(now, r.last + setup_.settings.batch_interval), device);
  }
}

void PortFailover::send_alive(Time now, uint32_t device) {
  Recovery& r = recoveries_[device];
  for (uint32_t i = 0; i < setup_.settings.sequence; ++i, ++r.next) {
    const bool last = i + 1 == setup_.settings.sequence;
    const WorkRequest send = short_message(last ? r.next : kUnsignalled, r.next);
    if (!host_->post(now, *setup_.recovery[device], send)) return give_up(device);
  }
  r.last = now;
}

void PortFailover::send_acknowledgement(Time now, uint32_t device) {
  Recovery& r = recoveries_[device];
  r.acknowledges = true;
  if (!host_->post(now, *setup_.recovery[device], short_message(kAcknowledges, kAcknowledgement))) {
    give_up(device);
  }
}

void PortFailover::recovery_came(Time now, uint32_t device, uint32_t number) {
  Recovery& r = recoveries_[device];
  if (r.step == Step::kIdle) return;
  if (!setup_.sends) setup_.recovery[device]->responder().post_receives(1);
  if (r.step == Step::kWaits) {
    if (r.early_count < r.early.size()) r.early[r.early_count++] = number;
    return;
  }
  if (r.step == Step::kAlive) {
    if (setup_.sends) return give_up(device);  // it does not wait for any
    if (!r.acknowledges) alive_came(now, device, number);
    return;
  }
  if (number != kAcknowledgement) return;  // the last ones of a batch
  if (!setup_.sends) return recovered(device);
  if (r.acknowledges) return;
  restore_queue_pairs(now, device);
  send_acknowledgement(now, device);
}

void PortFailover::alive_came(Time now, uint32_t device, uint32_t number) {
  Recovery& r = recoveries_[device];
  r.in_order = number == r.next ? r.in_order + 1 : 0;
  r.next = number + 1;
  r.last = now;
  // One more than a batch has, as NCCL compares.
  if (r.in_order <= setup_.settings.sequence) {
    return wake_recovery(now + setup_.settings.alive_timeout, device);
  }
  restore_queue_pairs(now, device);
  wake_recovery(r.last + setup_.settings.ack_timeout, device);
  send_acknowledgement(now, device);
}

void PortFailover::recovery_sent(uint32_t device, uint64_t id, WorkStatus status) {
  Recovery& r = recoveries_[device];
  if (r.step == Step::kIdle || id == kUnsignalled) return;
  if (status != WorkStatus::kSuccess) return give_up(device);
  if (id != kAcknowledges) {
    if (r.step != Step::kAlive) return;
    r.step = Step::kAcknowledges;
    return wake_recovery(r.last + setup_.settings.ack_timeout, device);
  }
  if (!r.acknowledges) return;
  if (setup_.sends) return recovered(device);
  r.step = Step::kAcknowledges;
}

/// False: it was the last attempt.
bool PortFailover::try_again(uint32_t device) {
  if (++recoveries_[device].attempts < setup_.settings.recovery_attempts) return true;
  give_up(device);
  return false;
}

/// As they were at the start, PSNs included.
void PortFailover::restore_queue_pairs(Time now, uint32_t device) {
  for (size_t q = device; q < setup_.data.size(); q += setup_.devices) {
    Qp& qp = *setup_.data[q];
    for (const QpState to : {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts}) {
      host_->modify(now, qp, to);
    }
    qp.responder().set_endless_receives();
  }
}

void PortFailover::recovered(uint32_t device) {
  Recovery& r = recoveries_[device];
  r.step = Step::kIdle;
  ++r.epoch;
  states_[device] = DeviceState::kGood;
  for (size_t q = device; q < active_.size(); q += setup_.devices) {
    active_[q] = static_cast<uint8_t>(q);
  }
  add(setup_.counters->recovered);
}

void PortFailover::give_up(uint32_t device) {
  Recovery& r = recoveries_[device];
  if (r.step == Step::kIdle) return;
  r.step = Step::kIdle;
  ++r.epoch;
  states_[device] = DeviceState::kFailed;
  add(setup_.counters->lost);
}

}  // namespace understudy
