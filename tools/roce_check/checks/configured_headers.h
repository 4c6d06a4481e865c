// Do packets look as the configuration says: VLAN, priority, DSCP, MigReq, UDP source port? What
// emulated nodes send is understudy's own and must; a real node's program may have chosen another
// DSCP, which is a note.
#pragma once

#include "ctrl/config/config.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

/// Rules A1.2, A1.4, A1.9 and A1.12 by the configuration, flow by flow, and of CNPs.
void check_configured_headers(const Config& config, Analysis& analysis);

}  // namespace understudy
