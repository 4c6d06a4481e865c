// ARP, neighbour solicitation and ICMP echo requests for tests.
#pragma once

#include <cstring>
#include <vector>

#include "dataplane/wire/headers.h"
#include "tests/wire/frames.h"

namespace understudy {

/// Ethernet and, if given, VLAN header.
inline std::vector<uint8_t> l2(const MacAddress& dst, const MacAddress& src,
                               std::optional<uint16_t> tci, uint16_t type) {
  EthHeader eth;
  std::memcpy(eth.dst, dst.bytes.data(), 6);
  std::memcpy(eth.src, src.bytes.data(), 6);
  eth.type = tci ? kEtherVlan : type;
  std::vector<uint8_t> out(sizeof eth + (tci ? sizeof(VlanTag) : 0));
  std::memcpy(out.data(), &eth, sizeof eth);
  if (tci) {
    const VlanTag tag{*tci, type};
    std::memcpy(out.data() + sizeof eth, &tag, sizeof tag);
  }
  return out;
}

inline std::vector<uint8_t> arp_request(const IpAddress& from, const IpAddress& target,
                                        std::optional<uint16_t> tci = std::nullopt) {
  auto out = l2(MacAddress{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, kMacA, tci, kEtherArp);
  ArpHeader arp{};
  arp.hardware = 1;
  arp.protocol = kEtherIpv4;
  arp.hardware_size = 6;
  arp.protocol_size = 4;
  arp.operation = 1;
  std::memcpy(arp.sender_mac, kMacA.bytes.data(), 6);
  std::memcpy(arp.sender_ip, from.v4_data(), 4);
  std::memcpy(arp.target_ip, target.v4_data(), 4);
  const size_t at = out.size();
  out.resize(at + sizeof arp);
  std::memcpy(out.data() + at, &arp, sizeof arp);
  return out;
}

/// An IP packet with this body; the ICMP checksum at body[2] is filled in.
inline std::vector<uint8_t> icmp_frame(const RoceAddressing& a, std::vector<uint8_t> body) {
  const bool v6 = !a.dst.is_v4();
  const auto bytes = static_cast<uint32_t>(body.size());
  body[2] = body[3] = 0;
  const uint32_t start = v6 ? pseudo_header_sum(a.src, a.dst, kIpProtoIcmpv6, bytes) : 0;
  const uint16_t sum = checksum_finish(checksum_add(start, body.data(), bytes));
  body[2] = static_cast<uint8_t>(sum >> 8);
  body[3] = static_cast<uint8_t>(sum);
  std::vector<uint8_t> out(a.l2_bytes() + a.l3_bytes() + bytes);
  const uint32_t at = write_l2_l3(out.data(), a, v6 ? kIpProtoIcmpv6 : kIpProtoIcmp, bytes);
  std::copy(body.begin(), body.end(), out.begin() + at);
  return out;
}

inline std::vector<uint8_t> echo_request(const RoceAddressing& a, uint32_t payload = 56) {
  std::vector<uint8_t> body(8 + payload, 0x61);
  body[0] = a.dst.is_v4() ? 8 : 128;
  body[1] = 0;
  return icmp_frame(a, body);
}

/// From `a.src` to the solicited-node group of `target`.
inline std::vector<uint8_t> solicitation(RoceAddressing a, const IpAddress& target) {
  const uint8_t* t = target.data();
  a.dst_mac = MacAddress{{0x33, 0x33, 0xff, t[13], t[14], t[15]}};
  uint8_t group[16] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, t[13], t[14], t[15]};
  a.dst = IpAddress::v6_bytes(group);
  a.ttl = 255;
  std::vector<uint8_t> body(32);
  body[0] = 135;
  std::memcpy(body.data() + 8, t, 16);
  body[24] = 1;  // option: source link-layer address
  body[25] = 1;
  std::memcpy(body.data() + 26, a.src_mac.bytes.data(), 6);
  return icmp_frame(a, body);
}

/// True if an ICMP or ICMPv6 checksum of a frame is right.
inline bool icmp_checksum_ok(const FrameView& v) {
  const uint32_t bytes = v.ip_end - v.l4;
  const uint32_t start = v.v6 ? pseudo_header_sum(v.src, v.dst, kIpProtoIcmpv6, bytes) : 0;
  return checksum_finish(checksum_add(start, v.frame.data() + v.l4, bytes)) == 0;
}

}  // namespace understudy
