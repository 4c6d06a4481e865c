#include "collective_model/traces/stack_time.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

namespace understudy {

int64_t stack_time(const std::vector<StackPhase>& phases, uint64_t chunks) {
  using Arrival = std::tuple<int64_t, uint64_t, size_t>;  // when, in which order, for which phase
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals;
  uint64_t order = 0;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) arrivals.emplace(0, order++, 0);
  std::map<uint32_t, int64_t> free;
  int64_t last = 0;
  while (!arrivals.empty()) {
    const auto [when, number, phase] = arrivals.top();
    arrivals.pop();
    int64_t& dimension = free[phases[phase].dimension];
    dimension = std::max(dimension, when) + phases[phase].takes;
    last = std::max(last, dimension);
    if (phase + 1 < phases.size()) arrivals.emplace(dimension, order++, phase + 1);
  }
  return last;
}

}  // namespace understudy
