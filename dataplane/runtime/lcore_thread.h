// A thread of DPDK's (an lcore): the packet thread, and those of ports over several cores.
#pragma once

#include <atomic>
#include <functional>

#include "dataplane/base/result.h"

namespace understudy {

class LcoreThread {
 public:
  LcoreThread() = default;
  /// Waits as wait() does.
  ~LcoreThread() { wait(); }
  LcoreThread(const LcoreThread&) = delete;
  LcoreThread& operator=(const LcoreThread&) = delete;

  /// Runs `body` on this lcore of the EAL, once. Error: another one runs there.
  Result<void> start(unsigned lcore, std::function<void()> body);
  /// Until the body has returned; returns at once if none was started. Whoever calls has asked the
  /// body to end.
  void wait();

 private:
  std::function<void()> body_;
  unsigned lcore_ = 0;
  bool started_ = false;
  /// What one thread wrote before it set it, the other one sees: the EAL promises it, but in code
  /// that the thread sanitizer does not look into.
  std::atomic<bool> begins_ = false, ended_ = false;
};

}  // namespace understudy
