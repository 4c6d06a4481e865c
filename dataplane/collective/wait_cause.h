// What let a rank's message go on at last: for timelines.
#pragma once

#include <cstdint>

namespace understudy {

enum class WaitCause : uint8_t {
  kEntry,            ///< ranks entered the operation
  kData,             ///< a message came
  kAcknowledgement,  ///< a window of messages was on the way
  kCredit,           ///< the receiver let it
};

}  // namespace understudy
