#include "dataplane/node/neighbour.h"

#include <cstring>

#include "dataplane/wire/build.h"

namespace understudy {
namespace {

constexpr uint8_t kEchoRequest4 = 8, kEchoReply4 = 0;
constexpr uint8_t kEchoRequest6 = 128, kEchoReply6 = 129;

template <typename T>
T load(const FrameView& view, uint32_t at) {
  T header;
  std::memcpy(&header, view.frame.data() + at, sizeof header);
  return header;
}

/// Addressing of an answer: the request's turned round, from the node's own MAC.
RoceAddressing answer_addressing(const FrameView& view, const NodeNic& node) {
  RoceAddressing a;
  a.src_mac = node.mac;
  a.dst_mac = view.src_mac;
  if (view.vlans > 0) a.vlan_tci = view.vlan[0].tci;
  a.src = view.dst;
  a.dst = view.src;
  a.traffic_class = view.tos;
  a.ttl = view.v6 ? 255 : 64;
  return a;
}

uint32_t answer_echo(const FrameView& view, const NodeNic& node, std::span<uint8_t> out) {
  const uint32_t bytes = view.ip_end - view.l4;
  const RoceAddressing a = answer_addressing(view, node);
  const uint32_t at = write_l2_l3(out.data(), a, view.protocol, bytes);
  uint8_t* icmp = out.data() + at;
  std::memcpy(icmp, view.frame.data() + view.l4, bytes);
  icmp[0] = view.v6 ? kEchoReply6 : kEchoReply4;
  const uint32_t start = view.v6 ? pseudo_header_sum(a.src, a.dst, kIpProtoIcmpv6, bytes) : 0;
  set_icmp_checksum(icmp, bytes, start);
  return at + bytes;
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
  return solicited_address(view).value_or(view.dst);
}

NeighbourQuery neighbour_query(const FrameView& view, const NodeTable& nodes,
                               const NodeNic*& node) {
  node = nullptr;
  const bool arp = view.ether_type == kEtherArp;
  if (const auto asked = asked_address(view)) {
    node = emulated(nodes, *asked);
    if (node == nullptr) return NeighbourQuery::kNone;
    return arp ? NeighbourQuery::kArp : NeighbourQuery::kSolicitation;
  }
  // An echo in fragments is for the kernel, which can put them together.
  if (arp || view.ip_end - view.l4 < sizeof(IcmpHeader) || view.fragment) {
    return NeighbourQuery::kNone;
  }
  const uint8_t type = view.frame[view.l4];
  const bool echo = view.v6 ? view.protocol == kIpProtoIcmpv6 && type == kEchoRequest6
                            : view.protocol == kIpProtoIcmp && type == kEchoRequest4;
  if (echo) node = emulated(nodes, view.dst);
  return node != nullptr ? NeighbourQuery::kEcho : NeighbourQuery::kNone;
}

IpAddress arp_sender(const FrameView& view) {
  return IpAddress::v4_bytes(load<ArpHeader>(view, view.l3).sender_ip);
}

uint32_t ask_neighbour(const NodeNic& node, const IpAddress& own, const IpAddress& target,
                       uint8_t* out) {
  return write_neighbour_question({node.mac, node.vlan_tci}, own, target, out);
}

uint32_t answer_neighbour(NeighbourQuery query, const FrameView& view, const NodeNic& node,
                          std::span<uint8_t> out) {
  if (out.size() < view.frame.size() + 32) return 0;
  switch (query) {
    case NeighbourQuery::kArp:
    case NeighbourQuery::kSolicitation:
      return write_neighbour_answer(view, node.mac, out.data());
    case NeighbourQuery::kEcho:
      return answer_echo(view, node, out);
    case NeighbourQuery::kNone:
      break;
  }
  return 0;
}

}  // namespace understudy
