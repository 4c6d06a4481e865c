// Any bytes as packets, and as what NCCL's connections carry.
#pragma once

#include <array>
#include <vector>

#include "tests/fuzz/input.h"
#include "tools/nccl_decode/print.h"

namespace understudy::nccl_decode {

/// One side's bytes: frames of sizes that mean something, and anything else.
inline std::vector<uint8_t> fuzzed_side(FuzzInput& in) {
  constexpr std::array<uint16_t, 22> kSizes = {2,   4,    8,    20,   28,   37,  64,  96,
                                               104, 120,  128,  144,  172,  176, 256, 512,
                                               552, 1260, 2292, 2320, 3648, 3744};
  std::vector<uint8_t> out;
  for (int parts = in.byte() % 12; parts > 0; --parts) {
    const uint8_t kind = in.byte();
    const size_t size = kSizes[in.byte() % kSizes.size()];
    if (kind % 4 != 0) {
      const uint32_t length = kind % 16 == 1 ? in.word() : static_cast<uint32_t>(size);
      for (int i = 0; i < 4; ++i) out.push_back(static_cast<uint8_t>(length >> 8 * i));
    }
    const auto some = in.take(in.byte());
    const size_t begin = out.size();
    out.insert(out.end(), some.begin(),
               some.begin() + static_cast<ptrdiff_t>(std::min(some.size(), size)));
    out.resize(begin + size);
  }
  return out;
}

inline TcpSide side_of(std::vector<uint8_t> bytes, uint64_t packet, bool finished) {
  TcpSide side;
  side.seen = true;
  if (!bytes.empty()) side.marks.push_back({bytes.size(), packet, Time::zero()});
  side.bytes = std::move(bytes);
  side.finished = finished;
  return side;
}

inline void drive_nccl_decode(std::span<const uint8_t> bytes) {
  constexpr std::array kLinks = {0, 1, 12, 113, 276};
  FuzzInput packets(bytes);
  TcpReassembler reassembler;
  while (!packets.done()) {
    const int link = kLinks[packets.byte() % kLinks.size()];
    const uint8_t size = packets.byte();
    const auto packet = packets.take(size);
    const auto segment = parse_packet(link, packet, packets.byte());
    if (!segment) continue;
    must(segment->payload.size() <= segment->payload_bytes || segment->payload.empty());
    reassembler.add(*segment);
  }
  size_t held = 0;
  for (const TcpConnection& connection : reassembler.finish()) {
    for (const TcpSide& side : connection.sides) held += side.bytes.size() + side.behind;
  }
  must(held <= bytes.size());

  FuzzInput in(bytes);
  std::vector<TcpConnection> connections;
  for (int count = in.byte() % 6; count > 0; --count) {
    TcpConnection connection;
    connection.opener = {IpAddress::v4(0x0a000001), in.byte()};
    connection.taker = {IpAddress::v4(0x0a000002), static_cast<uint16_t>(in.byte() % 4)};
    const uint8_t flags = in.byte();
    std::vector<uint8_t> opener = {1, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(flags % 7),
                                   0, 0, 0};
    const auto more = fuzzed_side(in);
    opener.insert(opener.end(), more.begin(), more.end());
    connection.sides[0] = side_of(std::move(opener), 1, (flags & 64) != 0);
    connection.sides[1] = side_of(fuzzed_side(in), 2, (flags & 128) != 0);
    connections.push_back(std::move(connection));
  }
  DecodeOptions options;
  const uint8_t minor = in.byte();
  if (minor >= 18 && minor <= 31) options.release = Release{minor, 0};
  const Exchange exchange = decode(connections, options);
  must(exchange.streams.size() == connections.size());
  for (const Stream& stream : exchange.streams) {
    for (const Message& message : stream.messages) {
      const auto& side = stream.connection.sides[message.from_opener ? 0 : 1];
      must(message.begin <= message.end && message.end <= side.bytes.size());
    }
  }
  must(!text_of("x", {}, exchange).empty() && !json_of("x", {}, exchange).empty());
}

}  // namespace understudy::nccl_decode
