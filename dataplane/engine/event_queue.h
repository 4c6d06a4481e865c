// The shard's calendar: a binary heap of plain events, ordered by time and then by insertion, so
// that a run in virtual time is repeatable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

enum class EventKind : uint8_t {
  kLinkFree,    ///< a link's wire is idle again; index: link
  kLinkArrive,  ///< a packet reaches its next link's queue; index: packet
  kDeliver,     ///< a packet reaches its emulated node; index: packet
  kDepart,      ///< a packet that met the faults goes to the real node; index: packet
  kHeldLong,    ///< a fault has held a packet back long enough; index: entry
  kPace,        ///< a queue pair's pacing lets it send; index: QP slot
  kLaw,         ///< a timer of a queue pair's congestion control; index: QP slot
  kTimer,       ///< a queue pair's retransmission or RNR timer; index: QP slot
  kWake,        ///< a endpoint asked for it; index: wake slot
  kCommand,     ///< a command's effective time has come; index: command slot
};

struct ShardEvent {
  Time time;
  uint64_t order = 0;
  EventKind kind = EventKind::kLinkFree;
  uint32_t index = 0;
};

class EventQueue {
 public:
  explicit EventQueue(size_t capacity) { heap_.reserve(capacity); }

  void push(Time time, EventKind kind, uint32_t index) {
    heap_.push_back({time, order_++, kind, index});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Time next() const { return heap_.empty() ? Time::never() : heap_.front().time; }
  ShardEvent pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const ShardEvent e = heap_.back();
    heap_.pop_back();
    return e;
  }

 private:
  static bool later(const ShardEvent& a, const ShardEvent& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
  std::vector<ShardEvent> heap_;
  uint64_t order_ = 0;
};

}  // namespace understudy
