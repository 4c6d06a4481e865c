// What ranks put into an operation and what must come out of it, computed on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/allreduce_node/collective.h"
#include "tools/allreduce_node/options.h"

namespace understudy {

/// Values of all ranks: of float, those of the emulator's payload = "exact" (Pattern of a seed and
/// the rank); of other types small whole numbers, so that every type can hold the results.
class RankValues {
 public:
  explicit RankValues(const NodeOptions& options);

  /// What `rank` puts in: `shape.send` elements as bytes.
  std::vector<uint8_t> input(uint32_t rank, const Shape& shape) const;

  struct Difference {
    uint64_t wrong = 0;
    std::string first;  ///< of the wrong elements, as a text for the user
  };
  /// Compares `result`, `shape.receive` elements of `rank`. Floating-point reductions may differ by
  /// the rounding of as many additions as there are ranks, whatever their order.
  Difference check(uint32_t rank, const Shape& shape, std::span<const uint8_t> result) const;

 private:
  double value(uint32_t rank, uint64_t element) const;
  /// Element `i` of `rank`'s result, and how far it may be off.
  double expected(uint32_t rank, const Shape& shape, uint64_t i, double& slack) const;

  const NodeOptions& options_;
  std::vector<uint64_t> seeds_;  ///< of each rank
};

}  // namespace understudy
