// What can be said of traces before they are carried out.
#pragma once

#include <map>

#include "collective_model/traces/replay.h"
#include "collective_model/traces/trace_rings.h"

namespace understudy {

/// Orders of all graphs. An error names the rank.
Result<std::map<const TraceGraph*, TraceOrder>> order_job(const TraceJob& job, TraceRules rules);

/// Whether all nodes can be carried out, receives have their sends and sends their receives, and ranks
/// of a group the same collectives. Leaves the rings in `rings`. An error names rank and node.
Result<void> check_replay(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings);

/// "rank 3, node 7 (aten::mm)": ids as they are on that rank.
std::string place_text(const TraceJob& job, uint32_t rank, const TraceNode& node);

/// Whether every message of the job, which check_replay() found right, takes one link only, which no
/// rank but its sender uses.
bool links_of_one_rank(const TraceJob& job, const ReplaySettings& settings, TraceRings& rings);

/// Sends and receives with the same key meet in order.
struct TraceMessageKey {
  uint32_t tag, from, to;
  uint64_t bytes;
  auto operator<=>(const TraceMessageKey&) const = default;
};
/// Of a kSend or kReceive of `rank`, with its peer.
TraceMessageKey message_key(uint32_t rank, const TraceNode& node);

}  // namespace understudy
