#include "dataplane/app/stage_thread.h"

#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include <string>

#include "dataplane/app/nap.h"

namespace understudy {

Result<void> StageThread::start(unsigned lcore) {
  const auto entry = [](void* self) {
    static_cast<StageThread*>(self)->run();
    return 0;
  };
  if (rte_eal_remote_launch(entry, this, lcore) != 0) {
    return fail("a port's thread does not start on lcore " + std::to_string(lcore));
  }
  lcore_ = lcore;
  started_ = true;
  return {};
}

void StageThread::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  if (started_) (void)rte_eal_wait_lcore(lcore_);
  started_ = false;
}

void StageThread::run() {
  exact_naps();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (turn_()) continue;
    if (idle_ == IdlePolicy::kSpin) {
      rte_pause();
    } else {
      nap(kLongestNap);
    }
  }
}

}  // namespace understudy
