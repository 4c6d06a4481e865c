// The real clock of a run. Only the loop in app/ reads it; everything below gets times as
// arguments (design rule 1).
#pragma once

#include <ctime>

#include "dataplane/base/units.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

/// Monotonic time since the clock was made, from the kernel's clock in user space (about 25 ns a
/// read on x86-64 and Arm alike). Its unit is nanoseconds: finer than a device's hand-over is.
class Clock {
 public:
  Clock() : start_ns_(read(CLOCK_MONOTONIC)) {
    const int64_t calendar = read(CLOCK_REALTIME);
    epoch_.seconds = calendar / kNsPerSecond;
    epoch_.ps = calendar % kNsPerSecond * 1000;
  }

  Time now() const { return Time::zero() + Duration::ns(read(CLOCK_MONOTONIC) - start_ns_); }
  /// Time::zero() on the calendar, for captures and reports.
  CaptureEpoch epoch() const { return epoch_; }

 private:
  static constexpr int64_t kNsPerSecond = 1'000'000'000;
  static int64_t read(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<int64_t>(t.tv_sec) * kNsPerSecond + t.tv_nsec;
  }

  int64_t start_ns_;
  CaptureEpoch epoch_;
};

}  // namespace understudy
