// What drills came to, as plain values: events with an outcome that was expected of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/units.h"

namespace understudy {

/// Expected of a drill.
enum class DrillExpectation : uint8_t {
  kRecovers,  ///< all operations finish with right sums, and no more time than `within` is lost
  kReports,   ///< somebody reports an error at most `within` after the drill's first event
  kSlower,    ///< all operations finish, none takes longer than usual by more than `slower`
};

struct DrillReport {
  std::string name;
  Time from;                  ///< of its first event; never(): what it waits for has not come
  std::optional<Time> until;  ///< all was as before; nothing: something of it stayed
  DrillExpectation expected = DrillExpectation::kRecovers;
  Duration within;
  double slower = 0;   ///< a share
  std::string awaits;  ///< "20 operations of job 'allreduce'"; empty: its times are the run's

  // Set by judge_drills().
  bool passed = false;
  std::string text;               ///< why, a sentence
  std::optional<Duration> found;  ///< time that was lost, or until the first error
  std::optional<double> slowest;  ///< share by which an operation took longer, the most
};

/// What ended a run before its work was done, where drills want to know.
struct BreakReport {
  Time at;
  std::string text;
};

}  // namespace understudy
