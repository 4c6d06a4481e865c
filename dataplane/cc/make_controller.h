// A rate controller of any kind.
#pragma once

#include <memory>

#include "dataplane/cc/parameters.h"
#include "dataplane/cc/rate_controller.h"

namespace understudy {

/// Allocates; for set-up. A line of unlimited rate cannot be congested: the controller is then
/// "none" whatever the kind. A least rate above the line's is the line's.
std::unique_ptr<Controller> make_controller(const ControlParameters& parameters,
                                            const SenderPath& path);

}  // namespace understudy
