// Whether what a series is to show is there.
#pragma once

#include "ctrl/compile/scenario.h"
#include "ctrl/network/series_options.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Error: a pattern of names fits nothing in this scenario, which has a network.
Result<void> check_series(const Scenario& scenario, const SeriesOptions& series);

}  // namespace understudy
