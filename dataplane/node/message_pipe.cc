#include "dataplane/node/message_pipe.h"

#include <algorithm>

namespace understudy {

void MessagePipe::on_wake(Time now, uint64_t) {
  while (posted_ - acknowledged_.load(std::memory_order_relaxed) < kSlots) {
    Message& slot = slots_[posted_ % kSlots];
    if (!to_client_.pop(slot)) return;
    WorkRequest request;
    request.op = WorkOp::kSend;
    request.length = slot.length;
    request.payload.bytes = slot.bytes.data();
    if (!host_->post(now, *qp_, request)) {
      failed_.store(true, std::memory_order_release);
      return;
    }
    ++posted_;
  }
}

void MessagePipe::on_received(Time, Qp&, const Received& received) {
  if (received.is_write) return;
  Message message;
  message.length = std::min(received.length, kMostBytes);
  std::copy_n(received_.begin(), message.length, message.bytes.begin());
  if (!from_client_.push(message)) failed_.store(true, std::memory_order_release);
}

void MessagePipe::on_completed(Time now, Qp&, uint64_t, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    failed_.store(true, std::memory_order_release);
    return;
  }
  acknowledged_.fetch_add(1, std::memory_order_release);
  on_wake(now, 0);
}

}  // namespace understudy
