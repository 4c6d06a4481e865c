// How large flows are: a distribution function, straight between its points.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

/// This share of all flows, 0 to 1, has at most so many bytes.
struct SizePoint {
  double bytes = 0;
  double share = 0;
};

struct SizeDistribution {
  std::string name;  ///< one of known_sizes(), or a file as the configuration names it
  /// Neither value falls; the last share is 1. If the first one is above 0, so many flows have the
  /// first size.
  std::vector<SizePoint> points;

  double mean() const;  ///< bytes
  /// The size below which the share `u` of all flows lies, in whole bytes, at least 1. `u` is in
  /// [0, 1).
  uint64_t at(double u) const;
};

/// A published distribution, with where its points come from.
struct KnownSizes {
  std::string_view name, source;
  std::span<const SizePoint> points;
};
std::span<const KnownSizes> known_sizes();

/// The points in the text of a file, one a line: bytes, then the share of flows that are no larger,
/// separated by a comma or blanks. The last share says whether shares are parts of 1 or of 100.
/// Lines that begin with # and a line of names are passed over. Error: it begins with the number of
/// the line, or nothing if the whole is at fault.
struct SizesError {
  unsigned line = 0;
  std::string found, allowed;
};
tl::expected<std::vector<SizePoint>, SizesError> parse_sizes(std::string_view text);

}  // namespace understudy
