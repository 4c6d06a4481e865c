#include "collective_model/workload/closed_operations.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace understudy {

uint32_t ClosedOperations::add(uint32_t members, bool message,
                               std::shared_ptr<const std::vector<ClosedTime>> times) {
  ASSERT_INVARIANT(members > 0 && (!message || members == 2));
  all_.push_back({members, message, std::move(times), Time(), {}, {}});
  return first_ + static_cast<uint32_t>(all_.size()) - 1;
}

uint32_t ClosedOperations::append(uint32_t communicator, uint32_t shape) {
  std::vector<uint32_t>& appended = all_[communicator - first_].appended;
  appended.push_back(shape);
  return static_cast<uint32_t>(appended.size()) - 1;
}

void ClosedOperations::enter(uint32_t communicator, uint32_t operation, uint32_t /*member*/,
                             Time at) {
  One& one = all_[communicator - first_];
  const auto it = one.waiting.try_emplace(operation, Waiting{one.members, Time()}).first;
  Waiting& waiting = it->second;
  waiting.last = std::max(waiting.last, at);
  if (--waiting.left > 0) return;
  const Time last = waiting.last;
  one.waiting.erase(it);
  const ClosedTime time = (*one.times)[one.appended.empty() ? operation : one.appended[operation]];
  const Time left = std::max(last, one.free) + time.busy;
  one.free = left;
  const uint32_t members = one.members;
  const bool message = one.message;
  // The listener may call back, and add to what is here.
  for (uint32_t m = 0; m < members; ++m) {
    const bool sender = message && m == 0;
    listener_->done(communicator, operation, m, sender ? left : left + time.latency);
  }
}

}  // namespace understudy
