// ASTRA-sim's other files: system, memory beyond the devices, groups of ranks. All JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collective_model/traces/trace_system.h"

namespace understudy {

// `name` is that of the file, for errors; they name a key, or the byte of what is no JSON. Keys that
// would change times in a way that is not covered are errors.

Result<TraceSystem> read_astra_system(const std::string& text, const std::string& name);
Result<TraceMemory> read_astra_memory(const std::string& text, const std::string& name);
Result<std::map<uint32_t, std::vector<uint32_t>>> read_astra_groups(const std::string& text,
                                                                    const std::string& name);

}  // namespace understudy
