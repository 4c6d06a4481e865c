// What happened when, as tracks of slices: written in the trace event format of Chrome, which
// Perfetto (ui.perfetto.dev) and chrome://tracing open. Times there are microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

struct RunReport;

struct TimelineSlice {
  Time from;
  Duration length;
  std::string name;
  std::vector<std::pair<const char*, uint64_t>> numbers;  ///< more of it, by name
};

struct TimelineTrack {
  std::string group;  ///< tracks of a group stand together: "allreduce, rank 3 (w3)"
  std::string name;   ///< "channel 0 to rank 4"
  std::vector<TimelineSlice> slices;  ///< in order, none begins before the one before has ended
};

/// From a slice to one that waited for it.
struct TimelineArrow {
  uint32_t from_track = 0, from_slice = 0;
  uint32_t to_track = 0, to_slice = 0;
};

/// Adds a slice that begins no earlier than the last one has ended, if anything is left of it.
void append(TimelineTrack& track, Time from, Time to, std::string name,
            std::vector<std::pair<const char*, uint64_t>> numbers);

/// Writes the tracks of the report, and for each job one of its operations. Error: the file.
Result<void> write_timeline(const RunReport& report, const std::string& path);
/// Tracks with arrows between their slices, which the format calls flow events.
Result<void> write_timeline(const std::vector<TimelineTrack>& tracks,
                            const std::vector<TimelineArrow>& arrows, const std::string& path);

}  // namespace understudy
