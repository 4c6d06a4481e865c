#include "dataplane/nccl/port_failover.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

constexpr Duration kRetry = Duration::us(1);

}  // namespace

void PortFailover::connect(Setup setup) {
  setup_ = std::move(setup);
  ASSERT_INVARIANT(setup_.data.size() <= CompletionRecords::kFlags && setup_.counters != nullptr);
  active_.resize(setup_.data.size());
  for (size_t q = 0; q < active_.size(); ++q) active_[q] = static_cast<uint8_t>(q);
  states_.assign(setup_.devices, DeviceState::kGood);
  recoveries_.assign(setup_.devices, {});
  lost_ = false;
  if (!setup_.sends) return;
  results_.resize(CompletionRecords::kSlots);
  tried_.assign(CompletionRecords::kSlots, 0);
}

bool PortFailover::fail(Time now, uint32_t q, WorkStatus status) {
  if (lost_) return false;
  const uint32_t device = q % setup_.devices;
  uint32_t failed = 0;
  for (uint32_t d = 0; d < setup_.devices; ++d) {
    failed += d == device || states_[d] != DeviceState::kGood ? 1 : 0;
  }
  const bool bears = status == WorkStatus::kRetryExceeded || status == WorkStatus::kFlushed;
  if (!bears || failed == setup_.devices || (setup_.settings.one_device && failed > 1)) {
    lost_ = true;
    return false;
  }
  if (states_[device] != DeviceState::kGood) return true;
  add(setup_.counters->failed);
  states_[device] = DeviceState::kFailed;
  replace(device);
  if (setup_.settings.recovery) begin_recovery(now, device);
  return true;
}

bool PortFailover::stands_in(Time now, uint32_t q) {
  if (lost_ || setup_.data[q]->state() != QpState::kError) return false;
  if (fail(now, q, WorkStatus::kFlushed)) return active_[q] != q;
  lose(now);
  return false;
}

/// By the next queue pair of a good device.
void PortFailover::replace(uint32_t device) {
  const size_t count = setup_.data.size();
  for (uint8_t& active : active_) {
    if (active % setup_.devices != device) continue;
    size_t next = active;
    do {
      next = (next + 1) % count;
    } while (states_[next % setup_.devices] != DeviceState::kGood && next != active);
    active = static_cast<uint8_t>(next);
  }
}

uint32_t PortFailover::good_device() const {
  const auto good = std::ranges::find(states_, DeviceState::kGood);
  return static_cast<uint32_t>(good - states_.begin());
}

void PortFailover::probe(Time now, uint64_t k) {
  tried_[k % CompletionRecords::kSlots] = 0;
  host_->wake_at(now + setup_.settings.probe_delay, *this, cookie(WakeKind::kProbe, k));
}

void PortFailover::retry(Time now, uint64_t k) {
  host_->wake_at(now + kRetry, *this, cookie(WakeKind::kRetry, k));
}

/// By the first device that is good.
void PortFailover::post_probe(Time now, uint64_t k) {
  if (lost_) return;
  const uint32_t device = good_device();
  if (device == setup_.devices) return lose(now);
  const uint64_t slot = k % CompletionRecords::kSlots;
  WorkRequest read;
  read.op = WorkOp::kRead;
  read.id = k;
  read.remote_va =
      setup_.records_va + slot * CompletionRecords::kStride + CompletionRecords::kFlagsAt;
  read.rkey = setup_.records_rkey[device];
  read.length = CompletionRecords::kFlags;
  read.read_to = results_[slot].data();
  if (!host_->post(now, *setup_.probing[device], read)) {
    host_->wake_at(now + kRetry, *this, cookie(WakeKind::kProbe, k));
    return;
  }
  add(setup_.counters->probes);
}

void PortFailover::lose(Time now) {
  lost_ = true;
  setup_.endpoint->on_completed(now, *setup_.data.front(), kProgress, WorkStatus::kRetryExceeded);
}

void PortFailover::on_wake(Time now, uint64_t cookie) {
  const uint64_t what = cookie & ((uint64_t{1} << 60) - 1);
  switch (static_cast<WakeKind>(cookie >> 60)) {
    case WakeKind::kProbe:
      return post_probe(now, what);
    case WakeKind::kRetry:
      if (!lost_) user_->on_retry(now, *host_, what);
      return;
    case WakeKind::kRecovery: {
      const auto device = static_cast<uint32_t>(what >> 32);
      if (recoveries_[device].epoch == static_cast<uint32_t>(what)) recovery_due(now, device);
      return;
    }
    case WakeKind::kStop:
      lost_ = true;
      for (Recovery& r : recoveries_) {
        r.step = Step::kIdle;
        ++r.epoch;
      }
      return;
  }
}

/// The place of an unreliable queue pair, its device's; behind all if it is none of these.
size_t PortFailover::recovered_by(const Qp& qp) const {
  return static_cast<size_t>(std::ranges::find(setup_.recovery, &qp) - setup_.recovery.begin());
}

void PortFailover::on_received(Time now, Qp& qp, const Received& message) {
  const size_t device = recovered_by(qp);
  if (device >= setup_.devices || !message.has_imm) return;
  // Verbs hands the number over as it lies in memory, little-endian.
  recovery_came(now, static_cast<uint32_t>(device), __builtin_bswap32(message.imm));
}

void PortFailover::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (const size_t device = recovered_by(qp); device < setup_.recovery.size()) {
    return recovery_sent(static_cast<uint32_t>(device), id, status);
  }
  const auto probed = std::ranges::find(setup_.probing, &qp);
  if (lost_ || probed == setup_.probing.end()) return;
  const uint64_t slot = id % CompletionRecords::kSlots;
  if (status == WorkStatus::kSuccess) {
    user_->on_probed(now, *host_, id, results_[slot].data());
    setup_.endpoint->on_completed(now, *setup_.data.front(), kProgress, WorkStatus::kSuccess);
    return;
  }
  if (!fail(now, static_cast<uint32_t>(probed - setup_.probing.begin()), status) ||
      ++tried_[slot] > setup_.settings.attempts) {
    return lose(now);
  }
  post_probe(now, id);
}

}  // namespace understudy
