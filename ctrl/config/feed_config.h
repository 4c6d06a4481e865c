// [[job]] feed: how the operations of a job with operations = "fed" become known.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"

namespace understudy {

struct FeedConfig {
  /// run: TCP port on the address of the job's first emulated node, for profiler plugins.
  uint16_t port = 7300;
  /// simulate: how much later than a real rank's entry its feed tells the operation.
  Duration delay;
  /// An operation of which something has come and nothing was told for so long is not waited for.
  Duration patience = Duration::s(1);
};

}  // namespace understudy
