// What a replay of traces comes to: `understudy workload replay`. Times in ns, as ASTRA-sim prints
// them.
#pragma once

#include <string>
#include <vector>

#include "collective_model/traces/replay.h"

namespace understudy {

std::string replay_text(const std::vector<RankReplay>& ranks, const ReplaySettings& settings);
/// Schema "understudy-trace-replay/1"; with `nodes` [id, begin, end] of every node of every rank.
std::string replay_json(const TraceJob& job, const std::vector<RankReplay>& ranks,
                        const ReplaySettings& settings, bool nodes);

}  // namespace understudy
