// A job on the network of one real node, as a configuration: tests add how NCCL joins it, and more.
#pragma once

#include <string>

#include "tests/rigs/one_real_node.h"

namespace understudy {

inline constexpr const char* kJob = R"([[job]]
name = "j"
collective = "all_gather"
sizes = ["64KiB"]
)";
inline constexpr const char* kRealFirst = "ranks = [\"gpu\", \"w*\"]\n";
inline constexpr const char* kEmulatedFirst = "ranks = [\"w*\", \"gpu\"]\n";

/// The network and the job; `job`: its other lines, and tables behind it.
inline std::string with(const std::string& job) {
  return OneRealNode{.rate = "100Gbit/s"}.text() + kJob + job + "\n";
}

}  // namespace understudy
