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

/// Values of all ranks: of float, and of all types with a --job-seed, those of the emulator's
/// payload = "exact" (Pattern of a seed and the rank); otherwise small whole numbers, so that every
/// type can hold the results.
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
  template <class T>
  T value(uint32_t rank, uint64_t element) const;
  /// Whether element `i` of `rank`'s result is reduced, and at which element of all ranks; else of
  /// which rank's it is a copy.
  bool is_reduced(uint32_t rank, const Shape& shape, uint64_t& i, uint32_t& origin) const;
  /// Element `i` of all ranks reduced; of floating-point types, and how far it may be off.
  template <class T>
  T whole(uint64_t i) const;
  template <class T>
  double real(uint64_t i, double& slack) const;

  const NodeOptions& options_;
  std::vector<uint64_t> seeds_;  ///< of each rank
};

}  // namespace understudy
