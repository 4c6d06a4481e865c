// [[control]]: a rate controller (congestion control) with its knobs, under the name by which
// senders refer to it.
#pragma once

#include <optional>
#include <string>

#include "dataplane/cc/parameters.h"

namespace understudy {

struct ControlConfig {
  std::string name;
  std::string preset;  ///< from which its knobs start, as in control_presets()
  ControlParameters parameters;
  /// A path's round trip without queues, of windows and telemetry; without: the path's own.
  std::optional<Duration> base_rtt;
  unsigned line = 0;
};

}  // namespace understudy
