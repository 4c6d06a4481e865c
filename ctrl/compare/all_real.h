// A configuration with one real node or some, as it is when every node of its jobs is a real one.
#pragma once

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

/// Of `config`, in which nodes of jobs are reference nodes or emulated: the same with a reference
/// node in place of each emulated one, which enters operations as late as that did. Error: there is
/// no real node, or something that only emulated nodes have.
Result<Config> all_real(const Config& config);

}  // namespace understudy
