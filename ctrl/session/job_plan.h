// A job's plan for any way of running beside real nodes.
#pragma once

#include <memory>

#include "ctrl/build/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/session/switched_run.h"
#include "dataplane/base/result.h"

namespace understudy {

/// `scheduled`: emulated ranks enter by themselves, not with a real rank's first credit. `inner`:
/// what they say to one another crosses `switched`, the network, which may be null without it.
Result<std::unique_ptr<CollectiveSetup>> plan_job(const Config& config, const JobConfig& job,
                                                  bool scheduled, bool inner,
                                                  SwitchedRun* switched);

}  // namespace understudy
