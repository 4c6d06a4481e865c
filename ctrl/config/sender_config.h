// How queue pairs of an emulated node send.
#pragma once

#include <cstdint>

#include "dataplane/fabric/flow.h"

namespace understudy {

/// What packets of an emulated node's queue pairs say of themselves.
struct SenderConfig {
  uint8_t traffic_class = 0;      ///< DSCP << 2 | ECN
  uint32_t control = kNoControl;  ///< position in Config::controls
  uint32_t user = 0;              ///< with a control: position in Config::control_users
};

}  // namespace understudy
