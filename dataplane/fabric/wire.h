// The wire of one directed link: a serializer, then a propagation delay. It sends one packet at a
// time and keeps order. Who may send next is its owner's to say.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/nic_limits.h"
#include "dataplane/base/units.h"

namespace understudy {

/// When a packet's first and last bytes come out at a wire's far end.
struct LinkExit {
  Time head, tail;
};

class Wire {
 public:
  explicit Wire(Rate rate = Rate(), Duration latency = Duration())
      : serializer_(rate), latency_(latency) {}

  Rate rate() const { return serializer_.rate(); }
  Duration latency() const { return latency_; }
  /// Take effect with the next packet that starts; the one on the wire keeps its times.
  void set_rate(Rate rate) { serializer_.set_rate(rate); }
  void set_latency(Duration latency) { latency_ = latency; }
  /// Of the NIC at one of its ends; they outlive this. Null: none.
  void set_limits(const PacketLimits* limits) { limits_ = limits; }
  bool is_limited() const { return limits_ != nullptr; }

  /// Of a packet on an idle wire.
  Duration time_for(uint32_t wire_bytes) {
    return limited(serializer_.time_for(wire_bytes), wire_bytes);
  }
  /// The longest that one of as many bytes can take.
  Duration most_for(uint32_t wire_bytes) {
    return limited(serializer_.most_for(wire_bytes), wire_bytes);
  }
  /// Of the packet that is sent next. A part of a picosecond is carried to the one after it.
  Duration time_of_next(uint32_t wire_bytes) {
    return limited(serializer_.next(wire_bytes), wire_bytes);
  }

  /// A packet enters that takes `time`. Its first byte does at `start`, its last one not before
  /// `tail`, when that comes in.
  void send(Time start, Time tail, Duration time) {
    free_ = std::max(tail, start + time);
    // After the latency was cut nobody overtakes what is still on its way.
    exit_.head = std::max(exit_.head, start + latency_);
    exit_.tail = std::max(exit_.tail, free_ + latency_);
  }
  /// Of the packet that was sent last.
  const LinkExit& exit() const { return exit_; }
  /// When its last byte has entered.
  Time free_at() const { return free_; }
  /// When the tail of the packet comes out that it is sending; never(): it sends none.
  Time sent_tail(Time now) const { return now < free_ ? exit_.tail : Time::never(); }
  /// Whether a packet can start. Not while somebody is to be told that the wire is free: he has
  /// those that wait.
  bool idle(Time now) const { return !awaited_ && free_ <= now; }
  bool awaited() const { return awaited_; }
  void await() { awaited_ = true; }
  void release() { awaited_ = false; }

 private:
  Duration limited(Duration time, uint32_t wire_bytes) const {
    return limits_ == nullptr ? time : std::max(time, limits_->time_for(wire_bytes));
  }

  Serializer serializer_;
  const PacketLimits* limits_ = nullptr;
  Duration latency_;
  Time free_;
  LinkExit exit_;
  bool awaited_ = false;
};

}  // namespace understudy
