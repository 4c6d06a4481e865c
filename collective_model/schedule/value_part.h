// What a message is made of, and what of a result a received message completes: values beside the
// schedule's times. A message consists of parts; each is the rank's own contribution, or a part of
// messages that it has received, or both reduced, in the order in which NCCL's kernels do it
// (docs/nccl 3.14): the contribution, then received messages as they are listed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dataplane/base/assert.h"

namespace understudy {

struct ValuePart {
  /// Ranks that a part is reduced from directly at most: children in a tree, distances of PAT.
  static constexpr uint32_t kMost = 24;
  /// Of a message that the same rank received.
  struct Source {
    uint32_t connection;  ///< position in RankSchedule::connections()
    uint64_t message;
    uint32_t at;  ///< of its first byte
  };

  ValuePart() = default;
  // Of the sources only those that there are.
  ValuePart(const ValuePart& other) { *this = other; }
  ValuePart& operator=(const ValuePart& other) {
    at = other.at;
    bytes = other.bytes;
    own = other.own;
    from = other.from;
    to = other.to;
    count_ = other.count_;
    std::copy_n(other.sources_.begin(), count_, sources_.begin());
    return *this;
  }

  uint32_t at = 0;     ///< of its first byte in the message
  uint32_t bytes = 0;  ///< may be 0
  bool own = false;    ///< the rank's contribution is in it
  uint64_t from = 0;   ///< own: of its first byte in that contribution
  uint64_t to = 0;     ///< of a result: of its first byte in the rank's result

  void add(const Source& source) {
    DEBUG_ASSERT_INVARIANT(count_ < kMost);
    sources_[count_++] = source;
  }
  uint32_t size() const { return count_; }
  const Source& operator[](uint32_t i) const { return sources_[i]; }
  Source& operator[](uint32_t i) { return sources_[i]; }

 private:
  uint32_t count_ = 0;
  std::array<Source, kMost> sources_;  // without initial values: making a part costs little
};

}  // namespace understudy
