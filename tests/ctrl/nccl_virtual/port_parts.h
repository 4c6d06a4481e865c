// What a capture shows of each NIC of a real node: credits, parts of messages and bytes.
#pragma once

#include <map>
#include <string>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy::nccl_rank {

/// Of node 0, the real one, whose NIC n is 10.(9 + n).0.1.
inline IpAddress nic_address(uint32_t nic) { return IpAddress::v4(0x0a090001 + (nic << 16)); }

struct Part {
  uint64_t credits = 0, parts = 0, bytes = 0;
};

/// What went over each NIC of the real node, either way.
inline std::map<uint32_t, Part> parts_of(const std::string& path) {
  std::map<uint32_t, Part> ports;
  for (const TestFrame& frame : TestCapture::load(path).frames) {
    FrameView view;
    RoceView roce;
    if (parse_frame(frame.bytes, view, roce) != FrameKind::kRoce) continue;
    uint32_t port = 0;
    while (port < 8 && view.src != nic_address(port) && view.dst != nic_address(port)) ++port;
    Part& part = ports[port];
    const auto opcode = static_cast<Opcode>(roce.opcode);
    if (opcode == Opcode::kWriteOnly) ++part.credits;
    const bool last = opcode == Opcode::kWriteLastImm || opcode == Opcode::kWriteOnlyImm;
    if (last) ++part.parts;
    if (opcode != Opcode::kWriteOnly) part.bytes += roce.payload_bytes;
  }
  return ports;
}

}  // namespace understudy::nccl_rank
