#include "dataplane/engine/send/frame_changes.h"

#include <cstring>

#include "dataplane/engine/state/notification.h"
#include "dataplane/wire/headers.h"
#include "dataplane/wire/icrc.h"

namespace understudy {
namespace {

/// The bits that a fault may change: the payload's, or else those of the headers after the BTH.
struct Area {
  uint32_t at = 0, bytes = 0;
};

Area area_of(const OpcodeInfo& info, uint32_t bth, uint32_t payload_bytes) {
  const auto headers = static_cast<uint32_t>(bth + sizeof(Bth));
  if (payload_bytes > 0) return {headers + info.header_bytes, payload_bytes};
  return {headers, info.header_bytes};
}

void flip(uint8_t* frame, const Area& area, uint64_t damage) {
  if (area.bytes == 0) return;  // nothing but a BTH
  const uint64_t bit = damage % (uint64_t{area.bytes} * 8);
  frame[area.at + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
}

}  // namespace

void mark_frame(std::span<uint8_t> frame) {
  FrameView view;
  RoceView roce;
  parse_frame(frame, view, roce);
  uint8_t* l3 = frame.data() + view.l3;
  if (l3[0] >> 4 == 6) {
    l3[1] |= kCongestionExperienced << 4;
    return;
  }
  Ipv4Header ip;
  std::memcpy(&ip, l3, sizeof ip);
  ip.tos |= kCongestionExperienced;
  ip.checksum = 0;
  std::memcpy(l3, &ip, sizeof ip);
  ip.checksum = checksum_finish(checksum_add(0, l3, sizeof ip));
  std::memcpy(l3, &ip, sizeof ip);
}

void damage_frame(std::span<uint8_t> frame, const FrameView& view, const RoceView& roce,
                  uint64_t damage, bool good_icrc) {
  flip(frame.data(), area_of(roce.info(), roce.bth, roce.payload_bytes), damage);
  if (!good_icrc) return;
  const uint32_t icrc_at = view.ip_end - kIcrcBytes;
  store_icrc(frame.data() + icrc_at, icrc(frame.subspan(view.l3, icrc_at - view.l3)));
}

void damage_built(const Packet& p, uint8_t* frame) {
  const uint32_t bth =
      p.addressing.l2_bytes() + p.addressing.l3_bytes() + static_cast<uint32_t>(sizeof(UdpHeader));
  flip(frame, area_of(opcode_info(p.out.fields.opcode), bth, p.out.payload_bytes), p.damage);
}

void rebuild_datagram(const Packet& p, uint8_t* frame) {
  const uint32_t l3 = p.addressing.l2_bytes(), l4 = l3 + p.addressing.l3_bytes();
  write_l2_l3(frame, p.addressing, kIpProtoUdp, p.frame_bytes - l4);
  if (!p.damaged) return;
  damage_built(p, frame);
  const uint32_t icrc_at = p.frame_bytes - kIcrcBytes;
  if (p.good_icrc) store_icrc(frame + icrc_at, icrc({frame + l3, icrc_at - l3}));
}

}  // namespace understudy
