// NCCL's topology files: XML as NCCL_TOPO_FILE names and NCCL_TOPO_DUMP_FILE writes it. Facts:
// docs/nccl 2.9.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "ctrl/config/presets/machine.h"
#include "ctrl/config/read/load.h"

namespace understudy {

/// What `text`, the contents of `file`, says of a node. Errors name file, line and element. A file
/// that lists devices of the PCI bus alone says nothing of GPUs but their number.
tl::expected<Machine, ConfigError> read_topo_text(const std::string& text, const std::string& file);

}  // namespace understudy
