// Deadlocks of a run's network, named: the same words wherever one ends a run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/fabric/deadlock.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

std::vector<std::string> link_names(const Graph& graph, std::span<const LinkId> links);

/// "deadlock, each of these links is paused by the switch behind it:", and one in a line.
std::string deadlock_text(const Graph& graph, std::span<const LinkId> cycle);

/// Error, which begins with `heading`: there is a deadlock.
Result<void> find_no_deadlock(const std::string& heading, const Graph& graph,
                              const Network& network, DeadlockSearch& search);

}  // namespace understudy
