#include "dataplane/runtime/lcore_thread.h"

#include <rte_launch.h>
#include <rte_lcore.h>

#include <string>
#include <utility>

namespace understudy {

Result<void> LcoreThread::start(unsigned lcore, std::function<void()> body) {
  body_ = std::move(body);
  const auto entry = [](void* self) {
    static_cast<LcoreThread*>(self)->body_();
    return 0;
  };
  if (rte_eal_remote_launch(entry, this, lcore) != 0) {
    return fail("a packet thread does not start: another one runs on lcore " +
                std::to_string(lcore));
  }
  lcore_ = lcore;
  started_ = true;
  return {};
}

void LcoreThread::wait() {
  if (started_) (void)rte_eal_wait_lcore(lcore_);
  started_ = false;
}

}  // namespace understudy
