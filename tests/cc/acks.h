// Short words for tests of congestion control.
#pragma once

#include "dataplane/cc/make_controller.h"

namespace understudy {

constexpr Rate gbps(uint64_t v) { return Rate::bits_per_second(v * 1'000'000'000); }
constexpr Rate mbps(uint64_t v) { return Rate::bits_per_second(v * 1'000'000); }
constexpr Time at_us(int64_t v) { return Time::zero() + Duration::us(v); }

/// Acknowledges packets of 1000 bytes in order, one each microsecond.
class Acks {
 public:
  static constexpr uint64_t kPacket = 1000;

  /// One more packet is acknowledged while `in_flight` others are on their way.
  AckHeard next(uint64_t in_flight, bool marked = false, Duration rtt = Duration::us(10)) {
    AckHeard ack;
    at += Duration::us(1);
    acked += kPacket;
    ack.at = at;
    ack.rtt = rtt;
    ack.acked = acked;
    ack.newly_acked = kPacket;
    ack.sent = acked + in_flight * kPacket;
    ack.marked = marked;
    return ack;
  }

  Time at;
  uint64_t acked = 0;
};

}  // namespace understudy
