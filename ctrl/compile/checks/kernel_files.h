// What kernels in virtual time need of this machine's files: their shared folders, and the programs
// there.
#pragma once

#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// The first share that is no folder, or program of the form "./name" that is not in it, with file
/// and line; empty if all are there.
std::string missing_kernel_file(const Config& config);

}  // namespace understudy
