// Messages that NCCL cuts in parts, one for each queue pair or merged NIC that carries them
// (docs/nccl 3.2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/assert.h"

namespace understudy {

/// Where a part lies in its message, in bytes: an empty one may lie behind its end.
struct MessagePart {
  uint64_t from = 0, bytes = 0;
};

/// Part `part` of a message of `bytes` in `parts`: all are equal and of whole lines of LL and
/// LL128, but for the last ones, which are shorter or empty. An empty part is sent too.
constexpr MessagePart message_part(uint64_t bytes, uint32_t parts, uint32_t part) {
  constexpr uint64_t kAlign = 128;
  const uint64_t most = ((bytes + parts - 1) / parts + kAlign - 1) / kAlign * kAlign;
  const uint64_t from = most * part;
  return {from, from < bytes ? std::min(most, bytes - from) : 0};
}

/// Which messages of a connection are whole, whose parts come in any order. They are whole in their
/// order, as a reliable connection has them: none is before all those in front of it.
class WholeMessages {
 public:
  /// `window`: how far a message may be ahead of the first one that is not whole.
  WholeMessages(uint32_t parts, uint64_t window) : parts_(parts), came_(window) {
    ASSERT_INVARIANT(parts > 0 && parts <= UINT8_MAX);
  }
  /// A part of message `k` has come. Gives how many messages are whole by it.
  uint32_t take(uint64_t k) {
    ASSERT_INVARIANT(k >= whole_ && k - whole_ < came_.size());
    ++came_[k % came_.size()];
    const uint64_t before = whole_;
    for (; came_[whole_ % came_.size()] == parts_; ++whole_) came_[whole_ % came_.size()] = 0;
    return static_cast<uint32_t>(whole_ - before);
  }

 private:
  uint32_t parts_;
  std::vector<uint8_t> came_;  ///< parts of each message, by its number modulo the window
  uint64_t whole_ = 0;         ///< messages
};

}  // namespace understudy
