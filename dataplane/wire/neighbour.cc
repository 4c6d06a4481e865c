#include "dataplane/wire/neighbour.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/build.h"

namespace understudy {
namespace {

constexpr uint16_t kArpRequest = 1, kArpReply = 2;
constexpr uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr uint32_t kMessageBytes = 24;  // type, code, checksum, flags, target address
constexpr uint32_t kTargetAt = 8;
constexpr uint8_t kSourceOption = 1, kTargetOption = 2;  // a link-layer address
constexpr uint32_t kOptionBytes = 8;
/// RFC 4861 7.1: with another hop limit it came through a router.
constexpr uint8_t kHopLimit = 255;

ArpHeader arp_of(const FrameView& view) {
  ArpHeader arp;
  std::memcpy(&arp, view.frame.data() + view.l3, sizeof arp);
  return arp;
}

MacAddress mac_at(const uint8_t* six) {
  MacAddress mac;
  std::memcpy(mac.bytes.data(), six, mac.bytes.size());
  return mac;
}

bool is_discovery(const FrameView& view, uint8_t type) {
  return view.v6 && view.protocol == kIpProtoIcmpv6 && view.ip_end - view.l4 >= kMessageBytes &&
         view.frame[view.l4] == type;
}

IpAddress discovery_target(const FrameView& view) {
  return IpAddress::v6_bytes(view.frame.data() + view.l4 + kTargetAt);
}

/// The link-layer address in the option `type` of a discovery message.
std::optional<MacAddress> option_of(const FrameView& view, uint8_t type) {
  for (uint32_t at = view.l4 + kMessageBytes; at + kOptionBytes <= view.ip_end;) {
    const uint8_t* option = view.frame.data() + at;
    if (option[1] == 0) return std::nullopt;  // malformed: it would not end
    if (option[0] == type) return mac_at(option + 2);
    at += option[1] * kOptionBytes;
  }
  return std::nullopt;
}

std::optional<NeighbourNews> arp_news(const FrameView& view) {
  const ArpHeader arp = arp_of(view);
  const IpAddress sender = IpAddress::v4_bytes(arp.sender_ip);
  const MacAddress mac = mac_at(arp.sender_mac);
  if (arp.protocol.get() != kEtherIpv4 || sender.v4_value() == 0 || mac.is_multicast()) {
    return std::nullopt;
  }
  return NeighbourNews{sender, mac, IpAddress::v4_bytes(arp.target_ip)};
}

std::optional<NeighbourNews> discovery_news(const FrameView& view) {
  if (view.ttl != kHopLimit) return std::nullopt;
  const bool asks = is_discovery(view, kSolicitation);
  const auto mac = option_of(view, asks ? kSourceOption : kTargetOption);
  const IpAddress whose = asks ? view.src : discovery_target(view);
  if (!mac || mac->is_multicast() || whose.is_unset()) return std::nullopt;
  return NeighbourNews{whose, *mac, asks ? discovery_target(view) : view.dst};
}

uint32_t write_arp_question(const LinkEnd& asker, const IpAddress& own, const IpAddress& target,
                            uint8_t* out) {
  EthHeader eth;
  std::memset(eth.dst, 0xff, 6);
  std::memcpy(eth.src, asker.mac.bytes.data(), 6);
  eth.type = asker.vlan_tci ? kEtherVlan : kEtherArp;
  std::memset(out, 0, kMinFrameBytes);
  std::memcpy(out, &eth, sizeof eth);
  uint32_t at = sizeof eth;
  if (asker.vlan_tci) {
    const VlanTag tag{*asker.vlan_tci, kEtherArp};
    std::memcpy(out + at, &tag, sizeof tag);
    at += static_cast<uint32_t>(sizeof tag);
  }
  ArpHeader arp{};
  arp.hardware = 1;
  arp.protocol = kEtherIpv4;
  arp.hardware_size = 6;
  arp.protocol_size = 4;
  arp.operation = kArpRequest;
  std::memcpy(arp.sender_mac, asker.mac.bytes.data(), 6);
  std::memcpy(arp.sender_ip, own.v4_data(), 4);
  std::memcpy(arp.target_ip, target.v4_data(), 4);
  std::memcpy(out + at, &arp, sizeof arp);
  return std::max(at + static_cast<uint32_t>(sizeof arp), kMinFrameBytes);
}

/// A solicitation or advertisement with one option.
uint32_t write_discovery(const RoceAddressing& way, uint8_t type, uint8_t flags,
                         const IpAddress& target, uint8_t option, uint8_t* out) {
  constexpr uint32_t kBytes = kMessageBytes + kOptionBytes;
  const uint32_t at = write_l2_l3(out, way, kIpProtoIcmpv6, kBytes);
  uint8_t* icmp = out + at;
  std::memset(icmp, 0, kBytes);
  icmp[0] = type;
  icmp[4] = flags;
  std::memcpy(icmp + kTargetAt, target.data(), 16);
  icmp[kMessageBytes] = option;
  icmp[kMessageBytes + 1] = 1;  // in units of 8 bytes
  std::memcpy(icmp + kMessageBytes + 2, way.src_mac.bytes.data(), 6);
  set_icmp_checksum(icmp, kBytes, pseudo_header_sum(way.src, way.dst, kIpProtoIcmpv6, kBytes));
  return at + kBytes;
}

/// RFC 4861 7.2.2: to the solicited-node group of the target (RFC 4291 2.7.1), whose MAC follows
/// from the group (RFC 2464 7).
uint32_t write_solicitation(const LinkEnd& asker, const IpAddress& own, const IpAddress& target,
                            uint8_t* out) {
  const uint8_t* low = target.data() + 13;
  const uint8_t group[16] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, low[0], low[1], low[2]};
  RoceAddressing way;
  way.src_mac = asker.mac;
  way.dst_mac = MacAddress{{0x33, 0x33, 0xff, low[0], low[1], low[2]}};
  way.vlan_tci = asker.vlan_tci;
  way.src = own;
  way.dst = IpAddress::v6_bytes(group);
  way.ttl = kHopLimit;
  return write_discovery(way, kSolicitation, 0, target, kSourceOption, out);
}

uint32_t write_arp_answer(const FrameView& question, const MacAddress& mac, uint8_t* out) {
  const ArpHeader request = arp_of(question);
  std::memcpy(out, question.frame.data(), question.l3);  // keeps tags and Ethertype
  std::memcpy(out, request.sender_mac, 6);
  std::memcpy(out + 6, mac.bytes.data(), 6);
  ArpHeader reply = request;
  reply.operation = kArpReply;
  std::memcpy(reply.sender_mac, mac.bytes.data(), 6);
  std::memcpy(reply.sender_ip, request.target_ip, 4);
  std::memcpy(reply.target_mac, request.sender_mac, 6);
  std::memcpy(reply.target_ip, request.sender_ip, 4);
  std::memcpy(out + question.l3, &reply, sizeof reply);
  const uint32_t bytes = question.l3 + static_cast<uint32_t>(sizeof reply);
  if (bytes >= kMinFrameBytes) return bytes;
  std::memset(out + bytes, 0, kMinFrameBytes - bytes);
  return kMinFrameBytes;
}

/// RFC 4861 7.2.4: a solicited advertisement with the target's link-layer address.
uint32_t write_advertisement(const FrameView& question, const MacAddress& mac, uint8_t* out) {
  constexpr uint8_t kSolicitedOverride = 0x60;
  const IpAddress target = discovery_target(question);
  RoceAddressing way;
  way.src_mac = mac;
  way.dst_mac = question.src_mac;
  if (question.vlans > 0) way.vlan_tci = question.vlan[0].tci;
  way.src = target;
  way.dst = question.src;
  way.traffic_class = question.tos;
  way.ttl = kHopLimit;
  return write_discovery(way, kAdvertisement, kSolicitedOverride, target, kTargetOption, out);
}

}  // namespace

