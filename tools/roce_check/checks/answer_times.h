// The queue from the real node: its packets wait in the model, not on the wire, so its rate shows
// only in when they are answered. The queue is replayed from the captured arrivals at 101 % of its
// rate; an answer that leaves before its request can have left that queue, crossed both links and
// come back tells of a faster one.
#pragma once

#include <vector>

#include "ctrl/config/config.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

void check_answer_times(const Config& config, const PortConfig& port,
                        const std::vector<LinkChange>& changes, Analysis& analysis);

}  // namespace understudy
