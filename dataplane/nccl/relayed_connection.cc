#include "dataplane/nccl/relayed_connection.h"

#include <algorithm>

namespace understudy {

void RelayedConnection::on_wake(Time now, uint64_t cookie) {
  if (cookie == kJoin) joined_ = true;
  if (real_sends_) {
    grant(now);
  } else {
    post(now);
  }
}

/// No more than control has room for.
void RelayedConnection::grant(Time now) {
  const uint64_t most = taken_.load(std::memory_order_acquire) + kSlots;
  while (joined_ && receiver_.granted() < most) {
    if (!receiver_.grant(now, *host_)) return;
  }
}

void RelayedConnection::post(Time now) {
  while (joined_ && posted_ - acknowledged_ < kSlots) {
    Message& slot = slots_[posted_ % kSlots];
    if (!waits_) waits_ = to_real_.pop(slot);
    if (!waits_ || !sender_.has_credit(posted_)) return;
    PayloadRef payload;
    payload.bytes = slot.bytes.data();
    // A credit for less is not for this message: NCCL would cut it.
    if (sender_.capacity(posted_) < slot.length) {
      failed_.store(true, std::memory_order_release);
      return;
    }
    if (!sender_.send(now, *host_, posted_, slot.length, payload, posted_)) return;
    waits_ = false;
    ++posted_;
  }
}

void RelayedConnection::on_received(Time now, Qp& qp, const Received& received) {
  if (!real_sends_) return post(now);  // a credit
  receiver_.received(qp, received, [&](uint32_t bytes) {
    Message message;
    message.length = bytes;
    const uint8_t* const from = received_ + size_t{receiver_.slot(came_++)} * kMostBytes;
    std::copy_n(from, std::min(bytes, kMostBytes), message.bytes.begin());
    if (!from_real_.push(message)) failed_.store(true, std::memory_order_release);
  });
}

void RelayedConnection::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    failed_.store(true, std::memory_order_release);
    return;
  }
  if (real_sends_) return grant(now);
  sender_.acknowledged(qp, id, [&](uint64_t) { ++acknowledged_; });
  post(now);
}

}  // namespace understudy
