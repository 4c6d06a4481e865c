// Writes RoCEv2 frames: from addressing and transport fields to bytes with a valid ICRC.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/wire/headers.h"
#include "dataplane/wire/opcodes.h"

namespace understudy {

/// Link and network layer of every packet of one queue pair.
struct RoceAddressing {
  MacAddress src_mac, dst_mac;
  std::optional<uint16_t> vlan_tci;  ///< PCP, DEI and VLAN id
  IpAddress src, dst;                ///< of one family
  uint8_t traffic_class = 0;         ///< DSCP and ECN
  uint8_t ttl = 64;
  uint16_t udp_src = 0xc000;

  uint32_t l2_bytes() const { return sizeof(EthHeader) + (vlan_tci ? sizeof(VlanTag) : 0); }
  uint32_t l3_bytes() const { return dst.is_v4() ? sizeof(Ipv4Header) : sizeof(Ipv6Header); }
};

/// Transport fields of one packet. Extension headers are written as the opcode's table row says.
struct RoceFields {
  Opcode opcode = Opcode::kAcknowledge;
  bool solicited = false;
  bool migration = true;  ///< MigReq as real NICs send it (rule A1)
  bool ack_request = false;
  bool becn = false;
  uint16_t pkey = 0xffff;
  Qpn dest_qpn = 0;
  Psn psn;
  uint64_t va = 0;
  Rkey rkey = 0;
  uint32_t dma_length = 0;
  uint32_t imm =
      0;  ///< as a big-endian number; NCCL's little-endian sizes are swapped by the caller
  uint8_t syndrome = 0;
  uint32_t msn = 0;
  uint64_t swap_add = 0, compare = 0, atomic_original = 0;
  uint32_t qkey = 0;
  Qpn src_qpn = 0;
};

/// Bytes of the frame (without FCS) that carries `payload_bytes` under these headers.
uint32_t roce_frame_bytes(const RoceAddressing& addressing, Opcode opcode, uint32_t payload_bytes);

/// Bytes before its payload: at most kMostRoceHeadBytes.
uint32_t roce_head_bytes(const RoceAddressing& addressing, Opcode opcode);

/// With a VLAN tag, IPv6 and an AtomicETH.
inline constexpr uint32_t kMostRoceHeadBytes = 14 + 4 + 40 + 8 + 12 + 28;

/// Writes all headers to `out` (roce_frame_bytes() long) and returns where the payload goes.
uint8_t* begin_roce(uint8_t* out, const RoceAddressing& addressing, const RoceFields& fields,
                    uint32_t payload_bytes);
/// Writes the opcode's extension headers of `fields` to `at`; returns what is behind them.
uint8_t* put_extension_headers(uint8_t* at, const RoceFields& fields);
/// Pads the payload, which must be in place by now, and appends the ICRC (rule A2).
void finish_roce(uint8_t* out, const RoceAddressing& addressing, Opcode opcode,
                 uint32_t payload_bytes);
/// Pads `bytes` of payload at `payload` and appends the ICRC, which is `crc` up to there: see
/// HeadTemplate.
void finish_payload(uint8_t* payload, uint32_t bytes, uint32_t crc);
/// The same where they are zeros: they are not read.
void finish_payload_of_zeros(uint8_t* payload, uint32_t bytes, uint32_t crc);

/// Internet checksum (RFC 1071) of `bytes`, continued from `sum`; the result is not complemented.
uint32_t checksum_add(uint32_t sum, const uint8_t* bytes, size_t size);
uint16_t checksum_finish(uint32_t sum);
/// Internet checksum of an IPv4 or IPv6 pseudo header, to start a UDP, TCP or ICMPv6 sum with.
uint32_t pseudo_header_sum(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                           uint32_t length);

/// Writes Ethernet, VLAN and IP headers; returns the offset past them.
uint32_t write_l2_l3(uint8_t* out, const RoceAddressing& addressing, uint8_t protocol,
                     uint32_t l4_bytes);

}  // namespace understudy
