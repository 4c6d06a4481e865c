// How threads that move packets leave the CPU to others.
#pragma once

#include <sys/prctl.h>

#include <ctime>

#include "dataplane/base/units.h"

namespace understudy {

inline constexpr Duration kLongestNap = Duration::us(50);

/// For the calling thread: the kernel's default lateness of 50 us doubles naps.
inline void exact_naps() { (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

/// In a loop that polls: leaves the core's units to its other hardware thread for some cycles.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

inline void nap(Duration length) {
  const timespec t{0, length.ps() / 1000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

}  // namespace understudy
