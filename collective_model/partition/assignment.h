// The assignment problem: each row gets a column of its own so that the costs sum up to as little as can be
// (Kuhn and Munkres). The way with shortest augmenting paths and potentials of rows and columns: O(n^3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace understudy {

/// The column of each row, of `size` rows and as many columns. cost(row, column) is finite.
std::vector<uint32_t> cheapest_assignment(uint32_t size,
                                          const std::function<double(uint32_t, uint32_t)>& cost);

}  // namespace understudy
