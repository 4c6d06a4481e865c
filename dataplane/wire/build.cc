#include "dataplane/wire/build.h"

#include <bit>
#include <cstring>

#include "dataplane/wire/icrc.h"

namespace understudy {
namespace {

uint32_t pad_of(uint32_t payload_bytes) { return (4 - payload_bytes % 4) % 4; }

template <typename T>
uint8_t* put(uint8_t* at, const T& header) {
  std::memcpy(at, &header, sizeof header);
  return at + sizeof header;
}

uint32_t transport_bytes(Opcode opcode, uint32_t payload_bytes) {
  return static_cast<uint32_t>(sizeof(UdpHeader) + sizeof(Bth)) + opcode_info(opcode).header_bytes +
         payload_bytes + pad_of(payload_bytes) + kIcrcBytes;
}

}  // namespace

uint32_t roce_frame_bytes(const RoceAddressing& addressing, Opcode opcode, uint32_t payload_bytes) {
  return addressing.l2_bytes() + addressing.l3_bytes() + transport_bytes(opcode, payload_bytes);
}

uint32_t roce_head_bytes(const RoceAddressing& addressing, Opcode opcode) {
  return roce_frame_bytes(addressing, opcode, 0) - kIcrcBytes;
}

uint32_t write_l2_l3(uint8_t* out, const RoceAddressing& a, uint8_t protocol, uint32_t l4_bytes) {
  EthHeader eth;
  std::memcpy(eth.dst, a.dst_mac.bytes.data(), 6);
  std::memcpy(eth.src, a.src_mac.bytes.data(), 6);
  const uint16_t ip_type = a.dst.is_v4() ? kEtherIpv4 : kEtherIpv6;
  eth.type = a.vlan_tci ? kEtherVlan : ip_type;
  uint8_t* at = put(out, eth);
  if (a.vlan_tci) at = put(at, VlanTag{*a.vlan_tci, ip_type});
  if (a.dst.is_v4()) {
    Ipv4Header ip{};
    ip.version_ihl = 0x45;
    ip.tos = a.traffic_class;
    ip.total_length = static_cast<uint16_t>(sizeof ip + l4_bytes);
    ip.fragment = 0x4000;  // DF; the id stays 0 so that the ICRC prefix can be cached (rule A1)
    ip.ttl = a.ttl;
    ip.protocol = protocol;
    std::memcpy(ip.src, a.src.v4_data(), 4);
    std::memcpy(ip.dst, a.dst.v4_data(), 4);
    ip.checksum = checksum_finish(checksum_add(0, reinterpret_cast<uint8_t*>(&ip), sizeof ip));
    at = put(at, ip);
  } else {
    Ipv6Header ip{};
    ip.version_class_flow = 0x60000000u | static_cast<uint32_t>(a.traffic_class) << 20;
    ip.payload_length = static_cast<uint16_t>(l4_bytes);
    ip.next_header = protocol;
    ip.hop_limit = a.ttl;
    std::memcpy(ip.src, a.src.data(), 16);
    std::memcpy(ip.dst, a.dst.data(), 16);
    at = put(at, ip);
  }
  return static_cast<uint32_t>(at - out);
}

uint8_t* begin_roce(uint8_t* out, const RoceAddressing& addressing, const RoceFields& f,
                    uint32_t payload_bytes) {
  const uint32_t l4_bytes = transport_bytes(f.opcode, payload_bytes);
  uint8_t* at = out + write_l2_l3(out, addressing, kIpProtoUdp, l4_bytes);
  at = put(at, UdpHeader{addressing.udp_src, kRoceUdpPort, static_cast<uint16_t>(l4_bytes), 0});
  Bth bth{};
  bth.opcode = static_cast<uint8_t>(f.opcode);
  bth.flags = static_cast<uint8_t>((f.solicited ? 0x80 : 0) | (f.migration ? 0x40 : 0) |
                                   pad_of(payload_bytes) << 4);
  bth.pkey = f.pkey;
  bth.fecn_becn = f.becn ? 0x40 : 0;
  bth.dest_qpn = f.dest_qpn;
  bth.ack_req = f.ack_request ? kBthAckRequest : 0;
  bth.psn = f.psn.value();
  at = put(at, bth);
  return put_extension_headers(at, f);
}

uint8_t* put_extension_headers(uint8_t* at, const RoceFields& f) {
  const OpcodeInfo& info = opcode_info(f.opcode);
  if (info.deth) at = put(at, Deth{f.qkey, 0, f.src_qpn});
  if (info.reth) at = put(at, Reth{f.va, f.rkey, f.dma_length});
  if (info.atomic_eth) at = put(at, AtomicEth{f.va, f.rkey, f.swap_add, f.compare});
  if (info.aeth) at = put(at, Aeth{f.syndrome, f.msn});
  if (info.atomic_ack) at = put(at, Be64(f.atomic_original));
  if (info.imm || info.ieth) at = put(at, Be32(f.imm));
  return at;
}

void finish_roce(uint8_t* out, const RoceAddressing& addressing, Opcode opcode,
                 uint32_t payload_bytes) {
  const uint32_t bytes = roce_frame_bytes(addressing, opcode, payload_bytes);
  const uint32_t crc_at = bytes - kIcrcBytes;
  std::memset(out + crc_at - pad_of(payload_bytes), 0, pad_of(payload_bytes));
  const uint32_t l3 = addressing.l2_bytes();
  store_icrc(out + crc_at, icrc({out + l3, crc_at - l3}));
}

void finish_payload(uint8_t* payload, uint32_t bytes, uint32_t crc) {
  const uint32_t pad = pad_of(bytes);
  std::memset(payload + bytes, 0, pad);
  store_icrc(payload + bytes + pad, icrc_go_on(crc, {payload, bytes + pad}));
}

void finish_payload_of_zeros(uint8_t* payload, uint32_t bytes, uint32_t crc) {
  const uint32_t pad = pad_of(bytes);
  std::memset(payload + bytes, 0, pad);
  store_icrc(payload + bytes + pad, icrc_after_zeros(crc, bytes + pad));
}

uint32_t checksum_add(uint32_t sum, const uint8_t* bytes, size_t size) {
  // Four bytes at a time, in the machine's own order: the sum does not depend on it (RFC 1071, 2B).
  uint64_t words = 0;
  size_t i = 0;
  for (uint32_t word; i + sizeof word <= size; i += sizeof word) {
    std::memcpy(&word, bytes + i, sizeof word);
    words += word;
  }
  while (words >> 16 != 0) words = (words & 0xffff) + (words >> 16);
  const auto folded = static_cast<uint16_t>(words);
  uint64_t s = uint64_t{sum} + std::bit_cast<Be16>(folded).get();
  for (; i + 1 < size; i += 2) s += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  if (size % 2 != 0) s += static_cast<uint32_t>(bytes[size - 1] << 8);
  while (s >> 16 != 0) s = (s & 0xffff) + (s >> 16);
  return static_cast<uint32_t>(s);
}

uint16_t checksum_finish(uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint32_t pseudo_header_sum(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                           uint32_t length) {
  const bool v4 = dst.is_v4();
  const size_t bytes = v4 ? 4 : 16;
  uint32_t sum = checksum_add(0, v4 ? src.v4_data() : src.data(), bytes);
  sum = checksum_add(sum, v4 ? dst.v4_data() : dst.data(), bytes);
  return checksum_add(sum + protocol + (length >> 16) + (length & 0xffff), nullptr, 0);
}

}  // namespace understudy
