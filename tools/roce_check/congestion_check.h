// Congestion marks and notifications (rules A6.1 to A6.5).
#pragma once

#include <optional>

#include "ctrl/config/config.h"
#include "tools/roce_check/findings.h"
#include "tools/roce_check/packet_table.h"

namespace understudy {

/// `least_interval`: between CNPs to one queue pair as they leave their sender, as the receivers
/// were configured; without one the intervals are measured only. CNPs of a node that `config`, if
/// it is not null, says is emulated have crossed its network, where some wait behind data: of these
/// no more may have come than leave in the time since the first packet that they can answer.
void check_congestion(const PacketTable& table, std::optional<Duration> least_interval,
                      const Config* config, Findings& findings);

}  // namespace understudy
