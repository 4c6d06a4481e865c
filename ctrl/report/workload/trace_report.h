// What the ranks of execution traces came to, as plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

struct TraceRankReport {
  std::string node;
  uint32_t gpu = 0;
  Time finish;
  Duration computed;  ///< outside the CPU

  /// Of its time, what was no computing: "exposed communication", and what waited for it.
  Duration exposed() const { return finish - Time::zero() - computed; }
};

/// Operations of one kind, of all communicators.
struct TraceOperationsReport {
  std::string what;  ///< "all-reduce", "message"
  uint64_t count = 0;
  double bytes = 0;  ///< as the traces have them, of one rank each
  Duration all;      ///< from the last rank's entry to the last one's end
  Duration longest;  ///< the same
  Duration waiting;  ///< from the first rank's entry to the last one's
};

struct TraceReport {
  std::string source;  ///< how operations between nodes were carried out: as TrainingReport::source
  std::string rules;   ///< "streams", "data-streams", "feeder1", "feeder3"
  uint64_t nodes = 0;
  uint64_t communicators = 0;  ///< with operations
  uint32_t connections = 0;    ///< over the network
  std::vector<TraceRankReport> ranks;
  std::vector<TraceOperationsReport> operations;

  /// When the last rank finished.
  Time finish() const {
    Time last;
    for (const TraceRankReport& rank : ranks) last = std::max(last, rank.finish);
    return last;
  }
};

}  // namespace understudy
