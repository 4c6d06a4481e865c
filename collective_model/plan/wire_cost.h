// What messages cost on their ways: rate and latency of a hop, bytes on the wire.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"

namespace understudy {

/// The way from a rank to another one; credits and acknowledgements take it backwards and are
/// themselves charged its latency only.
struct Hop {
  Rate rate;
  Duration latency;  ///< one way
};

/// Bytes that a message takes of its links.
struct WireCost {
  uint32_t mtu = 4096;  ///< payload bytes per packet
  /// Every packet: Ethernet 14 + FCS 4 + preamble and gap 20, IPv4 20, UDP 8, BTH 12, ICRC 4.
  /// IPv6: 102. Each VLAN tag: 4 more.
  uint32_t overhead = 82;
  uint32_t first_extra = 16;  ///< RETH in a message's first packet
  uint32_t last_extra = 4;    ///< immediate in its last one
  /// What goes before each message on the same links, because a rank that sends receives as well:
  /// the acknowledgement and the credit of another message; zero where these have links of their
  /// own.
  uint32_t beside = 0;

  constexpr uint64_t packets(uint64_t size) const { return size == 0 ? 1 : (size + mtu - 1) / mtu; }
  constexpr uint64_t bytes(uint64_t size) const {
    return size + packets(size) * overhead + first_extra + last_extra + beside;
  }
};

/// Before all that happens: no constraint, yet safe to add delays to.
inline constexpr Time kLongBefore = Time::from_ps(-(int64_t{1} << 60));

}  // namespace understudy
