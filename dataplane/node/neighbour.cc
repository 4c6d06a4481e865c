#include "dataplane/node/neighbour.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/build.h"

namespace understudy {
namespace {

constexpr uint8_t kEchoRequest4 = 8, kEchoReply4 = 0;
constexpr uint8_t kEchoRequest6 = 128, kEchoReply6 = 129;
constexpr uint8_t kNeighbourSolicitation = 135, kNeighbourAdvertisement = 136;
constexpr uint32_t kSolicitationBytes = 24;  // type, code, checksum, reserved, target address

template <typename T>
T load(const FrameView& view, uint32_t at) {
  T header;
  std::memcpy(&header, view.frame.data() + at, sizeof header);
  return header;
}

/// Addressing of an answer: the request's turned round, from the node's own MAC.
RoceAddressing answer_addressing(const FrameView& view, const NodeNic& node,
                                 const IpAddress& from) {
  RoceAddressing a;
  a.src_mac = node.mac;
  a.dst_mac = view.src_mac;
  if (view.vlans > 0) a.vlan_tci = view.vlan[0].tci;
  a.src = from;
  a.dst = view.src;
  a.traffic_class = view.tos;
  a.ttl = view.v6 ? 255 : 64;
  return a;
}

void set_icmp_checksum(uint8_t* icmp, uint32_t bytes, uint32_t start) {
  icmp[2] = icmp[3] = 0;
  const uint16_t sum = checksum_finish(checksum_add(start, icmp, bytes));
  icmp[2] = static_cast<uint8_t>(sum >> 8);
  icmp[3] = static_cast<uint8_t>(sum);
}

uint32_t answer_arp(const FrameView& view, const NodeNic& node, std::span<uint8_t> out) {
  const auto request = load<ArpHeader>(view, view.l3);
  std::memcpy(out.data(), view.frame.data(), view.l3);  // keeps tags and Ethertype
  std::memcpy(out.data(), request.sender_mac, 6);
  std::memcpy(out.data() + 6, node.mac.bytes.data(), 6);
  ArpHeader reply = request;
  reply.operation = 2;
  std::memcpy(reply.sender_mac, node.mac.bytes.data(), 6);
  std::memcpy(reply.sender_ip, request.target_ip, 4);
  std::memcpy(reply.target_mac, request.sender_mac, 6);
  std::memcpy(reply.target_ip, request.sender_ip, 4);
  std::memcpy(out.data() + view.l3, &reply, sizeof reply);
  const uint32_t bytes = view.l3 + static_cast<uint32_t>(sizeof reply);
  if (bytes >= kMinFrameBytes) return bytes;
  std::memset(out.data() + bytes, 0, kMinFrameBytes - bytes);
  return kMinFrameBytes;
}

uint32_t answer_echo(const FrameView& view, const NodeNic& node, std::span<uint8_t> out) {
  const uint32_t bytes = view.ip_end - view.l4;
  const RoceAddressing a = answer_addressing(view, node, view.dst);
  const uint32_t at = write_l2_l3(out.data(), a, view.protocol, bytes);
  uint8_t* icmp = out.data() + at;
  std::memcpy(icmp, view.frame.data() + view.l4, bytes);
  icmp[0] = view.v6 ? kEchoReply6 : kEchoReply4;
  const uint32_t start = view.v6 ? pseudo_header_sum(a.src, a.dst, kIpProtoIcmpv6, bytes) : 0;
  set_icmp_checksum(icmp, bytes, start);
  return at + bytes;
}

/// RFC 4861 7.2.4: a solicited advertisement with the target's link-layer address.
uint32_t answer_solicitation(const FrameView& view, const NodeNic& node, std::span<uint8_t> out) {
  constexpr uint32_t kBytes = kSolicitationBytes + 8;
  const IpAddress target = IpAddress::v6_bytes(view.frame.data() + view.l4 + 8);
  const RoceAddressing a = answer_addressing(view, node, target);
  const uint32_t at = write_l2_l3(out.data(), a, kIpProtoIcmpv6, kBytes);
  uint8_t* icmp = out.data() + at;
  std::memset(icmp, 0, kBytes);
  icmp[0] = kNeighbourAdvertisement;
  icmp[4] = 0x60;  // solicited, override
  std::memcpy(icmp + 8, target.data(), 16);
  icmp[24] = 2;  // option: target link-layer address, length 8
  icmp[25] = 1;
  std::memcpy(icmp + 26, node.mac.bytes.data(), 6);
  set_icmp_checksum(icmp, kBytes, pseudo_header_sum(a.src, a.dst, kIpProtoIcmpv6, kBytes));
  return at + kBytes;
}

uint32_t ask_by_arp(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                    uint8_t* out) {
  EthHeader eth;
  std::memset(eth.dst, 0xff, 6);
  std::memcpy(eth.src, node.mac.bytes.data(), 6);
  eth.type = node.vlan_tci ? kEtherVlan : kEtherArp;
  std::memset(out, 0, kMinFrameBytes);
  std::memcpy(out, &eth, sizeof eth);
  uint32_t at = sizeof eth;
  if (node.vlan_tci) {
    const VlanTag tag{*node.vlan_tci, kEtherArp};
    std::memcpy(out + at, &tag, sizeof tag);
    at += static_cast<uint32_t>(sizeof tag);
  }
  ArpHeader arp{};
  arp.hardware = 1;
  arp.protocol = kEtherIpv4;
  arp.hardware_size = 6;
  arp.protocol_size = 4;
  arp.operation = 1;
  std::memcpy(arp.sender_mac, node.mac.bytes.data(), 6);
  std::memcpy(arp.sender_ip, own.v4_data(), 4);
  std::memcpy(arp.target_ip, target.v4_data(), 4);
  std::memcpy(out + at, &arp, sizeof arp);
  return std::max(at + static_cast<uint32_t>(sizeof arp), kMinFrameBytes);
}

/// RFC 4861 7.2.2: to the solicited-node group of the target (RFC 4291 2.7.1), whose MAC follows
/// from the group (RFC 2464 7).
uint32_t ask_by_solicitation(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                             uint8_t* out) {
  constexpr uint32_t kBytes = kSolicitationBytes + 8;
  const uint8_t* low = target.data() + 13;
  const uint8_t group[16] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, low[0], low[1], low[2]};
  RoceAddressing a;
  a.src_mac = node.mac;
  a.dst_mac = MacAddress{{0x33, 0x33, 0xff, low[0], low[1], low[2]}};
  a.vlan_tci = node.vlan_tci;
  a.src = own;
  a.dst = IpAddress::v6_bytes(group);
  a.ttl = 255;
  const uint32_t at = write_l2_l3(out, a, kIpProtoIcmpv6, kBytes);
  uint8_t* icmp = out + at;
  std::memset(icmp, 0, kBytes);
  icmp[0] = kNeighbourSolicitation;
  std::memcpy(icmp + 8, target.data(), 16);
  icmp[24] = 1;  // option: source link-layer address, length 8
  icmp[25] = 1;
  std::memcpy(icmp + 26, node.mac.bytes.data(), 6);
  set_icmp_checksum(icmp, kBytes, pseudo_header_sum(a.src, a.dst, kIpProtoIcmpv6, kBytes));
  return at + kBytes;
}

const NodeNic* emulated(const NodeTable& nodes, const IpAddress& address) {
  const NodeNic* nic = nodes.find(address);
  return nic != nullptr && !nic->real ? nic : nullptr;
}

}  // namespace

