#include "dataplane/runtime/lcore_thread.h"

#include <rte_launch.h>
#include <rte_lcore.h>

#include <string>
#include <utility>

namespace understudy {

Result<void> LcoreThread::start(unsigned lcore, std::function<void()> body) {
  body_ = std::move(body);
  const auto entry = [](void* argument) {
    LcoreThread& self = *static_cast<LcoreThread*>(argument);
    (void)self.begins_.load(std::memory_order_acquire);
    self.body_();
    self.ended_.store(true, std::memory_order_release);
    return 0;
  };
  ended_.store(false, std::memory_order_relaxed);
  begins_.store(true, std::memory_order_release);
  if (rte_eal_remote_launch(entry, this, lcore) != 0) {
    return fail("a packet thread does not start: another one runs on lcore " +
                std::to_string(lcore));
  }
  lcore_ = lcore;
  started_ = true;
  return {};
}

void LcoreThread::wait() {
  if (!started_) return;
  (void)rte_eal_wait_lcore(lcore_);
  (void)ended_.load(std::memory_order_acquire);
  started_ = false;
}

}  // namespace understudy
