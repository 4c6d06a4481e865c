// TCP segments and their frames: untagged Ethernet, IPv4 or IPv6, TCP (RFC 9293 3.1). Bytes only.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/socket_address.h"

namespace understudy {

inline constexpr uint8_t kTcpFin = 0x01;
inline constexpr uint8_t kTcpSyn = 0x02;
inline constexpr uint8_t kTcpRst = 0x04;
inline constexpr uint8_t kTcpPsh = 0x08;
inline constexpr uint8_t kTcpAck = 0x10;

/// How far sequence number `a` lies after `b`: they wrap, and are less than 2^31 apart.
constexpr int32_t tcp_after(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b); }

struct TcpSegment {
  uint32_t seq = 0;
  uint32_t ack = 0;  ///< meaningful with kTcpAck
  uint8_t flags = 0;
  uint16_t window = 0;
  std::optional<uint16_t> mss;  ///< the option; written with kTcpSyn only
  std::span<const uint8_t> payload;

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  /// Of sequence space: SYN and FIN take one each.
  uint32_t length() const {
    return static_cast<uint32_t>(payload.size()) + has(kTcpSyn) + has(kTcpFin);
  }
};

/// Both ends of a connection, as its owner sees them.
struct TcpFlow {
  SocketAddress local, remote;
  auto operator<=>(const TcpFlow&) const = default;
};

enum class TcpFrameKind : uint8_t {
  kTcp,
  kOther,        ///< good IP of something else, an IP fragment, or no IP at all
  kMalformed,    ///< a header, or the length that one states, reaches past the frame
  kBadChecksum,  ///< of the TCP segment or the IPv4 header
};

/// Parses a frame that has come: its destination becomes `flow.local`. `segment.payload` lies in
/// the frame. Both are filled for kTcp only.
TcpFrameKind parse_tcp(std::span<const uint8_t> frame, TcpFlow& flow, TcpSegment& segment);

/// The frame of a segment from `flow.local`, in the exception namespace's convention
/// (host_namespace.h): source kHostNamespaceMac, destination kHostNamespacePeerMac.
std::vector<uint8_t> build_tcp(const TcpFlow& flow, const TcpSegment& segment);

/// Headers of a segment without options, from IP's on: what an MTU leaves is the MSS.
uint32_t tcp_header_bytes(bool v4);

}  // namespace understudy
