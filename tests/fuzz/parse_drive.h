// Any bytes as a frame: the parser stays inside, and says nothing that the frame does not hold.
#pragma once

#include <cstring>
#include <vector>

#include "dataplane/wire/build.h"
#include "dataplane/wire/parse.h"
#include "dataplane/wire/pfc.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// The first byte says what the rest is: a whole frame, or what follows the UDP header of an IPv4
/// or IPv6 packet with or without a VLAN tag.
inline std::vector<uint8_t> fuzz_frame(std::span<const uint8_t> input) {
  const unsigned form = input.empty() ? 0 : input[0] % 8;
  const auto rest = input.subspan(input.empty() ? 0 : 1);
  if (form < 4 || rest.size() > 0x8000) return {rest.begin(), rest.end()};
  RoceAddressing a;
  a.src = a.dst = *IpAddress::parse(form % 2 != 0 ? "fd00::1" : "10.0.0.1");
  if (form >= 6) a.vlan_tci = 100;
  const auto l4_bytes = static_cast<uint32_t>(sizeof(UdpHeader) + rest.size());
  std::vector<uint8_t> frame(a.l2_bytes() + a.l3_bytes() + l4_bytes);
  const uint32_t at = write_l2_l3(frame.data(), a, kIpProtoUdp, l4_bytes);
  const UdpHeader udp{0xc000, kRoceUdpPort, static_cast<uint16_t>(l4_bytes), 0};
  std::memcpy(frame.data() + at, &udp, sizeof udp);
  if (!rest.empty()) std::memcpy(frame.data() + at + sizeof udp, rest.data(), rest.size());
  return frame;
}

/// Returns what the frame was taken for.
inline FrameKind drive_parse(std::span<const uint8_t> input) {
  const std::vector<uint8_t> frame = fuzz_frame(input);  // exact size: a sanitizer sees all
  FrameView view;
  RoceView roce;
  const FrameKind kind = parse_frame(frame, view, roce);
  if (PfcFrame pfc; parse_pfc(frame, pfc)) must(kind == FrameKind::kMacControl);
  if (kind == FrameKind::kIp || kind == FrameKind::kRoce) {
    must(view.l3 <= view.l4 && view.l4 <= view.ip_end && view.ip_end <= frame.size());
  }
  if (kind != FrameKind::kRoce) return kind;
  must(roce.info().name != nullptr);
  must(roce.payload == roce.bth + sizeof(Bth) + roce.info().header_bytes);
  must(roce.payload + roce.payload_bytes + roce.pad + kIcrcBytes == view.ip_end);
  icrc_ok(view, roce);
  return kind;
}

}  // namespace understudy
