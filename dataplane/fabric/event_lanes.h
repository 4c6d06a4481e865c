// A calendar with lanes in front: short FIFOs for events that come in the order of their time,
// stream by stream, as those of packets do that take the same time from link to link. What fits
// into none of them goes into the calendar. The order of all is the calendar's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/calendar.h"

namespace understudy {

class EventLanes {
 public:
  EventLanes() : events_(kLanes * kRoom) {}

  void reserve(size_t events) { calendar_.reserve(events); }
  /// Of a stream. One that is far away would close its lane to the rest: that goes to push().
  void push_in_order(Time time, uint32_t kind, uint32_t index) {
    for (size_t i = 0; i < kLanes; ++i) {
      Lane& lane = lanes_[i];
      if (lane.last > time || lane.count == kRoom) continue;
      if (lane.count == 0) {
        lane.next = time;
        // Of equal times the one that stands there already comes first.
        if (time < lanes_[first_].next) first_ = i;
      }
      lane.last = time;
      at(i, lane.count++) = {time, calendar_.take_order(), kind, index};
      return;
    }
    calendar_.push(time, kind, index);
  }
  void push(Time time, uint32_t kind, uint32_t index, uint32_t rank = 0) {
    calendar_.push(time, kind, index, rank);
  }

  Time next() { return std::min(lanes_[first_].next, calendar_.next()); }
  /// There must be one. `from_lane`: it was in one.
  CalendarEvent pop(bool& from_lane) {
    const Time other = calendar_.next();
    Lane& lane = lanes_[first_];
    from_lane = lane.next < other || (lane.next == other && !lane.next.is_never() &&
                                      at(first_, 0).order < calendar_.front().order);
    if (!from_lane) return calendar_.pop();
    const CalendarEvent e = at(first_, 0);
    lane.first = (lane.first + 1) % kRoom;
    if (--lane.count == 0) {
      lane.next = Time::never();
      lane.last = Time::zero();
    } else {
      lane.next = at(first_, 0).time;
    }
    popped_ = first_;
    find_first();
    return e;
  }
  /// Of the lane of the last one that was popped from one: the event so many behind its next; null
  /// if there is none.
  const CalendarEvent* peek_lane(uint32_t ahead) const {
    return ahead < lanes_[popped_].count ? &at(popped_, ahead) : nullptr;
  }
  const CalendarEvent* peek(size_t ahead) const { return calendar_.peek(ahead); }

 private:
  /// Whole packets and short ones that arrive, and links that are free again; and one more.
  static constexpr size_t kLanes = 4;
  /// What is on its way at 400 Gbit/s over six links; no more memory than near caches have.
  static constexpr uint32_t kRoom = 512;

  struct Lane {
    Time next = Time::never();  ///< of its first event ...
    Time last;                  ///< ... and of its last one
    uint32_t first = 0, count = 0;
  };

  CalendarEvent& at(size_t lane, uint32_t place) {
    return events_[lane * kRoom + (lanes_[lane].first + place) % kRoom];
  }
  const CalendarEvent& at(size_t lane, uint32_t place) const {
    return events_[lane * kRoom + (lanes_[lane].first + place) % kRoom];
  }
  void find_first() {
    size_t first = 0;
    for (size_t i = 1; i < kLanes; ++i) {
      if (lanes_[i].next > lanes_[first].next) continue;
      if (lanes_[i].next == lanes_[first].next &&
          (lanes_[i].count == 0 || at(i, 0).order > at(first, 0).order)) {
        continue;
      }
      first = i;
    }
    first_ = first;
  }

  std::array<Lane, kLanes> lanes_;
  size_t first_ = 0;                   ///< lane of the first of all
  size_t popped_ = 0;                  ///< lane of the last one that was taken
  std::vector<CalendarEvent> events_;  ///< rings, a lane's behind the other's
  Calendar calendar_;
};

}  // namespace understudy
