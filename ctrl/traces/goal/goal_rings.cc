#include "ctrl/traces/goal/goal_rings.h"

#include <algorithm>

namespace understudy {
namespace {

/// Of part `number` of as many as there are ranks.
uint64_t part_bytes(uint64_t bytes, uint32_t ranks, uint32_t number) {
  const uint64_t whole = bytes / ranks, rest = bytes % ranks;
  return std::max<uint64_t>(whole + (number < rest ? 1 : 0), 1);
}

}  // namespace

bool cuts(TraceCollective collective) {
  switch (collective) {
    case TraceCollective::kAllReduce:
    case TraceCollective::kAllGather:
    case TraceCollective::kReduceScatter:
    case TraceCollective::kAllToAll:
      return true;
    default:
      return false;
  }
}

std::vector<CutStep> cut_collective(TraceCollective collective, uint64_t bytes, uint32_t ranks,
                                    uint32_t place) {
  std::vector<CutStep> steps;
  if (collective == TraceCollective::kAllToAll) {
    for (uint32_t step = 1; step < ranks; ++step) {
      const uint32_t to = (place + step) % ranks, from = (place + ranks - step) % ranks;
      steps.push_back(
          {to, from, part_bytes(bytes, ranks, to), part_bytes(bytes, ranks, place), false});
    }
    return steps;
  }
  const bool twice = collective == TraceCollective::kAllReduce;
  const uint32_t count = (twice ? 2 : 1) * (ranks - 1);
  for (uint32_t step = 0; step < count; ++step) {
    const uint32_t next = (place + 1) % ranks, before = (place + ranks - 1) % ranks;
    if (collective == TraceCollective::kAllGather) {
      const uint64_t each = std::max<uint64_t>(bytes, 1);
      steps.push_back({next, before, each, each, step > 0});
      continue;
    }
    // The part that it sends goes back by one with each step; the rank before it is one part behind.
    const uint32_t sent = (place + 2 * ranks - step % ranks) % ranks,
                   received = (sent + ranks - 1) % ranks;
    steps.push_back({next, before, part_bytes(bytes, ranks, sent),
                     part_bytes(bytes, ranks, received), step > 0});
  }
  return steps;
}

}  // namespace understudy
