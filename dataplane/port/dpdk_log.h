// DPDK writes its reasons to a log, not into its return values. This keeps its last complaints, so
// that an error of ours can quote them, off the terminal.
#pragma once

#include <string>

namespace understudy {

/// Sends DPDK's log to memory. Once, before rte_eal_init().
void quiet_dpdk_log();

/// ": " and what DPDK complained about since the previous call; empty when it said nothing or its
/// log goes to the terminal.
std::string take_dpdk_complaint();

}  // namespace understudy
