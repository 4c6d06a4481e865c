// Frames of TCP segments: what is built is parsed, and what a good frame may not be is told apart.
#include "ctrl/virtual_host/tcp_segment.h"

#include <gtest/gtest.h>

#include "ctrl/host_namespace/host_namespace.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/parse.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

TcpFlow flow(bool v4) {
  const auto ip = [](const char* text) { return IpAddress::parse(text).value(); };
  return v4 ? TcpFlow{{ip("10.9.0.1"), 5000}, {ip("10.9.200.200"), 40000}}
            : TcpFlow{{ip("fd00:9::1"), 5000}, {ip("fd00:9::c8c8"), 40000}};
}

/// The flow that the frame's receiver sees.
TcpFlow turned(const TcpFlow& flow) { return {flow.remote, flow.local}; }

TcpSegment data_segment(std::span<const uint8_t> payload) {
  TcpSegment segment;
  segment.seq = 0xfffffffe;
  segment.ack = 77;
  segment.flags = kTcpAck | kTcpPsh;
  segment.window = 513;
  segment.payload = payload;
  return segment;
}

TcpFrameKind kind_of(const Bytes& frame) {
  TcpFlow flow;
  TcpSegment segment;
  return parse_tcp(frame, flow, segment);
}

constexpr uint32_t kIp4 = sizeof(EthHeader);
constexpr uint32_t kTcp4 = kIp4 + sizeof(Ipv4Header);

/// Sets the checksum of an IPv4 frame's TCP anew.
void repair(Bytes& frame) {
  FrameView view;
  RoceView roce;
  parse_frame(frame, view, roce);
  const uint32_t bytes = view.ip_end - view.l4;
  uint8_t* tcp = frame.data() + view.l4;
  tcp[16] = tcp[17] = 0;
  const uint16_t sum =
      checksum_finish(checksum_add(pseudo_header_sum(view.src, view.dst, 6, bytes), tcp, bytes));
  tcp[16] = static_cast<uint8_t>(sum >> 8);
  tcp[17] = static_cast<uint8_t>(sum);
}

TEST(TcpSegment, WhatIsBuiltIsParsed) {
  for (const bool v4 : {true, false}) {
    for (const size_t size : {0u, 1u, 2u, 1001u}) {
      const Bytes payload(size, 0xa5);
      const TcpSegment sent = data_segment(payload);
      const Bytes frame = build_tcp(flow(v4), sent);
      EXPECT_EQ(frame.size(), sizeof(EthHeader) + tcp_header_bytes(v4) + size);
      FrameView view;
      RoceView roce;
      ASSERT_EQ(parse_frame(frame, view, roce), FrameKind::kIp);
      EXPECT_EQ(view.src_mac, kHostNamespaceMac);
      EXPECT_EQ(view.dst_mac, kHostNamespacePeerMac);
      TcpFlow came;
      TcpSegment segment;
      ASSERT_EQ(parse_tcp(frame, came, segment), TcpFrameKind::kTcp);
      EXPECT_EQ(came, turned(flow(v4)));
      EXPECT_EQ(segment.seq, sent.seq);
      EXPECT_EQ(segment.ack, sent.ack);
      EXPECT_EQ(segment.flags, sent.flags);
      EXPECT_EQ(segment.window, sent.window);
      EXPECT_EQ(segment.mss, std::nullopt);
      EXPECT_EQ(Bytes(segment.payload.begin(), segment.payload.end()), payload);
    }
  }
}

TEST(TcpSegment, PaddingBehindThePacketIsNoPayload) {
  Bytes frame = build_tcp(flow(true), data_segment({}));
  frame.resize(kMinFrameBytes);
  TcpFlow came;
  TcpSegment segment;
  ASSERT_EQ(parse_tcp(frame, came, segment), TcpFrameKind::kTcp);
  EXPECT_TRUE(segment.payload.empty());
}

