// How much memory this process may still take before the kernel refuses it or ends the process.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace understudy {

/// Where the kernel says so; tests have files of their own.
struct MemoryFiles {
  std::string machine = "/proc/meminfo";
  std::string groups = "/proc/self/cgroup";   ///< to which control groups the process belongs
  std::string group_root = "/sys/fs/cgroup";  ///< below which they are
};

struct MemoryLeft {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  std::string of = "this machine";  ///< whose limit that is
};

/// The least of: what the machine has available; what its control group and those above it, of version 1 or 2 (cgroups(7)), leave;
/// the limit of its address space (RLIMIT_AS). What a group keeps of files and can give up counts as left.
MemoryLeft memory_left(const MemoryFiles& files = {});

}  // namespace understudy
