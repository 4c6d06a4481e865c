// ASTRA-sim's network file: lists topology, npus_count, bandwidth and latency, a value per dimension.
#pragma once

#include <string>
#include <vector>

#include "collective_model/traces/trace_network.h"

namespace understudy {

/// YAML as far as such files use it: lists in brackets or with a dash a line, comments, quotes. `name`
/// is that of the file, for errors, which name the line too.
Result<std::vector<TraceDimension>> read_astra_network(const std::string& text,
                                                       const std::string& name);

}  // namespace understudy
