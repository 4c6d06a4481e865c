// Traces of a job as files.
#pragma once

#include <functional>
#include <string>

#include "collective_model/traces/trace_system.h"

namespace understudy {

enum class TraceFormat : uint8_t { kEt, kJson };

/// Writes PREFIX.RANK.et, or .json, of every rank, and where the job has groups PREFIX.groups.json as
/// ASTRA-sim reads it. Gives the sentence that says so. Errors name the file.
Result<std::string> write_traces(const TraceJob& job, TraceFormat format,
                                 const std::string& prefix);

/// The same, where `text` gives what the file of a rank is.
Result<std::string> write_traces(const TraceJob& job, TraceFormat format, const std::string& prefix,
                                 const std::function<Result<std::string>(size_t rank)>& text);

/// The groups in ASTRA-sim's form: {"1": [0, 1]}.
std::string groups_json(const TraceJob& job);

/// More nodes than this make no picture.
inline constexpr size_t kMostDrawnNodes = 2000;

/// In the language of Graphviz: a box of each rank with its nodes; solid lines from a node to those that wait
/// for its data, dashed ones for control, dotted ones from sends to receives that meet in the order of
/// their ids. An error: more than kMostDrawnNodes.
Result<std::string> traces_dot(const TraceJob& job);

}  // namespace understudy
