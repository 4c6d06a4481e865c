// Carries traces out by ASTRA-sim's rules: a list scheduler per rank, with times of its analytical
// back ends.
//
// A node is free when all that it waits for has ended. A rank has three slots: one for nodes on the
// CPU, one for computations, one for communication and memory; receives need none. When a node ends,
// the free ones are visited in the order of their ids, and each begins if its slot is empty.
//
// What a node takes, with ASTRA-sim's files (tags and commits of TraceRules):
//   compute      trace_computing.h
//   collective   ring_times.h, for all-reduce, all-gather, reduce-scatter, all-to-all; a broadcast
//                what was recorded
//   send         until it arrives; a receive until a send with the same tag, ends and bytes has
//   memory       latency + bytes / bandwidth, and the wait for others' transfers
#pragma once

#include <vector>

#include "collective_model/traces/trace_executor.h"
#include "collective_model/traces/trace_network.h"
#include "collective_model/traces/trace_system.h"
#include "dataplane/base/units.h"

namespace understudy {

struct ReplaySettings {
  TraceRules rules = TraceRules::kFeeder3;
  TraceNetwork network;
  TraceSystem system;
  TraceMemory memory;
};

struct RankReplay {
  Time finish;
  /// finish - time of its computations outside the CPU: "exposed communication".
  Duration exposed;
  std::vector<TraceNodeTimes> nodes;  ///< in the graph's order
};

/// By rank. Takes n log n time in nodes, edges and messages between ranks; of a collective ring_times.h
/// counts, and where ways of different ranks share links each message. Errors name rank and node:
/// parents that are missing, cycles, receives without a send, and what has no time by these rules.
Result<std::vector<RankReplay>> replay(const TraceJob& job, const ReplaySettings& settings);

}  // namespace understudy
