// Congestion marks and notifications (rules A6.1 to A6.5).
#pragma once

#include <optional>

#include "tools/roce_check/findings.h"
#include "tools/roce_check/packet_table.h"

namespace understudy {

/// `least_interval`: between CNPs to one queue pair, as the receivers were configured; without one
/// the intervals are measured only.
void check_congestion(const PacketTable& table, std::optional<Duration> least_interval,
                      Findings& findings);

}  // namespace understudy
