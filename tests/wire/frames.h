// Frames for tests: addressing samples, and whole RoCEv2 frames from fields and payload.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "dataplane/wire/build.h"
#include "dataplane/wire/parse.h"

namespace understudy {

inline constexpr MacAddress kMacA{{0x02, 0x75, 0, 0, 0, 0x0a}};
inline constexpr MacAddress kMacB{{0x02, 0x75, 0, 0, 0, 0x0b}};

inline RoceAddressing sample_addressing(bool v6, std::optional<uint16_t> vlan_tci = std::nullopt) {
  RoceAddressing a;
  a.src_mac = kMacA;
  a.dst_mac = kMacB;
  a.vlan_tci = vlan_tci;
  a.src = *IpAddress::parse(v6 ? "fd00::1" : "10.0.0.1");
  a.dst = *IpAddress::parse(v6 ? "fd00::2" : "10.0.0.2");
  return a;
}

inline std::vector<uint8_t> roce_frame(const RoceAddressing& addressing, const RoceFields& fields,
                                       std::span<const uint8_t> payload = {}) {
  const auto bytes = static_cast<uint32_t>(payload.size());
  std::vector<uint8_t> frame(roce_frame_bytes(addressing, fields.opcode, bytes));
  uint8_t* at = begin_roce(frame.data(), addressing, fields, bytes);
  std::copy(payload.begin(), payload.end(), at);
  finish_roce(frame.data(), addressing, fields.opcode, bytes);
  return frame;
}

inline std::vector<uint8_t> random_bytes(size_t n, std::mt19937_64& random) {
  std::vector<uint8_t> out(n);
  for (uint8_t& b : out) b = static_cast<uint8_t>(random());
  return out;
}

/// Every opcode that the table knows.
inline std::vector<Opcode> known_opcodes() {
  std::vector<Opcode> out;
  for (unsigned op = 0; op < 256; ++op) {
    if (opcode_info(static_cast<uint8_t>(op)).name != nullptr) out.push_back(Opcode{uint8_t(op)});
  }
  return out;
}

/// A parse result that owns a copy of exactly the frame's bytes, so that a sanitizer sees any read
/// past their end.
struct Parsed {
  explicit Parsed(std::span<const uint8_t> frame) : bytes(frame.begin(), frame.end()) {
    bytes.shrink_to_fit();
    kind = parse_frame(bytes, view, roce);
  }
  std::vector<uint8_t> bytes;
  FrameView view;
  RoceView roce;
  FrameKind kind;
};

}  // namespace understudy