IpAddress frame_target(const FrameView& view) {
  if (view.ether_type == kEtherArp) {
    return IpAddress::v4_bytes(load<ArpHeader>(view, view.l3).target_ip);
  }
  const bool solicits = view.v6 && view.protocol == kIpProtoIcmpv6 &&
                        view.ip_end - view.l4 >= kSolicitationBytes &&
                        view.frame[view.l4] == kNeighbourSolicitation;
  return solicits ? IpAddress::v6_bytes(view.frame.data() + view.l4 + 8) : view.dst;
}

NeighbourQuery neighbour_query(const FrameView& view, const NodeTable& nodes,
                               const NodeNic*& node) {
  node = nullptr;
  if (view.ether_type == kEtherArp) {
    const auto arp = load<ArpHeader>(view, view.l3);
    if (arp.operation.get() != 1 || arp.protocol.get() != kEtherIpv4) return NeighbourQuery::kNone;
    node = emulated(nodes, IpAddress::v4_bytes(arp.target_ip));
    return node != nullptr ? NeighbourQuery::kArp : NeighbourQuery::kNone;
  }
  const uint32_t bytes = view.ip_end - view.l4;
  // An echo in fragments is for the kernel, which can put them together.
  if (bytes < sizeof(IcmpHeader) || view.fragment) return NeighbourQuery::kNone;
  const uint8_t type = view.frame[view.l4];
  if (view.v6 && view.protocol == kIpProtoIcmpv6) {
    // RFC 4861 7.1.1: with another hop limit it came through a router. Without a source it looks
    // for duplicates of an address, of which there are none.
    if (type == kNeighbourSolicitation && bytes >= kSolicitationBytes && view.ttl == 255 &&
        !view.src.is_unset()) {
      node = emulated(nodes, IpAddress::v6_bytes(view.frame.data() + view.l4 + 8));
      return node != nullptr ? NeighbourQuery::kSolicitation : NeighbourQuery::kNone;
    }
    if (type == kEchoRequest6) node = emulated(nodes, view.dst);
  } else if (!view.v6 && view.protocol == kIpProtoIcmp && type == kEchoRequest4) {
    node = emulated(nodes, view.dst);
  }
  return node != nullptr ? NeighbourQuery::kEcho : NeighbourQuery::kNone;
}

IpAddress arp_sender(const FrameView& view) {
  return IpAddress::v4_bytes(load<ArpHeader>(view, view.l3).sender_ip);
}

uint32_t ask_neighbour(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                       uint8_t* out) {
  return target.is_v4() ? ask_by_arp(node, own, target, out)
                        : ask_by_solicitation(node, own, target, out);
}

uint32_t answer_neighbour(NeighbourQuery query, const FrameView& view, const NodeNic& node,
                          std::span<uint8_t> out) {
  if (out.size() < view.frame.size() + 32) return 0;
  switch (query) {
    case NeighbourQuery::kArp:
      return answer_arp(view, node, out);
    case NeighbourQuery::kSolicitation:
      return answer_solicitation(view, node, out);
    case NeighbourQuery::kEcho:
      return answer_echo(view, node, out);
    case NeighbourQuery::kNone:
      break;
  }
  return 0;
}

}  // namespace understudy
