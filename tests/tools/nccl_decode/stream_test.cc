// The bytes of a TCP connection come together again whatever the network did to its packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tools/nccl_decode/packet.h"
#include "tools/nccl_decode/tcp_stream.h"

namespace understudy::nccl_decode {
namespace {

const Endpoint kOpener{*IpAddress::parse("10.0.0.1"), 40000};
const Endpoint kTaker{*IpAddress::parse("10.0.0.2"), 7};

TcpSegment segment(uint32_t sequence, std::span<const uint8_t> payload) {
  TcpSegment out;
  out.from = kOpener;
  out.to = kTaker;
  out.sequence = sequence;
  out.ack = true;
  out.payload = payload;
  out.payload_bytes = static_cast<uint32_t>(payload.size());
  return out;
}

TcpSegment syn(uint32_t sequence) {
  TcpSegment out = segment(sequence, {});
  out.syn = true;
  out.ack = false;
  return out;
}

std::vector<uint8_t> counted(size_t size) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(i * 7 + i / 256);
  return out;
}

// Cut at any places, repeated with other cuts, in any order, over the wrap of sequence numbers.
TEST(NcclDecodeStream, CutRepeatedReordered) {
  std::mt19937 random(1);
  const auto bytes = counted(3000);
  for (int round = 0; round < 300; ++round) {
    const uint32_t first = 0xffffffff - static_cast<uint32_t>(random() % 4000);
    std::vector<TcpSegment> segments;
    for (int copy = 0; copy < 2; ++copy) {
      for (size_t at = 0; at < bytes.size();) {
        const size_t size = std::min<size_t>(1 + random() % 400, bytes.size() - at);
        segments.push_back(
            segment(first + 1 + static_cast<uint32_t>(at), std::span(bytes).subspan(at, size)));
        at += size;
      }
    }
    segments.back().fin = true;
    std::shuffle(segments.begin(), segments.end(), random);
    TcpReassembler reassembler;
    reassembler.add(syn(first));
    for (size_t i = 0; i < segments.size(); ++i) {
      segments[i].packet = i + 2;
      reassembler.add(segments[i]);
    }
    const auto connections = reassembler.finish();
    ASSERT_EQ(connections.size(), 1U);
    const TcpSide& side = connections[0].sides[0];
    ASSERT_EQ(side.bytes, bytes);
    EXPECT_TRUE(side.begun && side.finished && !side.reset);
    EXPECT_EQ(side.missing, 0U);
    EXPECT_EQ(side.marks.back().end, bytes.size());
    EXPECT_GE(side.mark(bytes.size()).packet, side.mark(1).packet);
  }
}

TEST(NcclDecodeStream, WhatIsMissingIsCounted) {
  const auto bytes = counted(100);
  const std::span all(bytes);
  TcpReassembler reassembler;
  reassembler.add(syn(9));
  reassembler.add(segment(10, all.first(20)));
  reassembler.add(segment(40, all.subspan(30, 10)));
  TcpSegment cut = segment(50, all.subspan(40, 60));
  cut.payload = cut.payload.first(5);  // as tcpdump -s does
  cut.fin = true;
  reassembler.add(cut);
  const auto connections = reassembler.finish();
  const TcpSide& side = connections.at(0).sides[0];
  EXPECT_EQ(side.bytes.size(), 20U);
  EXPECT_EQ(side.missing, 10U);
  EXPECT_EQ(side.behind, 15U);
  EXPECT_FALSE(side.finished);
}

TEST(NcclDecodeStream, PortsComeAgain) {
  const auto bytes = counted(8);
  TcpReassembler reassembler;
  for (uint32_t sequence : {100U, 5000U}) {
    reassembler.add(syn(sequence));
    reassembler.add(syn(sequence));  // repeated: the same connection
    TcpSegment answer = syn(7);
    std::swap(answer.from, answer.to);
    answer.ack = true;
    reassembler.add(answer);
    reassembler.add(segment(sequence + 1, bytes));
  }
  const auto connections = reassembler.finish();
  ASSERT_EQ(connections.size(), 2U);
  for (const TcpConnection& connection : connections) {
    EXPECT_EQ(connection.opener, kOpener);
    EXPECT_EQ(connection.sides[0].bytes, bytes);
    EXPECT_TRUE(connection.sides[1].begun);
  }
}

TEST(NcclDecodeStream, BegunBeforeTheCapture) {
  const auto bytes = counted(12);
  TcpReassembler reassembler;
  reassembler.add(segment(77, std::span(bytes).subspan(4)));
  reassembler.add(segment(73, std::span(bytes).first(4)));  // older than the capture
  const auto connections = reassembler.finish();
  EXPECT_FALSE(connections.at(0).sides[0].begun);
  EXPECT_EQ(connections.at(0).sides[0].bytes, std::vector<uint8_t>(bytes.begin() + 4, bytes.end()));
}

// The same segment in each of the link layers that tcpdump writes.
TEST(NcclDecodeStream, LinkLayers) {
  const std::vector<uint8_t> tcp = {0x9c, 0x40, 0, 7, 0, 0, 1, 0, 0, 0, 0, 0,
                                    0x50, 0x18, 0, 0, 0, 0, 0, 0, 1, 2, 3};
  std::vector<uint8_t> v4 = {0x45, 0, 0, 43, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
  v4.insert(v4.end(), tcp.begin(), tcp.end());
  std::vector<uint8_t> v6(40);
  v6[0] = 0x60;
  v6[5] = 23;
  v6[6] = 6;
  v6[23] = v6[39] = 1;
  v6.insert(v6.end(), tcp.begin(), tcp.end());
  struct Case {
    int link;
    std::vector<uint8_t> header;
    bool six;
  };
  const std::vector<uint8_t> macs(12);
  const auto with = [](std::vector<uint8_t> head, std::vector<uint8_t> tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    return head;
  };
  const std::vector<Case> cases = {
      {1, with(macs, {8, 0}), false},
      {1, with(macs, {0x81, 0, 0, 5, 0x86, 0xdd}), true},
      {113, with(std::vector<uint8_t>(14), {8, 0}), false},
      {276, with({8, 0}, std::vector<uint8_t>(18)), false},
      {12, {}, true},
      {0, {2, 0, 0, 0}, false},
  };
  for (const Case& c : cases) {
    auto bytes = with(c.header, c.six ? v6 : v4);
    bytes.insert(bytes.end(), 6, 0xee);  // Ethernet's padding is no payload
    const auto size = static_cast<uint32_t>(bytes.size());
    const auto found = parse_packet(c.link, bytes, size);
    ASSERT_TRUE(found.has_value()) << c.link;
    EXPECT_EQ(found->from.port, 40000);
    EXPECT_EQ(found->sequence, 256U);
    EXPECT_EQ(std::vector<uint8_t>(found->payload.begin(), found->payload.end()),
              (std::vector<uint8_t>{1, 2, 3}))
        << c.link;
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      const auto part = parse_packet(c.link, std::span(bytes).first(cut), size);
      if (part) {
        EXPECT_EQ(part->payload_bytes, 3U);
      }
    }
  }
}

}  // namespace
}  // namespace understudy::nccl_decode
