// The points of a plot: what one queue pair was sent and what came back.
#pragma once

#include <string>
#include <vector>

#include "ctrl/report/series/gnuplot.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

/// Requests, requests sent again, ACKs, NAKs and responses of one direction by their PSN, continued
/// beyond 24 bits from the first one. At most some thousand points of a kind are kept, evenly.
std::vector<PlotSeries> psn_series(const PacketTable& table, const FlowPair& connection,
                                   bool forward, Time origin);

/// The wire rate of a flow in Mbit/s, in steps.
PlotSeries rate_series(const PacketTable& table, const Flow& flow, Time origin, Duration span,
                       const std::string& title, const std::string& style);

}  // namespace understudy
