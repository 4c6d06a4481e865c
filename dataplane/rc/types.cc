#include "dataplane/rc/types.h"

namespace understudy {

Duration rnr_delay(uint8_t code) {
  static constexpr std::array<int64_t, 32> kMicroseconds = {
      655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
      480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
      20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
  return Duration::us(kMicroseconds[code & 31]);
}

const char* qp_state_name(QpState state) {
  static constexpr std::array<const char*, 7> kNames = {"RESET", "INIT", "RTR",  "RTS",
                                                        "SQD",   "SQE",  "ERROR"};
  return kNames[static_cast<size_t>(state)];
}

const char* rc_event_name(RcEvent event) {
  static constexpr std::array<const char*, static_cast<size_t>(RcEvent::kCount)> kNames = {
      "duplicate_request", "psn_gap",           "nak_sent",      "rnr_sent",    "nak_received",
      "rnr_received",      "timeout",           "retransmit",    "ghost_ack",   "invalid_request",
      "remote_access",     "length_error",      "implied_nak",   "qp_error",    "ack_sent",
      "ack_received",      "duplicate_dropped", "wrong_service", "wrong_state", "invalidated",
      "message_dropped"};
  return kNames[static_cast<size_t>(event)];
}

}  // namespace understudy
