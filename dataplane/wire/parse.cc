#include "dataplane/wire/parse.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/icrc.h"

namespace understudy {
namespace {

/// Copies a header out of the frame; false when it does not fit before `end`.
template <typename T>
bool load(std::span<const uint8_t> frame, uint32_t at, uint32_t end, T& out) {
  if (at + sizeof(T) > end) return false;
  std::memcpy(&out, frame.data() + at, sizeof(T));
  return true;
}

FrameKind parse_ipv4(FrameView& v) {
  Ipv4Header ip;
  if (!load(v.frame, v.l3, static_cast<uint32_t>(v.frame.size()), ip)) return FrameKind::kTruncated;
  const uint32_t header = (ip.version_ihl & 0x0f) * 4u;
  if (ip.version_ihl >> 4 != 4 || header < sizeof ip) return FrameKind::kBadIp;
  v.ip_end = v.l3 + ip.total_length.get();
  if (v.ip_end > v.frame.size() || v.l3 + header > v.ip_end) return FrameKind::kTruncated;
  v.l4 = v.l3 + header;
  v.src = IpAddress::v4_bytes(ip.src);
  v.dst = IpAddress::v4_bytes(ip.dst);
  v.tos = ip.tos;
  v.ttl = ip.ttl;
  v.fragment = (ip.fragment.get() & 0x3fff) != 0;
  // The later fragments of a datagram carry no UDP header; they are somebody else's plain IP.
  v.protocol = (ip.fragment.get() & 0x1fff) != 0 ? 0 : ip.protocol;
  return FrameKind::kIp;
}

FrameKind parse_ipv6(FrameView& v) {
  Ipv6Header ip;
  if (!load(v.frame, v.l3, static_cast<uint32_t>(v.frame.size()), ip)) return FrameKind::kTruncated;
  const uint32_t first = ip.version_class_flow.get();
  if (first >> 28 != 6) return FrameKind::kBadIp;
  v.v6 = true;
  v.l4 = v.l3 + static_cast<uint32_t>(sizeof ip);
  v.ip_end = v.l4 + ip.payload_length.get();
  if (v.ip_end > v.frame.size()) return FrameKind::kTruncated;
  v.src = IpAddress::v6_bytes(ip.src);
  v.dst = IpAddress::v6_bytes(ip.dst);
  // Such an address is how we hold an IPv4 one; on the wire it may not appear (RFC 4942 2.2).
  if (v.src.is_v4() || v.dst.is_v4()) return FrameKind::kBadIp;
  v.tos = static_cast<uint8_t>(first >> 20);
  v.ttl = ip.hop_limit;
  v.protocol = ip.next_header;
  return FrameKind::kIp;
}

/// RoCEv2 allows neither IP options nor fragments (rule A1).
bool plain_ip(const FrameView& v) {
  return !v.fragment && v.l4 - v.l3 == (v.v6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header));
}

void read_extension_headers(std::span<const uint8_t> frame, uint32_t at, const OpcodeInfo& info,
                            RoceView& r) {
  auto take = [&]<typename T>(T& header) {
    std::memcpy(&header, frame.data() + at, sizeof header);
    at += static_cast<uint32_t>(sizeof header);
  };
  if (info.deth) {
    Deth h;
    take(h);
    r.qkey = h.qkey.get();
    r.src_qpn = h.src_qpn.get();
  }
  if (info.reth) {
    Reth h;
    take(h);
    r.va = h.va.get();
    r.rkey = h.rkey.get();
    r.dma_length = h.length.get();
  }
  if (info.atomic_eth) {
    AtomicEth h;
    take(h);
    r.va = h.va.get();
    r.rkey = h.rkey.get();
    r.swap_add = h.swap_add.get();
    r.compare = h.compare.get();
  }
  if (info.aeth) {
    Aeth h;
    take(h);
    r.syndrome = h.syndrome;
    r.msn = h.msn.get();
  }
  if (info.atomic_ack) {
    Be64 h;
    take(h);
    r.atomic_original = h.get();
  }
  if (info.imm || info.ieth) {
    Be32 h;
    take(h);
    r.imm = h.get();
  }
}

FrameKind parse_roce(const FrameView& v, RoceView& r) {
  const uint32_t bth_at = v.l4 + static_cast<uint32_t>(sizeof(UdpHeader));
  Bth bth;
  if (!load(v.frame, bth_at, v.ip_end, bth)) return FrameKind::kTruncated;
  r.bth = bth_at;
  r.opcode = bth.opcode;
  r.solicited = (bth.flags & 0x80) != 0;
  r.migration = (bth.flags & 0x40) != 0;
  r.pad = (bth.flags >> 4) & 3;
  r.pkey = bth.pkey.get();
  r.fecn = (bth.fecn_becn & 0x80) != 0;
  r.becn = (bth.fecn_becn & 0x40) != 0;
  r.dest_qpn = bth.dest_qpn.get();
  r.ack_request = (bth.ack_req & 0x80) != 0;
  r.psn = Psn(bth.psn.get());
  if ((bth.flags & 0x0f) != 0) return FrameKind::kBadTver;
  const OpcodeInfo& info = opcode_info(bth.opcode);
  if (info.name == nullptr) return FrameKind::kBadOpcode;
  const uint32_t headers_at = bth_at + static_cast<uint32_t>(sizeof bth);
  r.payload = headers_at + info.header_bytes;
  if (r.payload + kIcrcBytes > v.ip_end) return FrameKind::kTruncated;
  read_extension_headers(v.frame, headers_at, info, r);
  const uint32_t rest = v.ip_end - kIcrcBytes - r.payload;
  if (r.pad > rest) return FrameKind::kBadPad;
  r.payload_bytes = rest - r.pad;
  r.icrc = load_icrc(v.frame.data() + v.ip_end - kIcrcBytes);
  return FrameKind::kRoce;
}

}  // namespace