TEST(TcpSegment, MssAmongOtherOptions) {
  TcpSegment syn;
  syn.flags = kTcpSyn;
  syn.mss = 8960;
  Bytes frame = build_tcp(flow(true), syn);
  TcpFlow came;
  TcpSegment segment;
  ASSERT_EQ(parse_tcp(frame, came, segment), TcpFrameKind::kTcp);
  EXPECT_EQ(segment.mss, 8960);
  EXPECT_EQ(segment.length(), 1u);

  // As Linux writes it: MSS, SACK permitted, time stamps, no-operation, window scale.
  const Bytes payload = {4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 4, 5, 180, 1, 1, 0};
  const auto with_options = [&](const Bytes& options) {
    TcpSegment plain;
    plain.flags = kTcpSyn;
    plain.payload = options;
    Bytes made = build_tcp(flow(true), plain);
    made[kTcp4 + 12] = static_cast<uint8_t>((5 + options.size() / 4) << 4);
    repair(made);
    return made;
  };
  frame = with_options(payload);
  ASSERT_EQ(parse_tcp(frame, came, segment), TcpFrameKind::kTcp);
  EXPECT_EQ(segment.mss, 1460);
  EXPECT_TRUE(segment.payload.empty());
  // Behind the end of options, and behind options without a good length, nothing is read.
  for (const Bytes& options : {Bytes{0, 0, 0, 0, 2, 4, 5, 180}, Bytes{3, 0, 2, 4, 5, 180, 1, 1},
                               Bytes{3, 1, 2, 4, 5, 180, 1, 1}, Bytes{3, 9, 2, 4, 5, 180, 1, 1},
                               Bytes{1, 1, 1, 2}, Bytes{1, 2, 4, 5}, Bytes{2, 3, 5, 1}}) {
    frame = with_options(options);
    ASSERT_EQ(parse_tcp(frame, came, segment), TcpFrameKind::kTcp);
    EXPECT_EQ(segment.mss, std::nullopt);
  }
}

TEST(TcpSegment, EveryDamagedByteBehindTheMacsShows) {
  for (const bool v4 : {true, false}) {
    const Bytes payload = {1, 2, 3};
    const Bytes good = build_tcp(flow(v4), data_segment(payload));
    for (size_t at = 12; at < good.size(); ++at) {
      // Traffic class, flow label and hop limit of IPv6 have no checksum.
      if (!v4 && ((at >= 14 && at <= 17) || at == 21)) continue;
      Bytes bad = good;
      bad[at] ^= 0x10;
      EXPECT_NE(kind_of(bad), TcpFrameKind::kTcp) << at;
    }
  }
}

TEST(TcpSegment, EveryShorterFrameIsMalformed) {
  for (const bool v4 : {true, false}) {
    const Bytes good = build_tcp(flow(v4), data_segment({}));
    for (size_t size = 0; size < good.size(); ++size) {
      EXPECT_EQ(kind_of(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size))),
                TcpFrameKind::kMalformed)
          << size;
    }
  }
}

TEST(TcpSegment, OffsetOfThePayloadStaysWithinTheSegment) {
  const Bytes payload(8, 1);
  for (const unsigned words : {0u, 4u, 8u, 15u}) {
    Bytes frame = build_tcp(flow(true), data_segment(payload));
    frame[kTcp4 + 12] = static_cast<uint8_t>(words << 4);
    repair(frame);
    EXPECT_EQ(kind_of(frame), TcpFrameKind::kMalformed) << words;
  }
}

TEST(TcpSegment, OtherTraffic) {
  const auto set_protocol = [](Bytes frame, uint8_t protocol, uint16_t fragment) {
    frame[kIp4 + 9] = protocol;
    frame[kIp4 + 6] = static_cast<uint8_t>(fragment >> 8);
    frame[kIp4 + 7] = static_cast<uint8_t>(fragment);
    frame[kIp4 + 10] = frame[kIp4 + 11] = 0;
    const uint16_t sum = checksum_finish(checksum_add(0, frame.data() + kIp4, 20));
    frame[kIp4 + 10] = static_cast<uint8_t>(sum >> 8);
    frame[kIp4 + 11] = static_cast<uint8_t>(sum);
    return frame;
  };
  const Bytes good = build_tcp(flow(true), data_segment({}));
  EXPECT_EQ(kind_of(set_protocol(good, 6, 0x4000)), TcpFrameKind::kTcp);
  EXPECT_EQ(kind_of(set_protocol(good, 17, 0x4000)), TcpFrameKind::kOther);
  EXPECT_EQ(kind_of(set_protocol(good, 1, 0x4000)), TcpFrameKind::kOther);
  EXPECT_EQ(kind_of(set_protocol(good, 6, 0x2000)), TcpFrameKind::kOther);  // first fragment
  EXPECT_EQ(kind_of(set_protocol(good, 6, 0x0003)), TcpFrameKind::kOther);  // a later one
  Bytes arp = good;
  arp[12] = 0x08;
  arp[13] = 0x06;
  EXPECT_EQ(kind_of(arp), TcpFrameKind::kOther);
}

}  // namespace
}  // namespace understudy
