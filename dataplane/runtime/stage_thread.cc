#include "dataplane/runtime/stage_thread.h"

#include "dataplane/runtime/nap.h"

namespace understudy {

Result<void> StageThread::start(unsigned lcore) {
  return thread_.start(lcore, [this] { run(); });
}

void StageThread::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.wait();
}

void StageThread::run() {
  exact_naps();
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (turn_()) continue;
    if (idle_ == IdlePolicy::kSpin) {
      pause_briefly();
    } else {
      nap(kLongestNap);
    }
  }
}

}  // namespace understudy
