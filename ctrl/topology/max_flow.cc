#include "ctrl/topology/max_flow.h"

#include <algorithm>
#include <limits>

namespace understudy {

void MaxFlow::add(uint32_t a, uint32_t b, uint64_t capacity) {
  const auto id = static_cast<uint32_t>(edges_.size());
  edges_.push_back({b, capacity});
  edges_.push_back({a, 0});
  out_[a].push_back(id);
  out_[b].push_back(id + 1);
}

bool MaxFlow::build_levels(uint32_t source, uint32_t sink) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  level_.assign(out_.size(), kNone);
  level_[source] = 0;
  std::vector<uint32_t> queue{source};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t id : out_[queue[i]]) {
      const Edge& edge = edges_[id];
      if (edge.left == 0 || level_[edge.to] != kNone) continue;
      level_[edge.to] = level_[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[sink] != kNone;
}

uint64_t MaxFlow::push(uint32_t at, uint32_t sink, uint64_t most) {
  if (at == sink) return most;
  uint64_t pushed = 0;
  for (size_t& i = next_[at]; i < out_[at].size(); ++i) {
    Edge& edge = edges_[out_[at][i]];
    if (edge.left == 0 || level_[edge.to] != level_[at] + 1) continue;
    const uint64_t amount = push(edge.to, sink, std::min(most - pushed, edge.left));
    edge.left -= amount;
    edges_[out_[at][i] ^ 1].left += amount;
    pushed += amount;
    if (pushed == most) return pushed;  // this edge may have something left
  }
  return pushed;
}

uint64_t MaxFlow::solve(uint32_t source, uint32_t sink) {
  uint64_t flow = 0;
  while (build_levels(source, sink)) {
    next_.assign(out_.size(), 0);
    flow += push(source, sink, std::numeric_limits<uint64_t>::max());
  }
  return flow;
}

}  // namespace understudy
