// Where sockets lie that have a name only.
#pragma once

#include <string>

#include "dataplane/base/result.h"

namespace understudy {

/// $XDG_RUNTIME_DIR, else /tmp/understudy-UID. Nobody else can put a socket there.
std::string runtime_folder();

/// Makes it if it is not there. Errors: it cannot be made, is no folder, belongs to another user, or
/// others may write to it.
Result<void> make_runtime_folder();

}  // namespace understudy
