// Whether real nodes keep up with what a job's model takes, and who waits for whom if not.
#pragma once

#include <cstdint>
#include <string>

#include "ctrl/report/run_report.h"

namespace understudy {

/// Sums over the timed operations of a job beside real nodes.
struct RealPace {
  uint64_t operations = 0;
  Duration measured;  ///< as the emulated side saw them
  Duration modelled;
  Duration late;  ///< of the emulated side's own departures, at most

  void add(const CollectiveReport& operation);
  /// Measured over modelled; 0 without any operation.
  double factor() const;
  /// Of the measured time, what neither the model nor the emulated side's lateness accounts for: so
  /// long emulated ranks waited for real nodes, or for what else is on the network. 0 to 1.
  double waited() const;
  /// That is more than a tenth of the time.
  bool is_worth_saying() const;
};

/// Of the timed operations.
RealPace real_pace(const JobReport& job);

/// A sentence where it is worth saying; else empty.
/// `others`: RunReport::others, which may be why, too.
std::string pace_text(const RealPace& pace, bool others);

}  // namespace understudy
