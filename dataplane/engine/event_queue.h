// The shard's calendar of plain events.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/fabric/calendar.h"

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
  kPauseHeard,  ///< the real node pauses a class, or lets it go on; index: port and class
  kPauseEnds,   ///< what it said may have run out; the same
  kCommand,     ///< a command's effective time has come; index: command slot
};

struct ShardEvent {
  Time time;
  EventKind kind = EventKind::kLinkFree;
  uint32_t index = 0;
};

class EventQueue {
 public:
  /// Allocates when there are more events than `capacity`.
  explicit EventQueue(size_t capacity) { calendar_.reserve(capacity); }

  void push(Time time, EventKind kind, uint32_t index) {
    calendar_.push(time, static_cast<uint32_t>(kind), index);
  }
  Time next() const { return calendar_.next(); }
  /// There must be one.
  ShardEvent pop() {
    const CalendarEvent e = calendar_.pop();
    return {e.time, static_cast<EventKind>(e.kind), e.index};
  }

 private:
  mutable Calendar calendar_;  ///< remembers what was asked for
};

}  // namespace understudy
