// How emulated receivers tell senders of congestion (rule A6): by congestion notification packets.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/wire/build.h"

namespace understudy {

/// Defaults: NVIDIA's adapters (CNP_DSCP, CNP_802P_PRIO, MIN_TIME_BETWEEN_CNPS).
struct NotificationSettings {
  bool on = true;                       ///< false: marks are counted and nobody is told
  Duration interval = Duration::us(4);  ///< least time between the CNPs of one queue pair
  uint8_t traffic_class = 48 << 2;      ///< of CNPs: DSCP 48, not ECN-capable
  uint8_t pcp = 6;                      ///< of their tag, on a rail that has one
};

/// ECN 11: congestion was experienced on the way.
inline constexpr uint8_t kCongestionExperienced = 3;

inline bool marked(uint8_t tos) { return (tos & 3) == kCongestionExperienced; }

/// Transport fields of a CNP to queue pair `to`; 16 zero bytes follow (rule A6.3).
inline RoceFields cnp_fields(Qpn to, uint16_t pkey, bool migration) {
  RoceFields fields;
  fields.opcode = Opcode::kCnp;
  fields.becn = true;
  fields.dest_qpn = to;
  fields.pkey = pkey;
  fields.migration = migration;
  return fields;
}

}  // namespace understudy
