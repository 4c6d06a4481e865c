// Packed headers of everything the dataplane reads and writes. Bytes only; see rules A1, A3.
#pragma once

#include <cstdint>

#include "dataplane/base/big_endian.h"

namespace understudy {

inline constexpr uint16_t kEtherIpv4 = 0x0800;
inline constexpr uint16_t kEtherArp = 0x0806;
inline constexpr uint16_t kEtherVlan = 0x8100;
inline constexpr uint16_t kEtherQinQ = 0x88a8;
inline constexpr uint16_t kEtherIpv6 = 0x86dd;
inline constexpr uint16_t kEtherMacControl = 0x8808;
inline constexpr uint8_t kIpProtoIcmp = 1;
inline constexpr uint8_t kIpProtoTcp = 6;
inline constexpr uint8_t kIpProtoUdp = 17;
inline constexpr uint8_t kIpProtoIcmpv6 = 58;
inline constexpr uint16_t kRoceUdpPort = 4791;

struct EthHeader {
  uint8_t dst[6];
  uint8_t src[6];
  Be16 type;
};

struct VlanTag {
  Be16 tci;   ///< PCP 3 bits, DEI 1, VLAN id 12
  Be16 type;  ///< of what follows
};

struct Ipv4Header {
  uint8_t version_ihl;
  uint8_t tos;  ///< DSCP 6 bits, ECN 2
  Be16 total_length;
  Be16 id;
  Be16 fragment;  ///< flags 3 bits, offset 13
  uint8_t ttl;
  uint8_t protocol;
  Be16 checksum;
  uint8_t src[4];
  uint8_t dst[4];
};

struct Ipv6Header {
  Be32 version_class_flow;
  Be16 payload_length;
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t src[16];
  uint8_t dst[16];
};

struct UdpHeader {
  Be16 src_port;
  Be16 dst_port;
  Be16 length;
  Be16 checksum;
};

inline constexpr uint8_t kBthAckRequest = 0x80;

/// Base transport header, 12 bytes.
struct Bth {
  uint8_t opcode;
  uint8_t flags;  ///< SE 0x80, MigReq 0x40, pad 0x30, TVer 0x0f
  Be16 pkey;
  uint8_t fecn_becn;  ///< FECN 0x80, BECN 0x40, reserved 0x3f; masked in the ICRC
  Be24 dest_qpn;
  uint8_t ack_req;  ///< AckReq 0x80, reserved 0x7f
  Be24 psn;
};

struct Reth {
  Be64 va;
  Be32 rkey;
  Be32 length;
};

struct Aeth {
  uint8_t syndrome;
  Be24 msn;
};

struct AtomicEth {
  Be64 va;
  Be32 rkey;
  Be64 swap_add;
  Be64 compare;
};

struct Deth {
  Be32 qkey;
  uint8_t reserved;
  Be24 src_qpn;
};

struct ArpHeader {
  Be16 hardware;
  Be16 protocol;
  uint8_t hardware_size;
  uint8_t protocol_size;
  Be16 operation;  ///< 1 request, 2 reply
  uint8_t sender_mac[6];
  uint8_t sender_ip[4];
  uint8_t target_mac[6];
  uint8_t target_ip[4];
};

struct IcmpHeader {
  uint8_t type;
  uint8_t code;
  Be16 checksum;
  Be32 rest;
};

static_assert(sizeof(EthHeader) == 14 && sizeof(VlanTag) == 4 && sizeof(Ipv4Header) == 20);
static_assert(sizeof(Ipv6Header) == 40 && sizeof(UdpHeader) == 8 && sizeof(Bth) == 12);
static_assert(sizeof(Reth) == 16 && sizeof(Aeth) == 4 && sizeof(AtomicEth) == 28);
static_assert(sizeof(Deth) == 8 && sizeof(ArpHeader) == 28 && sizeof(IcmpHeader) == 8);

inline constexpr uint32_t kImmBytes = 4;
inline constexpr uint32_t kAtomicAckBytes = 8;
inline constexpr uint32_t kIethBytes = 4;
inline constexpr uint32_t kIcrcBytes = 4;
inline constexpr uint32_t kCnpPadBytes = 16;  ///< reserved bytes after a CNP's BTH (rule A6)
/// What a frame costs on the link beside its bytes: preamble and SFD 8, FCS 4, inter-packet gap 12.
inline constexpr uint32_t kEthernetOverheadBytes = 24;
inline constexpr uint32_t kMinFrameBytes = 60;  ///< without FCS; shorter frames are padded by MACs

/// Rule A1: low 15 bits equal, and at least one side is a full member.
constexpr bool pkey_matches(uint16_t a, uint16_t b) {
  return (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000) != 0;
}

/// Bytes that a frame (without FCS) takes of a link.
constexpr uint32_t wire_bytes(uint32_t frame_bytes) {
  return (frame_bytes < kMinFrameBytes ? kMinFrameBytes : frame_bytes) + kEthernetOverheadBytes;
}

}  // namespace understudy
