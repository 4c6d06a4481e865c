// Configurations whose real nodes are kernels in virtual time.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// Whether the configuration has such a node.
bool has_kernels(const Config& config);

/// Whether the job has ranks on a real node that is no kernel: in simulate, a reference node.
bool has_reference_ranks(const Config& config, const JobConfig& job);

/// Why a run cannot have these kernels, with file and line; empty if it can, or has none.
std::string why_no_kernels(const Config& config);

}  // namespace understudy
