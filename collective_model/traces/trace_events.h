// What is to happen in a replay, in order of time. Events of one ns come in the order in which they
// were registered, as in ASTRA-sim's queue: what takes long stands before what is decided late.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "collective_model/traces/trace_rings.h"

namespace understudy {

struct TraceEvent {
  enum class Kind : uint8_t {
    kNodeEnds,       ///< of rank `a`, node `b`
    kTransferEnds,   ///< the same of a memory node
    kMessageAtHop,   ///< message `a`
    kRingRankReady,  ///< of ring run `a`, the rank at place `b`
  };
  int64_t at = 0;  ///< ns
  int64_t registered = 0;
  uint64_t order = 0;
  Kind kind = Kind::kNodeEnds;
  uint32_t a = 0, b = 0;

  bool operator<(const TraceEvent& other) const {
    return std::tuple(at, registered, order) > std::tuple(other.at, other.registered, other.order);
  }
};

class TraceEvents {
 public:
  void add(int64_t at, int64_t registered, TraceEvent::Kind kind, uint32_t a, uint32_t b = 0) {
    queue_.push({at, registered, order_++, kind, a, b});
    too_long_ |= static_cast<double>(at) > kLongestTraceNs;
  }
  bool empty() const { return queue_.empty(); }
  TraceEvent take() {
    const TraceEvent event = queue_.top();
    queue_.pop();
    return event;
  }
  /// Something is to happen after kLongestTraceNs.
  bool too_long() const { return too_long_; }

 private:
  std::priority_queue<TraceEvent> queue_;  // its top is the earliest
  uint64_t order_ = 0;
  bool too_long_ = false;
};

}  // namespace understudy
