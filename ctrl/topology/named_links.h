// Links of a network by the names of their ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/events/link_name.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

/// Whether `text` fits a pattern, in which each '*' stands for any characters.
bool matches(std::string_view pattern, std::string_view text);

/// A vertex whose name is nearly this one, as a question; empty: there is none.
std::string suggest_vertex(const Graph& graph, const std::string& name);

/// All links of this name, in the order of their numbers; none: nothing fits.
std::vector<LinkId> links_called(const Graph& graph, const LinkName& name);
/// Why there is none.
std::string why_no_link(const Graph& graph, const LinkName& name);

}  // namespace understudy
