// Traces of a job from files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collective_model/traces/trace_system.h"

namespace understudy {

/// All bytes of a file; an error names it.
Result<std::string> read_whole_file(const std::string& path);

struct TraceFilesOptions {
  /// Of one file for all ranks. Nothing: as many as there are files, one of one file.
  std::optional<uint32_t> ranks;
  uint32_t passes = 1;  ///< of a text workload
};

/// `trace` is the prefix of PREFIX.RANK.et (or PREFIX.RANK.json) with ranks from 0, or one file, which
/// all ranks carry out: .et, the feeder's JSON, or a text workload; or a GOAL schedule of all ranks, text or
/// binary. Ranks with equal files share one graph. Errors name the file.
Result<TraceJob> read_traces(const std::string& trace, const TraceFilesOptions& options);

}  // namespace understudy