FrameKind parse_frame(std::span<const uint8_t> frame, FrameView& view, RoceView& roce) {
  view = FrameView{};
  view.frame = frame;
  const uint32_t size = static_cast<uint32_t>(frame.size());
  EthHeader eth;
  if (!load(frame, 0, size, eth)) return FrameKind::kTruncated;
  std::memcpy(view.dst_mac.bytes.data(), eth.dst, 6);
  std::memcpy(view.src_mac.bytes.data(), eth.src, 6);
  uint16_t type = eth.type.get();
  uint32_t at = sizeof eth;
  while ((type == kEtherVlan || type == kEtherQinQ) && view.vlans < 2) {
    VlanTag tag;
    if (!load(frame, at, size, tag)) return FrameKind::kTruncated;
    view.vlan[view.vlans++].tci = tag.tci.get();
    type = tag.type.get();
    at += static_cast<uint32_t>(sizeof tag);
  }
  view.ether_type = type;
  view.l3 = at;
  if (type == kEtherArp) {
    return at + sizeof(ArpHeader) <= size ? FrameKind::kArp : FrameKind::kTruncated;
  }
  if (type == kEtherMacControl && view.vlans == 0) return FrameKind::kMacControl;
  if (type != kEtherIpv4 && type != kEtherIpv6) return FrameKind::kOther;
  const FrameKind ip = type == kEtherIpv4 ? parse_ipv4(view) : parse_ipv6(view);
  if (ip != FrameKind::kIp || view.protocol != kIpProtoUdp) return ip;
  UdpHeader udp;
  if (!load(frame, view.l4, view.ip_end, udp)) return FrameKind::kTruncated;
  view.udp_src = udp.src_port.get();
  view.udp_dst = udp.dst_port.get();
  if (view.udp_dst != kRoceUdpPort) return FrameKind::kIp;
  if (!plain_ip(view)) return FrameKind::kBadIp;
  if (udp.length.get() != view.ip_end - view.l4) return FrameKind::kTruncated;
  roce = RoceView{};
  return parse_roce(view, roce);
}

bool icrc_ok(const FrameView& view, const RoceView& roce) {
  const auto covered = view.frame.subspan(view.l3, view.ip_end - kIcrcBytes - view.l3);
  return icrc(covered) == roce.icrc;
}

const char* frame_kind_name(FrameKind kind) {
  switch (kind) {
    case FrameKind::kRoce:
      return "roce";
    case FrameKind::kArp:
      return "arp";
    case FrameKind::kIp:
      return "ip";
    case FrameKind::kMacControl:
      return "mac_control";
    case FrameKind::kOther:
      return "other_ethertype";
    case FrameKind::kTruncated:
      return "truncated";
    case FrameKind::kBadIp:
      return "bad_ip";
    case FrameKind::kBadTver:
      return "bad_tver";
    case FrameKind::kBadOpcode:
      return "bad_opcode";
    case FrameKind::kBadPad:
      return "bad_pad";
  }
  return "?";
}

}  // namespace understudy
