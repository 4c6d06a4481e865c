// The number of a TCP connection, as machines of many connections count them.
#pragma once

#include <cstdint>

namespace understudy {

/// One TCP connection; never used twice.
using StreamId = uint64_t;

}  // namespace understudy
