// The parser on frames that are cut, padded, tagged, changed or simply not RoCE.
#include "dataplane/wire/parse.h"

#include <gtest/gtest.h>

#include <set>

#include "dataplane/wire/headers.h"
#include "tests/fuzz/parse_drive.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

std::vector<uint8_t> sample_write(bool v6, std::optional<uint16_t> tci, size_t payload) {
  RoceFields f;
  f.opcode = Opcode::kWriteOnlyImm;
  f.dest_qpn = 0x123456;
  f.psn = Psn(0xfffffe);
  f.dma_length = static_cast<uint32_t>(payload);
  return roce_frame(sample_addressing(v6, tci), f, std::vector<uint8_t>(payload, 0x5a));
}

TEST(Parse, EveryCutIsTruncated) {
  for (bool v6 : {false, true}) {
    for (size_t payload : {0u, 5u}) {
      const auto frame = sample_write(v6, 0x6064, payload);
      for (size_t n = 0; n < frame.size(); ++n) {
        EXPECT_EQ(Parsed({frame.data(), n}).kind, FrameKind::kTruncated) << n;
      }
      EXPECT_EQ(Parsed(frame).kind, FrameKind::kRoce);
    }
  }
}

/// Of an opcode without extension headers, unless it is another one.
std::vector<uint8_t> sample_middle(bool v6, std::optional<uint16_t> tci,
                                   Opcode opcode = Opcode::kWriteMiddle) {
  RoceFields f;
  f.opcode = opcode;
  f.dest_qpn = 0x123456;
  f.psn = Psn(0xfffffe);
  return roce_frame(sample_addressing(v6, tci), f, std::vector<uint8_t>(256, 0x5a));
}

TEST(Parse, PacketsOfAStreamDifferByTheirPsn) {
  const auto frame = sample_middle(false, std::nullopt);
  const Parsed p(frame);
  ASSERT_EQ(p.kind, FrameKind::kRoce);
  ASSERT_EQ(p.roce.payload, 54u);
  EXPECT_EQ(psn_in(frame), p.roce.psn);
  const std::set<size_t> changes{18, 19, 24, 25, 40, 41, 51, 52, 53};  // IDs, checksums, PSN
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    auto other = frame;
    other[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    const bool alike = bit / 8 >= 54 || changes.contains(bit / 8);
    ASSERT_EQ(differs_by_psn_only(other, p.view, p.roce), alike) << bit;
    if (!alike) continue;
    const Parsed q(other);
    ASSERT_EQ(q.kind, FrameKind::kRoce);
    EXPECT_EQ(psn_in(other), q.roce.psn);
    IcrcMemory memory;
    EXPECT_EQ(icrc_ok(other, p.view, p.roce, memory), icrc_ok(q.view, q.roce)) << bit;
  }
  auto longer = frame;
  longer.push_back(0);
  EXPECT_FALSE(differs_by_psn_only(longer, p.view, p.roce));
}

TEST(Parse, StreamsAreOfPlainHeaders) {
  for (const auto& frame : {sample_middle(true, std::nullopt), sample_middle(false, 0x6064),
                            sample_middle(false, std::nullopt, Opcode::kWriteFirst)}) {
    const Parsed p(frame);
    ASSERT_EQ(p.kind, FrameKind::kRoce);
    EXPECT_FALSE(differs_by_psn_only(frame, p.view, p.roce));
  }
}

TEST(Parse, TrailingPaddingOfTheLinkIsNotPayload) {
  auto frame = sample_write(false, std::nullopt, 3);
  frame.resize(frame.size() + 17, 0xee);
  const Parsed p(frame);
  ASSERT_EQ(p.kind, FrameKind::kRoce);
  EXPECT_EQ(p.roce.payload_bytes, 3u);
  EXPECT_TRUE(icrc_ok(p.view, p.roce));
}

// rules: A1.1
TEST(Parse, TwoTagsOutermostFirst) {
  auto frame = sample_write(false, 0x2007, 4);
  const uint8_t outer[] = {0x88, 0xa8, 0xa0, 0x64};
  frame.insert(frame.begin() + 12, std::begin(outer), std::end(outer));
  const Parsed p(frame);
  ASSERT_EQ(p.kind, FrameKind::kRoce);
  ASSERT_EQ(p.view.vlans, 2);
  EXPECT_EQ(p.view.vlan[0].vid(), 100);
  EXPECT_EQ(p.view.vlan[0].pcp(), 5);
  EXPECT_EQ(p.view.vlan[1].vid(), 7);
  EXPECT_EQ(p.view.vlan[1].pcp(), 1);
  EXPECT_TRUE(icrc_ok(p.view, p.roce));
  frame.insert(frame.begin() + 12, std::begin(outer), std::end(outer));
  EXPECT_EQ(Parsed(frame).kind, FrameKind::kOther) << "a third tag is an Ethertype unknown here";
}

/// The frame with one byte set; offsets for IPv4 without a tag.
FrameKind kind_with(size_t at, uint8_t value, bool v6 = false) {
  auto frame = sample_write(v6, std::nullopt, 4);
  frame[at] = value;
  return Parsed(frame).kind;
}

