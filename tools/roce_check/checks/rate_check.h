// Did the emulated queues keep the rates of the configuration? Only for traffic between a real and
// an emulated node.
//
// To the real node: at their scheduled departures (in captures of others: at their time stamps) no
// window of packets may carry more wire bytes than the link could, plus 1 % and a burst of two
// frames; and inside messages, where the sender is backlogged, the median pace must not be below
// 98 %; of messages of up to three packets, where those of emulated ranks cross a network, an
// acknowledgement may stand between two of them. Where the configuration says that something else
// than both links may hold messages up (traffic, a topology, a controller, faults, others on the
// same link), a slow pace is said and not judged. A slower link of the emulated sender is held to
// the same, with a burst of 16 KiB for what waited in the real node's queue.
// From the real node: see answer_times.h.
#pragma once

#include "ctrl/config/config.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

void check_rates(const Config& config, Analysis& analysis);

}  // namespace understudy
