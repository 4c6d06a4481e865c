// Configurations whose real nodes are kernels in virtual time.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// Whether the configuration has such a node.
bool has_kernels(const Config& config);

/// Whether the job has ranks on a real node that is no kernel: in simulate, a reference node.
bool has_reference_ranks(const Config& config, const JobConfig& job);

/// Whether the job has ranks on a kernel.
bool has_kernel_ranks(const Config& config, const JobConfig& job);

/// Whether emulated ranks enter by entry = "scheduled" where real ranks are programs, which begin
/// when they like: in run, with join and beside kernels. With a period all have a clock; beside
/// kernels reference nodes that have not to join begin at a time.
bool follows_programs(const Config& config, const JobConfig& job);

/// Whether a real node is a reference node in a run with kernels, whose programs speak to it by
/// TCP, which it has not got.
bool is_reference_beside_kernels(const Config& config, NodeId node);

/// A NIC of such a node without a port, with file and line; empty if there is none.
std::string kernel_without_port(const Config& config);

}  // namespace understudy
