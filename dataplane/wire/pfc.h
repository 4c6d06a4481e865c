// Frames of priority flow control (PFC): what stops the sender at the other end of a cable, one
// priority at a time. Bytes only.
//
// Rules (IEEE 802.3 annex 31D, IEEE 802.1Qbb): a MAC control frame, never tagged, to the multicast
// address 01-80-C2-00-00-01, which no bridge forwards; Ethertype 0x8808, opcode 0x0101; 16 bits of
// which the lower eight say for which priorities the frame speaks (bit n: priority n), the upper
// ones are zero; eight times of 16 bits, in quanta of 512 bits at the rate of the link, priority 0
// first: so long its sender pauses from now on, whatever it heard before, and zero lets it go on at
// once. Then zeros up to Ethernet's 64 bytes, FCS included. Times of other priorities are sent as
// zero and not looked at, nor are reserved bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dataplane/base/address.h"
#include "dataplane/base/units.h"
#include "dataplane/wire/headers.h"

namespace understudy {

inline constexpr MacAddress kPfcDestination{{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}};
inline constexpr unsigned kPfcPriorities = 8;
inline constexpr uint32_t kPfcFrameBytes = kMinFrameBytes;  ///< without FCS
/// Without padding: what a frame has to have.
inline constexpr uint32_t kPfcHeaderBytes = uint32_t{sizeof(EthHeader)} + 2 * (2 + kPfcPriorities);
inline constexpr uint16_t kMostPfcQuanta = 0xffff;

struct PfcFrame {
  MacAddress source;       ///< of the port that sends it
  uint8_t priorities = 0;  ///< bit set of those for which it speaks
  std::array<uint16_t, kPfcPriorities> quanta{};
};

/// How long `quanta` last on a link of this rate, which is not unlimited; rounded down to a ps.
constexpr Duration pfc_time(uint16_t quanta, Rate rate) {
  constexpr uint64_t kQuantumBytes = 512 / 8;
  return rate.time_for(quanta * kQuantumBytes);
}

/// Writes kPfcFrameBytes to `out`.
void write_pfc(const PfcFrame& frame, uint8_t* out);

/// False, and `out` is unspecified, if the frame (without FCS) is too short or another one than
/// PFC's: of plain PAUSE, tagged, or to another address.
bool parse_pfc(std::span<const uint8_t> frame, PfcFrame& out);

}  // namespace understudy
