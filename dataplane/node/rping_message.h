// What rping's client (rdma-core's librdmacm/examples/rping.c) SENDs: where its text lies, or where
// it is wanted back. The server's SENDs are as long, and their contents mean nothing.
#pragma once

#include "dataplane/base/big_endian.h"

namespace understudy {

struct RpingMessage {
  Be64 address;
  Be32 rkey, length;
};
inline constexpr uint32_t kRpingMessageBytes = 16;
static_assert(sizeof(RpingMessage) == kRpingMessageBytes);

}  // namespace understudy
