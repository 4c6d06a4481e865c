// Judges what passes on a network interface, says in between how it stands, and reports at the end.
#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>

#include "tools/roce_check/checks/analysis.h"
#include "tools/roce_check/live/live_capture.h"

namespace understudy {

/// Times of a capture are less than 46 days apart.
constexpr Duration kLongestWatch = Duration::s(int64_t{40} * 24 * 3600);

struct WatchOptions {
  Duration interval = Duration::s(1);  ///< from line to line
  Duration duration = kLongestWatch;
  /// Not 0: the capture ends. May be null.
  const volatile std::sig_atomic_t* signal = nullptr;
  /// A line for people: how it stands, or a violation as soon as it is known. May be empty.
  std::function<void(const std::string&)> say;
};

struct Watched {
  Analysis analysis;
  /// Why no frames came any more, where the capture ended by itself.
  std::optional<std::string> broken;
};

/// The capture ends in mid-run: what waits for an answer then is no fault.
Watched watch(LiveCapture& capture, AnalysisOptions options, const WatchOptions& watch);

}  // namespace understudy
