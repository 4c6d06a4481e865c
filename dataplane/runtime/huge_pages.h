// Which memory DPDK gets.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/memory_left.h"
#include "dataplane/base/result.h"

namespace understudy {

/// What this machine and user have.
struct HugePageState {
  uint64_t free_bytes = 0;  ///< in free huge pages of any size
  int map_error = 0;        ///< errno of mapping one; 0 when that worked or none is free
};

HugePageState look_for_huge_pages();

/// Shall `bytes` come from huge pages? `card` is a port that cannot do without (its name and
/// device), or empty. An error then says what is missing.
Result<bool> choose_huge_pages(const HugePageState& state, uint64_t bytes, const std::string& card);

/// Ports without huge pages take `bytes` of ordinary memory: DPDK does not say what is missing, and a control group's limit ends
/// the process. Error: there is less left, and of what.
Result<void> check_ordinary_memory(const MemoryLeft& left, uint64_t bytes);

}  // namespace understudy
