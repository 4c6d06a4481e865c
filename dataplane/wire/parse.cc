#include "dataplane/wire/parse.h"

#include <algorithm>
#include <array>
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

/// Where the IP header ends and what follows it. Handed on in registers: what is written to a view
/// and read again at once costs more than the rest of the parse.
struct Network {
  FrameKind kind = FrameKind::kIp;  ///< else a reason to drop the frame
  bool plain = false;               ///< RoCEv2 allows neither IP options nor fragments (rule A1)
  uint8_t protocol = 0;             ///< 0 for an IPv4 fragment but the first
  uint32_t l4 = 0, end = 0;
};

[[gnu::always_inline]] inline Network parse_ipv4(std::span<const uint8_t> frame, uint32_t l3,
                                                 FrameView& v) {
  const auto size = static_cast<uint32_t>(frame.size());
  Ipv4Header ip;
  if (!load(frame, l3, size, ip)) return {.kind = FrameKind::kTruncated};
  const uint32_t header = (ip.version_ihl & 0x0f) * 4u;
  if (ip.version_ihl >> 4 != 4 || header < sizeof ip) return {.kind = FrameKind::kBadIp};
  const uint32_t end = l3 + ip.total_length.get();
  v.ip_end = end;
  if (end > size || l3 + header > end) return {.kind = FrameKind::kTruncated};
  const uint16_t fragment = ip.fragment.get();
  v.l4 = l3 + header;
  v.src = IpAddress::v4_bytes(ip.src);
  v.dst = IpAddress::v4_bytes(ip.dst);
  v.tos = ip.tos;
  v.ttl = ip.ttl;
  v.fragment = (fragment & 0x3fff) != 0;
  // The later fragments of a datagram carry no UDP header; they are somebody else's plain IP.
  const uint8_t protocol = (fragment & 0x1fff) != 0 ? 0 : ip.protocol;
  v.protocol = protocol;
  const bool plain = (fragment & 0x3fff) == 0 && header == sizeof ip;
  return {FrameKind::kIp, plain, protocol, l3 + header, end};
}

[[gnu::always_inline]] inline Network parse_ipv6(std::span<const uint8_t> frame, uint32_t l3,
                                                 FrameView& v) {
  const auto size = static_cast<uint32_t>(frame.size());
  Ipv6Header ip;
  if (!load(frame, l3, size, ip)) return {.kind = FrameKind::kTruncated};
  const uint32_t first = ip.version_class_flow.get();
  if (first >> 28 != 6) return {.kind = FrameKind::kBadIp};
  const uint32_t l4 = l3 + static_cast<uint32_t>(sizeof ip);
  const uint32_t end = l4 + ip.payload_length.get();
  v.v6 = true;
  v.l4 = l4;
  v.ip_end = end;
  if (end > size) return {.kind = FrameKind::kTruncated};
  v.src = IpAddress::v6_bytes(ip.src);
  v.dst = IpAddress::v6_bytes(ip.dst);
  // Such an address is how we hold an IPv4 one; on the wire it may not appear (RFC 4942 2.2).
  if (v.src.is_v4() || v.dst.is_v4()) return {.kind = FrameKind::kBadIp};
  v.tos = static_cast<uint8_t>(first >> 20);
  v.ttl = ip.hop_limit;
  v.protocol = ip.next_header;
  return {FrameKind::kIp, true, ip.next_header, l4, end};
}

