// A shard's notices to control, in rings apart: what one real node sends takes no room from others'
// and from what endpoints say.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "dataplane/node/notice.h"

namespace understudy {

class NoticeRings {
 public:
  explicit NoticeRings(uint32_t ports) : rings_(1 + ports) {
    rings_[0] = std::make_unique<ByteRing>(kBytes);
    for (uint32_t p = 0; p < ports; ++p) {
      rings_[1 + p] = std::make_unique<ByteRing>(std::max(kBytes / ports, kLeast));
    }
  }

  // The packet thread. False when the ring is full: control is too slow, and hears nothing of it.

  /// Of an endpoint.
  bool tell(Notice notice, std::span<const uint8_t> bytes) { return push(0, notice, bytes); }
  /// Of the real node at `port`.
  bool tell_from(uint32_t port, Notice notice, std::span<const uint8_t> bytes) {
    return push(1 + port, notice, bytes);
  }

  // Control.

  bool empty() const {
    return std::ranges::all_of(rings_, [](const auto& ring) { return ring->empty(); });
  }
  /// Takes the oldest one, if there is one: `take(notice, bytes)`.
  template <typename Take>
  bool take(Take&& take) {
    // An older one may have come to a ring that had been looked at already. Whoever has seen a
    // number sees all that were told before it.
    if (oldest() == nullptr) return false;
    return pop_notice(*oldest(), take);
  }

 private:
  static constexpr size_t kBytes = 1 << 20, kLeast = 1 << 16;

  bool push(size_t ring, Notice& notice, std::span<const uint8_t> bytes) {
    notice.number = next_++;
    return push_notice(*rings_[ring], notice, bytes);
  }

  ByteRing* oldest() const {
    ByteRing* found = nullptr;
    uint64_t number = 0;
    for (const auto& ring : rings_) {
      const auto record = ring->front();
      if (record.data() == nullptr) continue;
      Notice notice;
      std::memcpy(&notice, record.data(), sizeof notice);
      if (found != nullptr && notice.number > number) continue;
      found = ring.get();
      number = notice.number;
    }
    return found;
  }

  std::vector<std::unique_ptr<ByteRing>> rings_;  ///< endpoints', then one of each port
  uint64_t next_ = 0;
};

}  // namespace understudy
