// Packets that a fault holds back until others of their queue pair have gone past them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Packets go past one another only in one direction of one queue pair.
struct PacketStream {
  uint32_t node = 0, peer = 0;  ///< by positions in the node table
  Qpn qpn = 0;
  bool leaves = false;  ///< for a real node
  bool operator==(const PacketStream&) const = default;
};

class HeldPackets {
 public:
  static constexpr uint32_t kMost = 256;
  static constexpr uint32_t kNoEntry = 0xffffffff;

  struct Entry {
    uint32_t packet = 0;
    PacketStream stream;
    uint32_t left = 0;  ///< packets still to go past; 0: the entry is free
    Time deadline;      ///< when it goes on in any case
  };

  bool empty() const { return count_ == 0; }
  /// The entry's number, or kNoEntry when all are taken.
  uint32_t hold(uint32_t packet, const PacketStream& stream, uint32_t behind, Time deadline) {
    for (uint32_t i = 0; i < kMost; ++i) {
      if (entries_[i].left != 0) continue;
      entries_[i] = {packet, stream, behind, deadline};
      ++count_;
      return i;
    }
    return kNoEntry;
  }
  /// A packet of `stream` goes past: calls release(packet, when) for those that have waited enough.
  template <typename Release>
  void pass(const PacketStream& stream, Time now, Release&& release) {
    for (uint32_t i = 0, seen = 0, held = count_; i < kMost && seen < held; ++i) {
      if (entries_[i].left == 0) continue;
      ++seen;
      if (entries_[i].stream != stream || --entries_[i].left != 0) continue;
      --count_;
      release(entries_[i].packet, std::min(now, entries_[i].deadline));
    }
  }
  /// Lets entry `i` go if it is there and its time has come; false if not.
  bool expire(uint32_t i, Time now, uint32_t& packet) {
    if (entries_[i].left == 0 || entries_[i].deadline > now) return false;
    entries_[i].left = 0;
    --count_;
    packet = entries_[i].packet;
    return true;
  }

 private:
  std::array<Entry, kMost> entries_{};
  uint32_t count_ = 0;
};

}  // namespace understudy
