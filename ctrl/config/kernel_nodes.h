// Configurations whose real nodes are kernels in virtual time.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// Whether the configuration has such a node.
bool has_kernels(const Config& config);

/// Why a run cannot have these kernels, with file and line; empty if it can, or has none.
std::string why_no_kernels(const Config& config);

}  // namespace understudy
