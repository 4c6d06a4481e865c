// When the packets left that a queue pair's peer has not acknowledged yet, and how much of their
// messages they carried: for round trips and windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"

namespace understudy {

class DepartureLog {
 public:
  /// Room for so many packets; beyond, those that leave share the newest one's place, and nobody
  /// knows their round trip. 0: nothing is logged.
  explicit DepartureLog(uint32_t capacity) : ring_(capacity) {}

  /// A request packet with the PSNs from `first` to before `end` leaves at `now`. `timed`: its
  /// acknowledgement tells the network's round trip (a READ's answer does not: it is data). One
  /// that left before loses its time: nobody knows which of both is acknowledged (Karn).
  void left(Psn first, Psn end, Time now, uint32_t payload, bool timed) {
    if (ring_.empty()) return;
    if (started_ && first.distance_from(end_) < 0) {
      if (const size_t i = find(first); i < count_) at(i).timed = false;
      return;
    }
    started_ = true;
    end_ = end;
    sent_ += payload;
    if (count_ == ring_.size()) {
      at(count_ - 1) = {end, false, now, sent_};
      return;
    }
    at(count_++) = {end, timed, now, sent_};
  }

  /// All before `una` is acknowledged. Gives when the last packet of that left, if it is known and
  /// anything is acknowledged anew.
  struct Acknowledged {
    uint64_t bytes = 0;  ///< anew
    std::optional<Time> left;
  };
  Acknowledged acknowledge(Psn una) {
    Acknowledged result;
    const uint64_t before = acked_;
    while (count_ > 0 && at(0).end.distance_from(una) <= 0) {
      const Entry& e = at(0);
      acked_ = e.upto;
      result.left = e.timed ? std::optional(e.left) : std::nullopt;
      first_ = place(1);
      --count_;
    }
    result.bytes = acked_ - before;
    return result;
  }

  /// Payload bytes that left and are not acknowledged; after going back to `next`, those before it.
  uint64_t in_flight(Psn next) const {
    if (!started_ || next.distance_from(end_) >= 0) return sent_ - acked_;
    const size_t i = find(next);
    return (i == 0 ? acked_ : at(i - 1).upto) - acked_;
  }
  /// As new: the queue pair begins again at its first PSN.
  void clear() {
    count_ = 0;
    started_ = false;
    sent_ = acked_ = 0;
  }
  uint64_t sent() const { return sent_; }
  uint64_t acked() const { return acked_; }

 private:
  struct Entry {
    Psn end;  ///< one past its last PSN
    bool timed = false;
    Time left;
    uint64_t upto = 0;  ///< payload bytes of all packets up to this one
  };

  size_t place(size_t i) const {
    return first_ + i < ring_.size() ? first_ + i : first_ + i - ring_.size();
  }
  Entry& at(size_t i) { return ring_[place(i)]; }
  const Entry& at(size_t i) const { return ring_[place(i)]; }
  /// The first entry that ends behind `psn`, or count_.
  size_t find(Psn psn) const {
    size_t low = 0, high = count_;
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (at(middle).end.distance_from(psn) > 0) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  std::vector<Entry> ring_;  ///< oldest first
  size_t first_ = 0, count_ = 0;
  bool started_ = false;
  Psn end_;  ///< one past the newest PSN that left
  uint64_t sent_ = 0, acked_ = 0;
};

}  // namespace understudy
