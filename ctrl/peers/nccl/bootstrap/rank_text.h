#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace understudy {

/// "rank 3", "ranks 1-3, 7 and 12 more": sorted in place first, at most a few runs.
std::string ranks_text(std::vector<uint32_t>& ranks);

}  // namespace understudy
