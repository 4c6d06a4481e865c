// The clock of programs that use the soft NIC.
#pragma once

#include <ctime>

#include "dataplane/base/units.h"

namespace understudy::soft_nic {

/// Never goes back.
inline Time monotonic_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Time::zero() + Duration::s(t.tv_sec) + Duration::ns(t.tv_nsec);
}

}  // namespace understudy::soft_nic
