// A real node that is a kernel in virtual time: `real = { kind = "kernel", ... }`.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/units.h"

namespace understudy {

struct KernelConfig {
  std::string program;  ///< a shell script that it runs once its network is up
  std::string share;    ///< directory that it sees as /mnt, as this process opens it; may be empty
  std::string share_said;  ///< the same as the configuration has it
  unsigned program_line = 0, share_line = 0;
  uint64_t memory = 256 << 20;  ///< bytes
  /// What its processor takes for each packet, and for each message of RoCE's beside.
  Duration packet_cost, message_cost;
};

}  // namespace understudy
