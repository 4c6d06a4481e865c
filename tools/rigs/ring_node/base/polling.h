// How a program waits: polling for completions without taking the processor from those who make
// them, and for the moment of its next operation.
#pragma once

#include <cstdint>

#include "dataplane/base/result.h"
#include "dataplane/base/try.h"
#include "tools/rigs/ring_node/base/options.h"

namespace understudy {

/// CLOCK_MONOTONIC.
uint64_t now_ns();

/// Sleeps until this time of CLOCK_MONOTONIC, if it is still to come.
Result<void> sleep_until(uint64_t ns);

/// Enters an operation later by the delay, or at the period, that was asked for.
Result<void> wait_before_operation(const RingNodeOptions& options);

/// Counts polls without anything to do.
class IdlePolls {
 public:
  void moved() {
    polls_ = 0;
    last_progress_ = 0;
  }
  /// Nothing moved: waits as long as is right. True about once a second, when it is time to look
  /// for bad news; idle_ns() is how long nothing has moved then.
  bool wait();
  uint64_t idle_ns() const { return idle_ns_; }

 private:
  unsigned polls_ = 0;
  uint64_t last_progress_ = 0;  ///< time of the first look after the last progress, 0 before it
  uint64_t last_look_ = 0;
  uint64_t idle_ns_ = 0;
};

/// Works until over(): work() does all that can be done, true if anything was; look(idle_ns) is
/// called now and then while nothing happens. Both return Result.
template <typename Over, typename Work, typename Look>
Result<void> work_until(Over over, Work work, Look look) {
  IdlePolls idle;
  while (!over()) {
    if (TRY(work())) {
      idle.moved();
    } else if (idle.wait()) {
      TRY(look(idle.idle_ns()));
    }
  }
  return {};
}

}  // namespace understudy
