// Packets of a capture whose headers a fuzzer chooses; what it could not find, as the ICRC, is right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/wire/build.h"

namespace understudy {

constexpr size_t kBytesOfPacket = 8;

/// A packet between two hosts; empty where its opcode is none.
inline std::vector<uint8_t> packet_of(std::span<const uint8_t, kBytesOfPacket> in) {
  if (opcode_info(in[0]).name == nullptr) return {};
  RoceFields fields;
  fields.opcode = static_cast<Opcode>(in[0]);
  fields.ack_request = (in[1] & 1) != 0;
  fields.dest_qpn = 2u + (in[1] >> 2 & 3);
  fields.psn = Psn(static_cast<uint32_t>(in[2] | (in[1] & 0xf0) << 16));
  fields.syndrome = in[3];
  fields.msn = in[4];
  fields.dma_length = static_cast<uint32_t>(in[5]) << in[6] % 12;
  const uint32_t payload = in[7] < 200 ? in[7] : 256;
  RoceAddressing a;
  a.src = IpAddress::v4(0x0a000001u + (in[1] >> 1 & 1));
  a.dst = IpAddress::v4(0x0a000002u - (in[1] >> 1 & 1));
  std::vector<uint8_t> frame(roce_frame_bytes(a, fields.opcode, payload));
  begin_roce(frame.data(), a, fields, payload);
  finish_roce(frame.data(), a, fields.opcode, payload);
  return frame;
}

}  // namespace understudy
