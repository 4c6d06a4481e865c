// From a frame's bytes to a view of its fields. Never reads past the frame, never allocates.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/opcodes.h"

namespace understudy {

/// What a frame turned out to be. Everything from kTruncated on is dropped and counted by reason.
enum class FrameKind : uint8_t {
  kRoce,        ///< RoCEv2 packet, all headers present
  kArp,         ///< ARP for IPv4 over Ethernet
  kIp,          ///< any other IP packet (ICMP, ND, TCP ...)
  kMacControl,  ///< PAUSE and its like, between the ends of a cable (pfc.h)
  kOther,       ///< an Ethertype we do not speak
  kTruncated,   ///< a header, or the length a header states, reaches past the frame
  kBadIp,       ///< IP version, options or fragment where RoCE allows none (rule A1)
  kBadTver,     ///< BTH transport version not 0 (rule A1)
  kBadOpcode,   ///< opcode that no table row knows
  kBadPad,      ///< pad count larger than the payload
};
const char* frame_kind_name(FrameKind kind);

struct VlanId {
  uint16_t tci = 0;
  uint16_t vid() const { return tci & 0xfff; }
  uint8_t pcp() const { return static_cast<uint8_t>(tci >> 13); }
};

/// Link and network layer of a frame; valid for kRoce, kArp and kIp.
struct FrameView {
  std::span<const uint8_t> frame;
  MacAddress src_mac, dst_mac;
  uint8_t vlans = 0;        ///< number of tags, 0..2
  VlanId vlan[2];           ///< outermost first
  uint16_t ether_type = 0;  ///< after the tags
  uint32_t l3 = 0;          ///< offset of the IP or ARP header
  bool v6 = false;
  IpAddress src, dst;
  uint8_t tos = 0;  ///< traffic class: DSCP and ECN
  uint8_t ttl = 0;
  uint8_t protocol = 0;   ///< 0 for an IPv4 fragment but the first
  bool fragment = false;  ///< IPv4: part of a datagram
  uint32_t l4 = 0;        ///< offset of what follows the IP header
  uint32_t ip_end = 0;    ///< offset just past the IP packet (frames may be padded)
  uint16_t udp_src = 0, udp_dst = 0;
};

/// A RoCEv2 packet: host-order values of its headers.
struct RoceView {
  uint8_t opcode = 0;
  bool solicited = false, migration = false, ack_request = false, fecn = false, becn = false;
  uint8_t pad = 0;
  uint16_t pkey = 0;
  Qpn dest_qpn = 0;
  Psn psn;
  uint64_t va = 0;  ///< RETH or AtomicETH
  Rkey rkey = 0;
  uint32_t dma_length = 0;  ///< RETH
  uint32_t imm = 0;         ///< immediate as big-endian number; also the R_Key of an IETH
  uint8_t syndrome = 0;     ///< AETH
  uint32_t msn = 0;
  uint64_t swap_add = 0, compare = 0, atomic_original = 0;
  uint32_t qkey = 0;
  Qpn src_qpn = 0;             ///< DETH
  uint32_t bth = 0;            ///< offset of the BTH in the frame
  uint32_t payload = 0;        ///< offset of the payload in the frame
  uint32_t payload_bytes = 0;  ///< without pad and ICRC
  uint32_t icrc = 0;           ///< as received

  const OpcodeInfo& info() const { return opcode_info(opcode); }
};

/// Parses one Ethernet frame (without FCS). `view` is filled as far as the parse came; `roce` only
/// for kRoce. The ICRC is not verified: see icrc_ok().
FrameKind parse_frame(std::span<const uint8_t> frame, FrameView& view, RoceView& roce);

/// Whether `frame` is another packet of a stream: without a VLAN tag, over IPv4, as long as one
/// that parse_frame() found to be kRoce and without extension headers, and with its very headers,
/// but for the PSN, IPv4's identification, and the checksums that RoCE does not look at.
bool differs_by_psn_only(std::span<const uint8_t> frame, const FrameView& view,
                         const RoceView& roce);
/// Of such a frame.
Psn psn_in(std::span<const uint8_t> frame);

/// Recomputes the ICRC of a parsed RoCE packet (rule A2).
bool icrc_ok(const FrameView& view, const RoceView& roce);
/// The same with what is known of packets before it.
bool icrc_ok(const FrameView& view, const RoceView& roce, IcrcMemory& before);
/// The same of a `frame` that differs from the parsed one by its PSN only.
bool icrc_ok(std::span<const uint8_t> frame, const FrameView& view, const RoceView& roce,
             IcrcMemory& before);

}  // namespace understudy
