// A thread in front of the packet thread or behind it, for a port over several cores.
#pragma once

#include <atomic>
#include <functional>

#include "dataplane/base/result.h"
#include "dataplane/runtime/lcore_thread.h"
#include "dataplane/runtime/worker.h"

namespace understudy {

class StageThread {
 public:
  /// Does what there is to do; false if there was nothing.
  using Turn = std::function<bool()>;

  explicit StageThread(IdlePolicy idle, Turn turn) : idle_(idle), turn_(std::move(turn)) {}
  /// Stops a started one.
  ~StageThread() { stop(); }
  StageThread(const StageThread&) = delete;
  StageThread& operator=(const StageThread&) = delete;

  /// Takes turns on this lcore of the EAL until stop().
  Result<void> start(unsigned lcore);
  /// Ends the loop and waits for it.
  void stop();

 private:
  void run();

  const IdlePolicy idle_;
  const Turn turn_;
  std::atomic<bool> stopping_{false};
  LcoreThread thread_;
};

}  // namespace understudy
