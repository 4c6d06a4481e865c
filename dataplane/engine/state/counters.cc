#include "dataplane/engine/state/counters.h"

namespace understudy {

const char* drop_name(Drop reason) {
  static constexpr std::array<const char*, static_cast<size_t>(Drop::kCount)> kNames = {
      "truncated",  "too_long",        "bad_ip",       "bad_tver",      "bad_opcode",
      "bad_pad",    "bad_icrc",        "unknown_qpn",  "wrong_address", "wrong_pkey",
      "wrong_vlan", "other_ethertype", "not_for_us",   "no_buffer",     "host_ring_full",
      "fault",      "wrong_qkey",      "control_busy", "queue_full",    "link_loss",
      "link_down",  "no_neighbour",    "no_route",     "pfc_watchdog"};
  return kNames[static_cast<size_t>(reason)];
}

Drop drop_of(PacketLoss why) {
  if (why == PacketLoss::kLink) return Drop::kLinkLoss;
  if (why == PacketLoss::kNoRoute) return Drop::kNoRoute;
  if (why == PacketLoss::kWatchdog) return Drop::kWatchdog;
  return why == PacketLoss::kOutage ? Drop::kLinkDown : Drop::kQueueFull;
}

}  // namespace understudy
