// Any bytes as the feed of a profiler plugin.
#pragma once

#include <vector>

#include "ctrl/peers/feed.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// The same is told of bytes that come at once and one by one; what is told can be carried out, or
/// is named as wrong.
inline void drive_feed(std::span<const uint8_t> bytes) {
  FeedDecoder whole, pieces;
  std::vector<FedOperation> a, b;
  const bool good = whole.take(bytes, a);
  bool still_good = true;
  for (const uint8_t& byte : bytes) still_good &= pieces.take({&byte, 1}, b);
  must(good == still_good && whole.error() == pieces.error() && good == whole.error().empty());
  must(a.size() == b.size() && a.size() == whole.records());
  must(a.size() <= bytes.size() / FeedRecord::kBytes);
  for (size_t i = 0; i < a.size(); ++i) {
    must(a[i].operation.count == b[i].operation.count && a[i].sequence == b[i].sequence);
    must(a[i].operation.bytes() <= kMostOperationBytes && a[i].operation.channels <= 64);
  }
}

}  // namespace understudy
