// What came of each drill against what was expected.
#pragma once

#include "ctrl/report/run_report.h"

namespace understudy {

/// Sets what RunReport::drills leaves to it; before judge().
///
/// Operations, flows, clients and programs that were there between a drill's first event and its
/// end are those that it met; a drill that meets none fails. An operation takes from its entry, or
/// from the end of the one before, if that is later (ranks that wait for nobody enter early), to
/// its end. Its usual time is the median of those of its size that met no drill, warm-ups only
/// where there are no others; if there are none, the modelled time, if there is one.
///
/// An error is that of the last drill that began before it; a job that hangs is that of the first
/// drill behind whose end no operation began and was done.
/// - kRecovers: no error after the drill's first event, all results right, and neither a stream that
///   it stopped nor all operations that it met together took longer than `within`, the latter beyond
///   their usual times.
/// - kReports: the first error after its first event came within `within`, and none before.
/// - kSlower: no error, all results right, no operation that it met took longer than its usual time
///   by more than `slower` of it.
void judge_drills(RunReport& report);

}  // namespace understudy
