// ARP and neighbour discovery (RFC 826, RFC 4861): questions for a MAC, answers to them, and what
// both say of who sent them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// Who speaks on a link.
struct LinkEnd {
  MacAddress mac;
  std::optional<uint16_t> vlan_tci;  ///< of its frames
};

/// Room that each of these frames needs, in bytes.
inline constexpr uint32_t kNeighbourFrameBytes = 96;

/// What one of these frames says.
struct NeighbourNews {
  IpAddress address;  ///< has ...
  MacAddress mac;     ///< ... this MAC
  IpAddress told;     ///< who is asked or answered
};

/// Whether it is ARP for IPv4, a neighbour solicitation or an advertisement.
bool is_neighbour_frame(const FrameView& view);
/// Whom a neighbour solicitation asks for, well-formed or not; nothing for other frames.
std::optional<IpAddress> solicited_address(const FrameView& view);
/// Whom a request of ARP or a solicitation asks for, if it is to be answered.
std::optional<IpAddress> asked_address(const FrameView& view);
/// What the frame says of its sender; nothing where it says nothing that may be believed.
std::optional<NeighbourNews> neighbour_news(const FrameView& view);

/// Writes to `out` (kNeighbourFrameBytes) the question of `asker`, whose address is `own`, for the
/// MAC of `target`, of the same family. Returns its length in bytes.
uint32_t write_neighbour_question(const LinkEnd& asker, const IpAddress& own,
                                  const IpAddress& target, uint8_t* out);
/// Writes the answer to a frame that asked_address() knows, from the owner of `mac`. VLANs mirror
/// the question. `out` has kNeighbourFrameBytes.
uint32_t write_neighbour_answer(const FrameView& question, const MacAddress& mac, uint8_t* out);

/// Writes the checksum of an ICMP or ICMPv6 message of `bytes`; `start` is the sum of the pseudo
/// header, where it has one.
void set_icmp_checksum(uint8_t* icmp, uint32_t bytes, uint32_t start);

}  // namespace understudy
