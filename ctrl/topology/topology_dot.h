// A topology as a picture: Graphviz' language, and the picture that its `dot` draws of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

/// Graphviz' program. Parallel cables are one line with their number; a line is red where the cable
/// loses packets or is down at times, and a box where one inside it does. Large networks are drawn
/// in boxes (topology_boxes.h, also of `blocks`), unless `all` is wanted.
std::string dot_program(const Graph& graph, const std::string& title, bool all = false,
                        const std::vector<uint32_t>& blocks = {});

/// Of a configuration's torus, mesh or stack: the hosts of the innermost dimension, of the two
/// innermost, and so on; without those of all. None of another topology.
std::vector<uint32_t> blocks_of(const Config& config);

/// Whether draw_topology knows the ending of this name.
bool can_draw(const std::string& file);

/// Writes *.dot; or *.svg, *.png with Graphviz (Debian: graphviz). Errors: a file that
/// cannot be written, Graphviz is missing or fails.
Result<void> draw_topology(const Graph& graph, const std::string& title, const std::string& file,
                           bool all, const std::vector<uint32_t>& blocks);

}  // namespace understudy
