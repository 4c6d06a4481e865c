// Collectives of a replay that are under way: ranks enter one after another, and each ends at its own
// time.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective_model/traces/trace_messages.h"
#include "collective_model/traces/trace_rings.h"

namespace understudy {

class RingRuns {
 public:
  /// The first four outlive this. `apart`: no rank uses a link that another one's messages take, or
  /// links carry any number of messages. Then the times of a collective are known once its last rank
  /// has entered; else each message is sent on its own.
  RingRuns(TraceRings& rings, const TraceNetwork& network, TraceEvents& events,
           TraceMessages& messages, uint32_t ranks, bool apart)
      : rings_(rings),
        network_(network),
        events_(events),
        messages_(messages),
        apart_(apart),
        counters_(ranks) {}

  /// A rank begins its node. An error says that other ranks of the ring do something else.
  Result<void> enter(int64_t now, uint32_t rank, uint32_t index, const TraceNode& node);
  /// An event of kRingRankReady.
  void ready(int64_t now, uint32_t run, uint32_t place);
  void message_arrived(int64_t now, const TraceMessage& message);

  /// Of a rank that waits in a collective: for whom. Empty: it waits in none.
  std::string waits_for(uint32_t rank, uint32_t index) const;

 private:
  struct Member {
    std::optional<int64_t> entered;
    uint32_t index = 0;    ///< of its node
    uint64_t step = 0;     ///< of all chunks
    uint64_t arrived = 0;  ///< messages of the rank before
    bool waits = false;
  };
  struct Run {
    uint32_t ring = 0;
    TraceCollective collective = TraceCollective::kAllReduce;
    uint64_t bytes = 0;
    RingSteps steps;
    std::vector<StackPhase> phases;
    std::vector<Member> members;  ///< by place
    uint32_t entered = 0, ended = 0;
    bool closed = false;  ///< times of its ends are known
  };

  void end_all(Run& run);
  Result<void> end_stack(int64_t now, Run& run);
  bool can_end_all(int64_t now, const Run& run) const;
  void take_step(int64_t now, uint32_t number, uint32_t place);

  TraceRings& rings_;
  const TraceNetwork& network_;
  TraceEvents& events_;
  TraceMessages& messages_;
  bool apart_;
  std::vector<std::unordered_map<uint32_t, uint64_t>> counters_;  ///< by rank and ring's counter
  std::vector<Run> runs_;
  std::vector<std::unordered_map<uint64_t, uint32_t>> numbers_;  ///< by ring: begun, by count
};

}  // namespace understudy