void set_icmp_checksum(uint8_t* icmp, uint32_t bytes, uint32_t start) {
  icmp[2] = icmp[3] = 0;
  const uint16_t sum = checksum_finish(checksum_add(start, icmp, bytes));
  icmp[2] = static_cast<uint8_t>(sum >> 8);
  icmp[3] = static_cast<uint8_t>(sum);
}

bool is_neighbour_frame(const FrameView& view) {
  return view.ether_type == kEtherArp || is_discovery(view, kSolicitation) ||
         is_discovery(view, kAdvertisement);
}

std::optional<IpAddress> solicited_address(const FrameView& view) {
  if (!is_discovery(view, kSolicitation)) return std::nullopt;
  return discovery_target(view);
}

std::optional<IpAddress> asked_address(const FrameView& view) {
  if (view.ether_type == kEtherArp) {
    const ArpHeader arp = arp_of(view);
    if (arp.operation.get() != kArpRequest || arp.protocol.get() != kEtherIpv4) return std::nullopt;
    return IpAddress::v4_bytes(arp.target_ip);
  }
  // Without a source it looks for duplicates of an address, of which there are none.
  if (view.ttl != kHopLimit || view.src.is_unset()) return std::nullopt;
  return solicited_address(view);
}

std::optional<NeighbourNews> neighbour_news(const FrameView& view) {
  if (!is_neighbour_frame(view)) return std::nullopt;
  return view.ether_type == kEtherArp ? arp_news(view) : discovery_news(view);
}

uint32_t write_neighbour_question(const LinkEnd& asker, const IpAddress& own,
                                  const IpAddress& target, uint8_t* out) {
  return target.is_v4() ? write_arp_question(asker, own, target, out)
                        : write_solicitation(asker, own, target, out);
}

uint32_t write_neighbour_answer(const FrameView& question, const MacAddress& mac, uint8_t* out) {
  return question.ether_type == kEtherArp ? write_arp_answer(question, mac, out)
                                          : write_advertisement(question, mac, out);
}

}  // namespace understudy
