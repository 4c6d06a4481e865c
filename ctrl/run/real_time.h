// Whether this build can run in real time at all.
#pragma once

#include <string>

#include "dataplane/runtime/live.h"

namespace understudy {

/// What `understudy run` lacks in this build and what to do about it; empty if nothing.
inline std::string why_no_real_time() { return why_no_live(); }

}  // namespace understudy
