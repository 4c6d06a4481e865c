// When each message between the real and the emulated ranks of a job did what: for timelines.
// Memory is control's and made before the run; written by the shard of the emulated ranks, read
// when nothing runs any more.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/collective/wait_cause.h"

namespace understudy {

struct MessageMoments {
  /// What set a message of an emulated rank free at last; never kCredit.
  WaitCause cause = WaitCause::kEntry;
  /// An emulated rank's: by the plan it may leave; it left, with its credit; it was acknowledged.
  Time due = Time::never(), posted = Time::never(), acknowledged = Time::never();
  /// A real rank's: its credit left; it came.
  Time granted = Time::never(), received = Time::never();
};

/// Of each link of the job, its messages over all operations.
using CollectiveMoments = std::vector<std::vector<MessageMoments>>;

}  // namespace understudy
