// [[control]]: a congestion-control law with its knobs, under the name by which senders refer to
// it.
#pragma once

#include <string>

#include "dataplane/cc/parameters.h"

namespace understudy {

struct ControlConfig {
  std::string name;
  std::string preset;  ///< from which its knobs start, as in control_presets()
  ControlParameters parameters;
  unsigned line = 0;
};

}  // namespace understudy
