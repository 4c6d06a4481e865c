// A topology as a picture: Graphviz' language, and the picture that its `dot` draws of it.
#pragma once

#include <string>

#include "dataplane/base/result.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

/// Above this many vertices, the NICs of a switch become one box and what is inside nodes is left
/// out.
inline constexpr size_t kMostDrawn = 200;

/// Graphviz' program. Parallel cables are one line with their number; a line is red where the cable
/// loses packets or is down at times.
std::string dot_program(const Graph& graph, const std::string& title);

/// Whether draw_topology knows the ending of this name.
bool can_draw(const std::string& file);

/// Writes *.dot; or *.svg, *.png with Graphviz (Debian: graphviz). Errors: a file that
/// cannot be written, Graphviz is missing or fails.
Result<void> draw_topology(const Graph& graph, const std::string& title, const std::string& file);

}  // namespace understudy
