// Rings of several producers' records, kept apart, to one consumer, who takes from each in turn: who
// floods takes neither room nor time from others.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/byte_ring.h"

namespace understudy {

class FairRings {
 public:
  /// Of `bytes` together, but at least 64 KiB each.
  FairRings(uint32_t rings, size_t bytes) : rings_(rings) {
    constexpr size_t kLeast = 1 << 16;
    for (auto& ring : rings_) ring = std::make_unique<ByteRing>(std::max(bytes / rings, kLeast));
  }

  /// The producer's.
  ByteRing& operator[](uint32_t ring) { return *rings_[ring]; }

  // The consumer's, as ByteRing's.

  bool empty() const {
    return std::ranges::all_of(rings_, [](const auto& ring) { return ring->empty(); });
  }
  /// The oldest record of the ring whose turn it is, the same until pop().
  std::span<const uint8_t> front() {
    for (size_t tried = 0; tried < rings_.size(); ++tried) {
      if (const auto record = rings_[turn_]->front(); record.data() != nullptr) return record;
      turn_ = (turn_ + 1) % rings_.size();
    }
    return {};
  }
  /// Releases it.
  void pop() {
    front();
    rings_[turn_]->pop();
    turn_ = (turn_ + 1) % rings_.size();
  }

 private:
  std::vector<std::unique_ptr<ByteRing>> rings_;
  size_t turn_ = 0;
};

}  // namespace understudy
