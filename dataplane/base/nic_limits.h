// What a NIC takes beside its link's rate. Nothing of it: an ideal NIC.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/units.h"

namespace understudy {

/// What keeps packets of a NIC apart, each direction by itself: a packet takes the longest of its
/// time on the wire and these.
struct PacketLimits {
  Duration least;  ///< of any packet: one over its packets a second
  Rate pcie;       ///< at which payload crosses PCIe
  constexpr auto operator<=>(const PacketLimits&) const = default;

  /// What of a packet does not cross it: as RoCEv2 over IPv4, with Ethernet's overhead of 24.
  static constexpr uint32_t kHeaders = 82;

  constexpr bool any() const { return least > Duration() || !pcie.is_unlimited(); }
  /// Of a packet of so many bytes as links count.
  constexpr Duration time_for(uint64_t wire_bytes) const {
    return std::max(least, pcie.time_for(wire_bytes > kHeaders ? wire_bytes - kHeaders : 0));
  }
};

/// At which packets of so many bytes follow each other over a wire of this rate.
constexpr Rate limited_rate(Rate rate, const PacketLimits& limits, uint64_t wire_bytes) {
  const Duration limit = limits.time_for(wire_bytes);
  if (limit <= Duration() || limit <= rate.time_for(wire_bytes)) return rate;
  return Rate::bits_per_second(wire_bytes * Rate::kPsBitsPerByte /
                               static_cast<uint64_t>(limit.ps()));
}

struct NicLimits {
  PacketLimits packets;
  Duration lead;       ///< from a program's post to the message's first bit in front of the link
  Duration tail;       ///< from a message's last bit, or its acknowledgement's, to the program
  Duration ack_delay;  ///< from a packet's last bit to its acknowledgement in front of the link
  uint16_t ack_every = 0;  ///< packets an acknowledgement; 0: as flows say
  /// What leaves a NIC stands in one queue, acknowledgements behind data, and so many packets of a
  /// queue pair are handed to it before their time. 0: each packet is chosen when the link is free,
  /// acknowledgements first.
  uint16_t ahead = 0;
  uint16_t again = 0;  ///< when so many of them are left the queue pair hands over more
  constexpr auto operator<=>(const NicLimits&) const = default;

  /// It delays messages or acknowledgements.
  constexpr bool delays() const {
    return lead > Duration() || tail > Duration() || ack_delay > Duration() || ack_every != 0;
  }
  constexpr bool any() const { return packets.any() || delays() || acks_wait(); }
  /// Acknowledgements queue behind data.
  constexpr bool acks_wait() const { return ahead != 0; }
};

}  // namespace understudy
