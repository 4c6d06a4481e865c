// What messages cost on their ways: rate and latency of a hop, bytes on the wire.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/nic_limits.h"
#include "dataplane/base/units.h"

namespace understudy {

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

/// The way from a rank to another one; credits and acknowledgements take it backwards and are
/// themselves charged its latency only.
struct Hop {
  Rate rate;
  Duration latency;  ///< one way, from the sender's program to the receiver's
  // What NICs with delays of their own change (dataplane/base/nic_limits.h):
  Duration credit_more = {};  ///< a credit's latency, beyond `latency`
  Duration ack_more = {};     ///< both ways of an acknowledgement, beyond twice `latency`
  PacketLimits limits = {};   ///< of the connection's share of them
  constexpr auto operator<=>(const Hop&) const = default;

  constexpr Duration credit_latency() const { return latency + credit_more; }
  /// From a message's end on the wire until its sender knows that it has come in.
  constexpr Duration round_trip() const { return latency * 2 + ack_more; }
  /// NICs change more than its latency.
  constexpr bool is_uneven() const { return credit_more != Duration() || ack_more != Duration(); }
  /// Of a message on the wire.
  constexpr Duration time_for(const WireCost& wire, uint64_t size) const {
    if (!limits.any()) return rate.time_for(wire.bytes(size));
    const uint64_t packets = wire.packets(size), rest = size - (packets - 1) * wire.mtu;
    const auto packet = [&](uint64_t bytes) {
      return std::max(rate.time_for(bytes), limits.time_for(bytes));
    };
    const uint64_t full = wire.mtu + wire.overhead, last = rest + wire.overhead + wire.last_extra;
    const Duration beside =
        wire.beside == 0 ? Duration() : std::max(rate.time_for(wire.beside), limits.least * 2);
    if (packets == 1) return packet(last + wire.first_extra) + beside;
    return packet(full + wire.first_extra) + packet(full) * static_cast<int64_t>(packets - 2) +
           packet(last) + beside;
  }
};

/// Before all that happens: no constraint, yet safe to add delays to.
inline constexpr Time kLongBefore = Time::from_ps(-(int64_t{1} << 60));

}  // namespace understudy
