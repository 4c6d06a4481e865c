// DPDK writes its reasons to a log, not into its return values. This keeps its last lines, so that
// an error of ours can quote them, and nothing of it on the terminal.
#pragma once

#include <string>

namespace understudy {

/// Sends DPDK's log to memory. Once, before rte_eal_init().
void quiet_dpdk_log();

/// ": " and the last thing DPDK complained about since the previous call; empty when it said
/// nothing or its log goes to the terminal.
std::string take_dpdk_complaint();

}  // namespace understudy
