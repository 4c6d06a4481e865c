// What congestion and faults change in a finished frame: its ECN bits, and single bits of what it
// carries.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/engine/state/packet_pool.h"

namespace understudy {

/// Sets ECN 11, as congestion marks a packet (RFC 3168), in IPv4 or IPv6. The ICRC leaves these
/// bits out.
void mark_frame(std::span<uint8_t> frame);

/// Changes one bit of a RoCE frame that has been parsed: of its payload, or, without one, of the
/// headers behind its BTH. `damage` says which. With `good_icrc` the ICRC is computed anew.
void damage_frame(std::span<uint8_t> frame, const FrameView& view, const RoceView& roce,
                  uint64_t damage, bool good_icrc);
/// The same of the frame that is built for `packet`; its ICRC stays.
void damage_built(const Packet& packet, uint8_t* frame);
/// Puts a datagram's mark and damage into its frame, where it has been built already.
void rebuild_datagram(const Packet& packet, uint8_t* frame);

}  // namespace understudy
