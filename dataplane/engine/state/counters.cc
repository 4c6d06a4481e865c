#include "dataplane/engine/state/counters.h"

namespace understudy {

const char* drop_name(Drop reason) {
  static constexpr std::array<const char*, static_cast<size_t>(Drop::kCount)> kNames = {
      "truncated",  "too_long",    "bad_ip",         "bad_tver",    "bad_opcode", "bad_pad",
      "bad_icrc",   "unknown_qpn", "wrong_address",  "wrong_pkey",  "wrong_vlan", "other_ethertype",
      "not_for_us", "no_buffer",   "host_ring_full", "fault",       "wrong_qkey", "control_busy",
      "queue_full", "link_loss",   "link_down",      "no_neighbour"};
  return kNames[static_cast<size_t>(reason)];
}

Drop drop_of(PacketLoss why) {
  switch (why) {
    case PacketLoss::kBuffer:
    case PacketLoss::kHeadroom:
      break;
    case PacketLoss::kLink:
      return Drop::kLinkLoss;
    case PacketLoss::kOutage:
    case PacketLoss::kNoRoute:
    case PacketLoss::kWatchdog:
      return Drop::kLinkDown;
  }
  return Drop::kQueueFull;
}

}  // namespace understudy
