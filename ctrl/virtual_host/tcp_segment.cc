#include "ctrl/virtual_host/tcp_segment.h"

#include <algorithm>
#include <cstring>

#include "ctrl/host_namespace/host_namespace.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/parse.h"

namespace understudy {
namespace {

constexpr uint8_t kOptionEnd = 0, kOptionNone = 1, kOptionMss = 2;
constexpr uint8_t kMssOptionBytes = 4;
constexpr uint16_t kNoComplaint = 0xffff;  ///< sum of what has a right checksum

struct TcpHeader {
  Be16 src_port;
  Be16 dst_port;
  Be32 seq;
  Be32 ack;
  uint8_t offset;  ///< of the payload, in words of 4 bytes, in the upper 4 bits
  uint8_t flags;
  Be16 window;
  Be16 checksum;
  Be16 urgent;
};
static_assert(sizeof(TcpHeader) == 20);

bool sums_up(uint32_t start, std::span<const uint8_t> bytes) {
  return checksum_add(start, bytes.data(), bytes.size()) == kNoComplaint;
}

/// What follows an option that states no good length is not read.
std::optional<uint16_t> mss_of(std::span<const uint8_t> options) {
  while (!options.empty() && options[0] != kOptionEnd) {
    if (options[0] == kOptionNone) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2 || options[1] < 2 || options[1] > options.size()) return std::nullopt;
    if (options[0] == kOptionMss && options[1] == kMssOptionBytes) {
      return static_cast<uint16_t>(options[2] << 8 | options[3]);
    }
    options = options.subspan(options[1]);
  }
  return std::nullopt;
}

}  // namespace

TcpFrameKind parse_tcp(std::span<const uint8_t> frame, TcpFlow& flow, TcpSegment& segment) {
  FrameView view;
  RoceView roce;
  switch (parse_frame(frame, view, roce)) {
    case FrameKind::kIp:
      break;
    case FrameKind::kTruncated:
    case FrameKind::kBadIp:
      return TcpFrameKind::kMalformed;
    default:
      return TcpFrameKind::kOther;
  }
  if (view.protocol != kIpProtoTcp || view.fragment) return TcpFrameKind::kOther;
  if (!view.v6 && !sums_up(0, frame.subspan(view.l3, view.l4 - view.l3))) {
    return TcpFrameKind::kBadChecksum;
  }
  const auto bytes = frame.subspan(view.l4, view.ip_end - view.l4);
  TcpHeader header;
  if (bytes.size() < sizeof header) return TcpFrameKind::kMalformed;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t offset = (header.offset >> 4) * size_t{4};
  if (offset < sizeof header || offset > bytes.size()) return TcpFrameKind::kMalformed;
  const uint32_t pseudo =
      pseudo_header_sum(view.src, view.dst, kIpProtoTcp, static_cast<uint32_t>(bytes.size()));
  if (!sums_up(pseudo, bytes)) return TcpFrameKind::kBadChecksum;

  flow.local = {view.dst, header.dst_port.get()};
  flow.remote = {view.src, header.src_port.get()};
  segment = TcpSegment{};
  segment.seq = header.seq.get();
  segment.ack = header.ack.get();
  segment.flags = header.flags;
  segment.window = header.window.get();
  if (segment.has(kTcpSyn)) {
    segment.mss = mss_of(bytes.subspan(sizeof header, offset - sizeof header));
  }
  segment.payload = bytes.subspan(offset);
  return TcpFrameKind::kTcp;
}

std::vector<uint8_t> build_tcp(const TcpFlow& flow, const TcpSegment& segment) {
  RoceAddressing addressing;
  addressing.src_mac = kHostNamespaceMac;
  addressing.dst_mac = kHostNamespacePeerMac;
  addressing.src = flow.local.address;
  addressing.dst = flow.remote.address;
  const bool mss = segment.has(kTcpSyn) && segment.mss.has_value();
  const size_t offset = sizeof(TcpHeader) + (mss ? kMssOptionBytes : 0);
  const auto bytes = static_cast<uint32_t>(offset + segment.payload.size());
  std::vector<uint8_t> frame(addressing.l2_bytes() + addressing.l3_bytes() + bytes);
  uint8_t* tcp = frame.data() + write_l2_l3(frame.data(), addressing, kIpProtoTcp, bytes);

  TcpHeader header{};
  header.src_port = flow.local.port;
  header.dst_port = flow.remote.port;
  header.seq = segment.seq;
  header.ack = segment.ack;
  header.offset = static_cast<uint8_t>(offset / 4 << 4);
  header.flags = segment.flags;
  header.window = segment.window;
  std::memcpy(tcp, &header, sizeof header);
  if (mss) {
    const Be16 value(*segment.mss);
    tcp[sizeof header] = kOptionMss;
    tcp[sizeof header + 1] = kMssOptionBytes;
    std::memcpy(tcp + sizeof header + 2, &value, sizeof value);
  }
  std::ranges::copy(segment.payload, tcp + offset);
  header.checksum = checksum_finish(checksum_add(
      pseudo_header_sum(addressing.src, addressing.dst, kIpProtoTcp, bytes), tcp, bytes));
  std::memcpy(tcp, &header, sizeof header);
  return frame;
}

uint32_t tcp_header_bytes(bool v4) {
  return static_cast<uint32_t>((v4 ? sizeof(Ipv4Header) : sizeof(Ipv6Header)) + sizeof(TcpHeader));
}

}  // namespace understudy
