#include "dataplane/nccl/unplanned_connection.h"

#include <algorithm>

namespace understudy {
namespace {

void add(std::atomic<uint64_t>& counter, uint64_t by) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

void UnplannedConnection::on_wake(Time now, uint64_t) {
  joined_ = true;
  if (real_sends_) {
    grant(now);
  } else {
    answer(now);
  }
}

void UnplannedConnection::grant(Time now) {
  while (joined_ && receiver_.granted() < received_ + kAhead) {
    if (!receiver_.grant(now, *host_)) return;
  }
}

void UnplannedConnection::answer(Time now) {
  while (joined_ && sender_.has_credit(sent_)) {
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(sender_.capacity(sent_), kMaxMessageBytes));
    if (!sender_.send(now, *host_, sent_, bytes, PayloadRef{}, sent_)) return;
    ++sent_;
    add(traffic_.messages_sent, 1);
    add(traffic_.bytes_sent, bytes);
  }
}

void UnplannedConnection::on_received(Time now, Qp& qp, const Received& message) {
  if (!real_sends_) return answer(now);
  receiver_.received(qp, message, [&](uint32_t bytes) {
    if (received_ == receiver_.granted()) return add(traffic_.violations, 1);
    ++received_;
    add(traffic_.messages_received, 1);
    add(traffic_.bytes_received, bytes);
  });
  grant(now);
}

void UnplannedConnection::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    const bool goes_on = real_sends_ ? receiver_.fails_over(now, *host_, qp, id, status)
                                     : sender_.fails_over(now, qp, id, status);
    if (goes_on) return;
    if (!failed_) add(traffic_.failed, 1);
    failed_ = true;
    return;
  }
  // A send queue that was full may have room again.
  if (real_sends_) {
    grant(now);
  } else {
    sender_.acknowledged(qp, id, [](uint64_t) {});
    answer(now);
  }
}

}  // namespace understudy