// rules: A1.8 A3.3
TEST(Parse, ReasonsForRefusal) {
  EXPECT_EQ(kind_with(12, 0x12), FrameKind::kOther);
  EXPECT_EQ(kind_with(14, 0x65), FrameKind::kBadIp) << "IP version";
  EXPECT_EQ(kind_with(14, 0x44), FrameKind::kBadIp) << "header shorter than 20 bytes";
  EXPECT_EQ(kind_with(14, 0x40, true), FrameKind::kBadIp) << "IP version";
  EXPECT_EQ(kind_with(20, 0x20), FrameKind::kBadIp) << "more fragments";
  EXPECT_EQ(kind_with(16, 0x7f), FrameKind::kTruncated) << "total length";
  EXPECT_EQ(kind_with(39, 8), FrameKind::kTruncated) << "UDP length is not the packet's";
  EXPECT_EQ(kind_with(43, 0x41), FrameKind::kBadTver);
  EXPECT_EQ(kind_with(42, 0x15), FrameKind::kBadOpcode);
  EXPECT_EQ(kind_with(42, 0x2c), FrameKind::kBadOpcode) << "READ of an unreliable connection";
  EXPECT_EQ(kind_with(42, 0x4a), FrameKind::kBadOpcode) << "reliable datagram";
  EXPECT_EQ(kind_with(36, 0), FrameKind::kIp) << "another UDP port";
  EXPECT_EQ(kind_with(23, kIpProtoIcmp), FrameKind::kIp);
}

TEST(Parse, PadLargerThanWhatIsLeft) {
  auto frame = sample_write(false, std::nullopt, 0);
  frame[43] |= 0x10;
  EXPECT_EQ(Parsed(frame).kind, FrameKind::kBadPad);
}

TEST(Parse, LaterFragmentsAreNobodysUdp) {
  auto frame = sample_write(false, std::nullopt, 4);
  frame[21] = 1;  // fragment offset
  const Parsed p(frame);
  EXPECT_EQ(p.kind, FrameKind::kIp);
  EXPECT_EQ(p.view.protocol, 0);
}

// rules: A1.2
TEST(Parse, IpOptionsAreNotRoce) {
  auto frame = sample_write(false, std::nullopt, 4);
  const uint8_t nops[] = {1, 1, 1, 1};
  frame.insert(frame.begin() + 34, std::begin(nops), std::end(nops));
  frame[14] = 0x46;
  frame[17] = static_cast<uint8_t>(frame[17] + 4);
  EXPECT_EQ(Parsed(frame).kind, FrameKind::kBadIp);
}

TEST(Parse, AnIpv4AddressDoesNotTravelAsIpv6) {
  // ::ffff:10.0.0.1 stands for an IPv4 node in our tables; on the wire it would pass for one.
  auto frame = sample_write(true, std::nullopt, 4);
  const IpAddress v4 = *IpAddress::parse("10.0.0.1");
  std::copy(v4.data(), v4.data() + 16, frame.begin() + 22);
  EXPECT_EQ(Parsed(frame).kind, FrameKind::kBadIp);
}

TEST(Parse, Arp) {
  std::vector<uint8_t> frame(42);
  frame[12] = 0x08;
  frame[13] = 0x06;
  EXPECT_EQ(Parsed(frame).kind, FrameKind::kArp);
  EXPECT_EQ(Parsed({frame.data(), 41}).kind, FrameKind::kTruncated);
}

TEST(Parse, MutatedFramesStayInBounds) {
  std::mt19937_64 random(20);
  const auto opcodes = known_opcodes();
  size_t roce = 0;
  for (int round = 0; round < 60000; ++round) {
    RoceFields f;
    f.opcode = opcodes[random() % opcodes.size()];
    auto frame =
        roce_frame(sample_addressing(random() % 2 != 0), f, random_bytes(random() % 80, random));
    for (size_t n = random() % 4; n > 0; --n) {
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 4 == 0) frame.resize(random() % frame.size());
    const Parsed p(frame);
    if (p.kind != FrameKind::kRoce) continue;
    ++roce;
    icrc_ok(p.view, p.roce);
    ASSERT_LE(p.roce.payload + p.roce.payload_bytes + p.roce.pad + kIcrcBytes, frame.size());
    ASSERT_LE(p.view.ip_end, frame.size());
  }
  EXPECT_GT(roce, 10000u);
}

TEST(Parse, RandomBytesStayInBounds) {
  std::mt19937_64 random(21);
  size_t seen[static_cast<size_t>(FrameKind::kBadPad) + 1] = {};
  for (int round = 0; round < 60000; ++round) {
    ++seen[static_cast<size_t>(drive_parse(random_bytes(random() % 90, random)))];
  }
  EXPECT_GT(seen[static_cast<size_t>(FrameKind::kBadTver)], 1000u);
  EXPECT_GT(seen[static_cast<size_t>(FrameKind::kRoce)], 10u);
}

TEST(Parse, EveryKindHasAName) {
  for (unsigned k = 0; k <= static_cast<unsigned>(FrameKind::kBadPad); ++k) {
    EXPECT_STRNE(frame_kind_name(static_cast<FrameKind>(k)), "?");
  }
}

}  // namespace
}  // namespace understudy
