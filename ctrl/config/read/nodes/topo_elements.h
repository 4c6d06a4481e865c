// NCCL's topology file as a list of its elements, each of which stands where NCCL's files have it.
#pragma once

#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "ctrl/config/read/load.h"

namespace understudy {

struct TopoElement {
  std::string name;
  unsigned line = 0;
  size_t parent = 0;  ///< position in the list; the root's is its own
  std::map<std::string, std::string> attributes;
};

/// In the order of the text, from the root on: at least one. Or why `text`, the contents of `file`,
/// is no such file.
tl::expected<std::vector<TopoElement>, ConfigError> parse_topo_elements(const std::string& text,
                                                                        const std::string& file);

}  // namespace understudy
