// The most that can flow from one place to another through a network with capacities: Dinic's
// algorithm (Soviet Math. Doklady 11, 1970). Equals the smallest cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace understudy {

class MaxFlow {
 public:
  explicit MaxFlow(uint32_t vertices) : out_(vertices) {}

  /// An edge from `a` to `b`; parallel ones add up.
  void add(uint32_t a, uint32_t b, uint64_t capacity);
  /// The value of a largest flow; once. The sum of capacities out of `source` must fit 64 bits.
  uint64_t solve(uint32_t source, uint32_t sink);

 private:
  struct Edge {
    uint32_t to;
    uint64_t left;  ///< capacity that is not used; of the reverse edge: the flow
  };

  bool build_levels(uint32_t source, uint32_t sink);
  uint64_t push(uint32_t at, uint32_t sink, uint64_t most);

  std::vector<Edge> edges_;  ///< an edge's reverse is its number with the last bit flipped
  std::vector<std::vector<uint32_t>> out_;
  std::vector<uint32_t> level_;
  std::vector<size_t> next_;  ///< per vertex: edges before this one are exhausted
};

}  // namespace understudy
