// Congestion marks and notifications (rules A6.1 to A6.5).
#pragma once

#include <optional>
#include <vector>

#include "ctrl/config/config.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

struct CongestionOptions {
  /// Between CNPs to one queue pair as they leave their sender, as the receivers were configured;
  /// without one the intervals are measured only.
  std::optional<Duration> least_interval = {};
  /// Receivers that are known to send no CNPs, whatever is marked: nobody answers there (A6.2).
  std::vector<IpAddress> silent = {};
  /// If it is not null: CNPs of a node that is emulated have crossed its network, where some wait
  /// behind data: of these no more may have come than leave in the time since the first packet that
  /// they can answer. And a real node of kind "kernel" is silent: Linux' rdma_rxe knows no marks.
  const Config* config = nullptr;
};

void check_congestion(const PacketTable& table, const CongestionOptions& options,
                      Findings& findings);

}  // namespace understudy