[[gnu::always_inline]] inline void read_extension_headers(std::span<const uint8_t> frame,
                                                          uint32_t at, const OpcodeInfo& info,
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

[[gnu::always_inline]] inline FrameKind parse_roce(std::span<const uint8_t> frame,
                                                   const Network& network, RoceView& r) {
  const uint32_t bth_at = network.l4 + static_cast<uint32_t>(sizeof(UdpHeader));
  Bth bth;
  if (!load(frame, bth_at, network.end, bth)) return FrameKind::kTruncated;
  r.bth = bth_at;
  r.opcode = bth.opcode;
  r.solicited = (bth.flags & 0x80) != 0;
  r.migration = (bth.flags & 0x40) != 0;
  const uint32_t pad = (bth.flags >> 4) & 3;
  r.pad = static_cast<uint8_t>(pad);
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
  const uint32_t payload = headers_at + info.header_bytes;
  r.payload = payload;
  if (payload + kIcrcBytes > network.end) return FrameKind::kTruncated;
  read_extension_headers(frame, headers_at, info, r);
  const uint32_t rest = network.end - kIcrcBytes - payload;
  if (pad > rest) return FrameKind::kBadPad;
  r.payload_bytes = rest - pad;
  r.icrc = load_icrc(frame.data() + network.end - kIcrcBytes);
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
  uint8_t vlans = 0;
  while ((type == kEtherVlan || type == kEtherQinQ) && vlans < 2) {
    VlanTag tag;
    if (!load(frame, at, size, tag)) return FrameKind::kTruncated;
    view.vlan[vlans++].tci = tag.tci.get();
    view.vlans = vlans;
    type = tag.type.get();
    at += static_cast<uint32_t>(sizeof tag);
  }
  view.ether_type = type;
  view.l3 = at;
  if (type == kEtherArp) {
    return at + sizeof(ArpHeader) <= size ? FrameKind::kArp : FrameKind::kTruncated;
  }
  if (type == kEtherMacControl && vlans == 0) return FrameKind::kMacControl;
  if (type != kEtherIpv4 && type != kEtherIpv6) return FrameKind::kOther;
  const Network network =
      type == kEtherIpv4 ? parse_ipv4(frame, at, view) : parse_ipv6(frame, at, view);
  if (network.kind != FrameKind::kIp || network.protocol != kIpProtoUdp) return network.kind;
  UdpHeader udp;
  if (!load(frame, network.l4, network.end, udp)) return FrameKind::kTruncated;
  const uint16_t port = udp.dst_port.get();
  view.udp_src = udp.src_port.get();
  view.udp_dst = port;
  if (port != kRoceUdpPort) return FrameKind::kIp;
  if (!network.plain) return FrameKind::kBadIp;
  if (udp.length.get() != network.end - network.l4) return FrameKind::kTruncated;
  roce = RoceView{};
  return parse_roce(frame, network, roce);
}

namespace {

constexpr size_t kPlainBth = sizeof(EthHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
constexpr size_t kPlainHead = kPlainBth + sizeof(Bth);
constexpr size_t kPsnBytes = 3;

/// What is alike in all packets of a stream.
constexpr std::array<uint8_t, kPlainHead> stream_mask() {
  std::array<uint8_t, kPlainHead> m;
  m.fill(0xff);
  constexpr size_t ip = sizeof(EthHeader);
  m[ip + 4] = m[ip + 5] = 0;                // identification
  m[ip + 10] = m[ip + 11] = 0;              // header checksum
  m[kPlainBth - 2] = m[kPlainBth - 1] = 0;  // UDP checksum
  for (size_t i = 1; i <= kPsnBytes; ++i) m[kPlainHead - i] = 0;
  return m;
}
constexpr auto kStreamMask = stream_mask();

/// What a packet's ICRC is of.
std::span<const uint8_t> covered(std::span<const uint8_t> frame, const FrameView& view) {
  return frame.subspan(view.l3, view.ip_end - kIcrcBytes - view.l3);
}

}  // namespace

bool differs_by_psn_only(std::span<const uint8_t> frame, const FrameView& view,
                         const RoceView& roce) {
  if (frame.size() != view.frame.size() || view.v6 || roce.bth != kPlainBth) return false;
  if (roce.payload != kPlainHead) return false;
  uint64_t differs = 0;
  // The last word begins in the one before it.
  for (size_t at = 0; at < kPlainHead; at += sizeof differs) {
    at = std::min(at, kPlainHead - sizeof differs);
    uint64_t one, other, mask;
    std::memcpy(&one, frame.data() + at, sizeof one);
    std::memcpy(&other, view.frame.data() + at, sizeof other);
    std::memcpy(&mask, kStreamMask.data() + at, sizeof mask);
    differs |= (one ^ other) & mask;
  }
  return differs == 0;
}

Psn psn_in(std::span<const uint8_t> frame) {
  const uint8_t* const at = frame.data() + kPlainHead - kPsnBytes;
  return Psn(static_cast<uint32_t>(at[0]) << 16 | static_cast<uint32_t>(at[1]) << 8 | at[2]);
}

bool icrc_ok(const FrameView& view, const RoceView& roce) {
  return icrc(covered(view.frame, view)) == roce.icrc;
}

bool icrc_ok(const FrameView& view, const RoceView& roce, IcrcMemory& before) {
  return before.icrc(covered(view.frame, view), roce.dest_qpn, roce.opcode) == roce.icrc;
}

bool icrc_ok(std::span<const uint8_t> frame, const FrameView& view, const RoceView& roce,
             IcrcMemory& before) {
  return before.icrc(covered(frame, view), roce.dest_qpn, roce.opcode) ==
         load_icrc(frame.data() + view.ip_end - kIcrcBytes);
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
