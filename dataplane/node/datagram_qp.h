// A UD queue pair of an emulated node. It sends each message back to the queue pair that it came
// from, which is what ibv_ud_pingpong's server does.
#pragma once

#include <cstdint>

#include "dataplane/base/ids.h"
#include "dataplane/wire/build.h"

namespace understudy {

struct DatagramQp {
  NodeId node = kNoNode;
  Qpn qpn = 0;
  RoceAddressing addressing;  ///< its own; `dst` and `dst_mac` are each sender's
  uint32_t qkey = 0;          ///< of what it takes and of what it sends
  uint16_t pkey = 0xffff;
  uint32_t mtu = 4096;  ///< bytes; no message is longer
  Psn next;             ///< of its next message
};

}  // namespace understudy
