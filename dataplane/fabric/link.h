// One directed link of a network without switches: a FIFO in front of a wire.
// Cut-through: a packet's head may leave before its tail has come in, its tail never leaves before.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/fabric/wire.h"

namespace understudy {

inline constexpr uint32_t kNoPacket = 0xffffffff;

/// Bytes and packets that a link carried; all sums since the start of the run.
struct LinkCounters {
  uint64_t packets = 0;
  uint64_t wire_bytes = 0;  ///< frame bytes and the Ethernet overhead of 24
  /// Most packets that ever waited, but for those of a train that has begun.
  uint64_t queue_peak = 0;
  uint64_t dropped = 0;
};

class Link : public Wire {
 public:
  using Wire::Wire;

  /// Sends a packet of `wire_bytes` when the link is idle. `head` and `tail` are when its first and
  /// last bytes come in; the head may have come before the link was free. Gives when it leaves.
  Time pass(Time head, Time tail, uint32_t wire_bytes) {
    const Time start = std::max(head, free_at());
    send(start, tail, time_of_next(wire_bytes));
    ++counters_.packets;
    counters_.wire_bytes += wire_bytes;
    return start;
  }

  // The FIFO is an intrusive list over the shard's packet pool: `next` is the pool's link array.
  bool queue_empty() const { return first_ == kNoPacket; }
  uint32_t first() const { return first_; }
  /// For queue_peak: all that stand in the queue have arrived, and so many beside them ...
  void note_waiting(uint64_t more = 0) {
    counters_.queue_peak = std::max(counters_.queue_peak, waiting_ + more);
  }
  /// ... or, from the first on, as many as `arrived` says of each, and whether these are all that
  /// it stands for: else those behind it have not.
  template <typename Arrived>
  void note_arrived(const uint32_t* next, Arrived arrived) {
    uint64_t coming = 0;
    bool all = true;
    for (uint32_t packet = arrived_ == 0 ? first_ : next[last_arrived_]; all && packet != kNoPacket;
         packet = next[packet]) {
      const uint32_t packets = arrived(packet, all);
      if (all) {
        last_arrived_ = packet;
        arrived_ += packets;
      } else {
        coming = packets;
      }
    }
    counters_.queue_peak = std::max(counters_.queue_peak, arrived_ + coming);
  }
  /// ... or, of one that passes as soon as it is known to come, so many of its like as stand before
  /// it at its arrival.
  void note_passing(Time arrival, Time start, uint32_t wire_bytes) {
    counters_.queue_peak = std::max<uint64_t>(counters_.queue_peak, 1);
    const Duration time = time_for(wire_bytes), wait = start - arrival;
    // Divided only where it is a new peak.
    if (time <= Duration() || time * static_cast<int64_t>(counters_.queue_peak) > wait) return;
    counters_.queue_peak = static_cast<uint64_t>(wait.ps() / time.ps()) + 1;
  }
  uint64_t waiting() const { return waiting_; }
  /// `packets`: how many it stands for.
  void enqueue(uint32_t packet, uint32_t* next, uint32_t packets = 1) {
    next[packet] = kNoPacket;
    if (first_ == kNoPacket) {
      first_ = packet;
    } else {
      next[last_] = packet;
    }
    last_ = packet;
    waiting_ += packets;
  }
  /// The first one, which stood for `packets`.
  uint32_t dequeue(const uint32_t* next, uint32_t packets = 1) {
    const uint32_t packet = first_;
    first_ = next[packet];
    waiting_ -= packets;
    arrived_ -= std::min<uint64_t>(arrived_, packets);
    return packet;
  }

  LinkCounters& counters() { return counters_; }
  const LinkCounters& counters() const { return counters_; }

 private:
  uint32_t first_ = kNoPacket, last_ = kNoPacket;
  uint64_t waiting_ = 0;
  uint64_t arrived_ = 0;  ///< of these, as far as that was asked for; the last of them stands in:
  uint32_t last_arrived_ = kNoPacket;
  LinkCounters counters_;
};

}  // namespace understudy
