// The shard's calendar of plain events. Most of what packets cause comes in the order of its time,
// stream by stream: such events stand in a few short FIFOs, lanes, in front of the calendar, which
// takes the others. The order of all is the calendar's: by time, then by insertion.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/fabric/calendar.h"
#include "dataplane/fabric/link.h"

namespace understudy {

enum class EventKind : uint8_t {
  kLinkFree,    ///< a link's wire is idle again; index: link
  kLinkArrive,  ///< a packet reaches its next link's queue; index: packet
  kDeliver,     ///< a packet reaches its emulated node; index: packet
  kDepart,      ///< a packet that met the faults goes to the real node; index: packet
  kHandle,      ///< its NIC has taken so long for it; the same
  kPost,        ///< what a program has posted reaches its NIC; index: of HeldPosts
  kHeldLong,    ///< a fault has held a packet back long enough; index: entry
  kPace,        ///< a queue pair's pacing lets it send; index: QP slot
  kController,  ///< a timer of a queue pair's rate controller; index: QP slot
  kTimer,       ///< a queue pair's retransmission or RNR timer; index: QP slot
  kWake,        ///< a endpoint asked for it; index: wake slot
  kPauseHeard,  ///< the real node pauses a class, or lets it go on; index: port and class
  kPauseEnds,   ///< what it said may have run out; the same
  kCommand,     ///< a command's effective time has come; index: command slot
  kCommands,    ///< commands for now have come; index: how many, and of those for later among them
};

struct ShardEvent {
  Time time;
  EventKind kind = EventKind::kLinkFree;
  uint32_t index = 0;
};

class EventQueue {
 public:
  explicit EventQueue(size_t capacity) : EventQueue(capacity, capacity) {}
  /// Allocates when there are more events than `capacity`, or more than `at_once` at one time.
  EventQueue(size_t capacity, size_t at_once) { calendar_.reserve(capacity, at_once); }

  void push(Time time, EventKind kind, uint32_t index) {
    // Of the others few are in order, and one that is far away would close its lane to the rest.
    if (kind <= EventKind::kDeliver) {
      for (size_t i = 0; i < kLanes; ++i) {
        if (last_[i] > time || lanes_[i].full()) continue;
        if (lanes_[i].empty()) {
          next_[i] = time;
          // Of equal times the one that stands there already comes first.
          if (time < next_[first_]) first_ = i;
        }
        last_[i] = time;
        lanes_[i].add({time, calendar_.take_order(), static_cast<uint32_t>(kind), index});
        return;
      }
    }
    calendar_.push(time, static_cast<uint32_t>(kind), index);
  }
  Time next() const { return std::min(next_[first_], calendar_.next()); }
  /// A packet that an event soon to come is about, as far as it is known; kNoPacket if not.
  uint32_t packet_ahead() const { return ahead_; }
  /// There must be one.
  ShardEvent pop() {
    const Time other = calendar_.next();
    Lane& lane = lanes_[first_];
    if (next_[first_] >= other) {
      if (next_[first_] > other || calendar_.front().order < lane.front().order) {
        return of(calendar_.pop());
      }
    }
    const ShardEvent e = of(lane.take());
    ahead_ = lane.packet_at(kAhead);
    if (lane.empty()) {
      next_[first_] = Time::never();
      last_[first_] = Time::zero();
    } else {
      next_[first_] = lane.front().time;
    }
    find_first();
    return e;
  }

 private:
  /// As many streams as two links have in each direction: what comes in, goes on, and makes room.
  static constexpr size_t kLanes = 6;
  static constexpr uint32_t kAhead = 2;

  class Lane {
   public:
    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == kRoom; }
    void add(const CalendarEvent& e) { ring_[(first_ + count_++) % kRoom] = e; }
    const CalendarEvent& front() const { return ring_[first_]; }
    uint32_t packet_at(uint32_t place) const {
      if (place >= count_) return kNoPacket;
      const CalendarEvent& e = ring_[(first_ + place) % kRoom];
      return e.kind == static_cast<uint32_t>(EventKind::kLinkFree) ? kNoPacket : e.index;
    }
    const CalendarEvent& take() {
      const CalendarEvent& e = ring_[first_];
      first_ = (first_ + 1) % kRoom;
      --count_;
      return e;
    }

   private:
    /// What is on its way at 400 Gbit/s over 20 us, and no more memory than a first-level cache
    /// has.
    static constexpr uint32_t kRoom = 256;

    uint32_t first_ = 0, count_ = 0;
    std::array<CalendarEvent, kRoom> ring_;
  };

  void find_first() {
    size_t first = 0;
    for (size_t i = 1; i < kLanes; ++i) {
      if (next_[i] > next_[first]) continue;
      if (next_[i] == next_[first] &&
          (lanes_[i].empty() || lanes_[i].front().order > lanes_[first].front().order)) {
        continue;
      }
      first = i;
    }
    first_ = first;
  }
  static constexpr std::array<Time, kLanes> times(Time time) {
    std::array<Time, kLanes> all;
    all.fill(time);
    return all;
  }
  static ShardEvent of(const CalendarEvent& e) {
    return {e.time, static_cast<EventKind>(e.kind), e.index};
  }

  std::array<Time, kLanes> next_ = times(Time::never());  ///< of each lane's first event ...
  std::array<Time, kLanes> last_ = times(Time::zero());   ///< ... and of its last one
  size_t first_ = 0;                                      ///< lane of the first of all
  std::array<Lane, kLanes> lanes_;
  uint32_t ahead_ = kNoPacket;
  mutable Calendar calendar_;  ///< remembers what was asked for
};

}  // namespace understudy
