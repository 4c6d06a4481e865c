// What is built parses back to the same fields, for every opcode, address family, tag and size.
#include "dataplane/wire/build.h"

#include <gtest/gtest.h>

#include "tests/wire/frames.h"

namespace understudy {
namespace {

RoceFields random_fields(Opcode opcode, std::mt19937_64& random) {
  RoceFields f;
  f.opcode = opcode;
  f.solicited = random() % 2 != 0;
  f.migration = random() % 2 != 0;
  f.ack_request = random() % 2 != 0;
  f.becn = random() % 2 != 0;
  f.pkey = static_cast<uint16_t>(random());
  f.dest_qpn = static_cast<uint32_t>(random()) & kQpnMask;
  f.psn = Psn(static_cast<uint32_t>(random()));
  f.va = random();
  f.rkey = static_cast<uint32_t>(random());
  f.dma_length = static_cast<uint32_t>(random());
  f.imm = static_cast<uint32_t>(random());
  f.syndrome = static_cast<uint8_t>(random());
  f.msn = static_cast<uint32_t>(random()) & Psn::kMask;
  f.swap_add = random();
  f.compare = random();
  f.atomic_original = random();
  f.qkey = static_cast<uint32_t>(random());
  f.src_qpn = static_cast<uint32_t>(random()) & kQpnMask;
  return f;
}

void expect_same(const RoceFields& f, const RoceView& r) {
  const OpcodeInfo& info = opcode_info(f.opcode);
  SCOPED_TRACE(info.name);
  EXPECT_EQ(r.opcode, static_cast<uint8_t>(f.opcode));
  EXPECT_EQ(r.solicited, f.solicited);
  EXPECT_EQ(r.migration, f.migration);
  EXPECT_EQ(r.ack_request, f.ack_request);
  EXPECT_EQ(r.becn, f.becn);
  EXPECT_FALSE(r.fecn);
  EXPECT_EQ(r.pkey, f.pkey);
  EXPECT_EQ(r.dest_qpn, f.dest_qpn);
  EXPECT_EQ(r.psn, f.psn);
  const bool addressed = info.reth || info.atomic_eth;
  EXPECT_EQ(r.va, addressed ? f.va : 0);
  EXPECT_EQ(r.rkey, addressed ? f.rkey : 0);
  EXPECT_EQ(r.dma_length, info.reth ? f.dma_length : 0);
  EXPECT_EQ(r.imm, info.imm || info.ieth ? f.imm : 0);
  EXPECT_EQ(r.syndrome, info.aeth ? f.syndrome : 0);
  EXPECT_EQ(r.msn, info.aeth ? f.msn : 0);
  EXPECT_EQ(r.swap_add, info.atomic_eth ? f.swap_add : 0);
  EXPECT_EQ(r.compare, info.atomic_eth ? f.compare : 0);
  EXPECT_EQ(r.atomic_original, info.atomic_ack ? f.atomic_original : 0);
  EXPECT_EQ(r.qkey, info.deth ? f.qkey : 0);
  EXPECT_EQ(r.src_qpn, info.deth ? f.src_qpn : 0);
}

// rules: A1.1 A1.7 A3.1 A3.2
TEST(Build, ParsesBackForEveryOpcodeFamilyTagAndSize) {
  std::mt19937_64 random(1);
  const size_t sizes[] = {0, 1, 2, 3, 4, 5, 63, 256, 1021, 1024, 4095, 4096};
  for (Opcode opcode : known_opcodes()) {
    for (bool v6 : {false, true}) {
      for (bool tagged : {false, true}) {
        for (size_t size : sizes) {
          RoceAddressing a =
              sample_addressing(v6, tagged ? std::optional<uint16_t>(0xb123) : std::nullopt);
          a.traffic_class = static_cast<uint8_t>(random());
          a.ttl = static_cast<uint8_t>(random());
          a.udp_src = static_cast<uint16_t>(random());
          const RoceFields f = random_fields(opcode, random);
          const auto payload = random_bytes(size, random);
          const Parsed p(roce_frame(a, f, payload));
          ASSERT_EQ(p.kind, FrameKind::kRoce);
          EXPECT_TRUE(icrc_ok(p.view, p.roce));
          expect_same(f, p.roce);
          EXPECT_EQ(p.roce.payload_bytes, size);
          EXPECT_EQ(p.roce.pad, (4 - size % 4) % 4);
          EXPECT_TRUE(std::equal(payload.begin(), payload.end(), p.bytes.begin() + p.roce.payload));
          EXPECT_EQ(p.view.ip_end, p.bytes.size());
          EXPECT_EQ(p.view.src_mac, a.src_mac);
          EXPECT_EQ(p.view.dst_mac, a.dst_mac);
          EXPECT_EQ(p.view.vlans, tagged ? 1 : 0);
          EXPECT_EQ(p.view.vlan[0].tci, tagged ? 0xb123 : 0);
          EXPECT_EQ(p.view.v6, v6);
          EXPECT_EQ(p.view.src, a.src);
          EXPECT_EQ(p.view.dst, a.dst);
          EXPECT_EQ(p.view.tos, a.traffic_class);
          EXPECT_EQ(p.view.ttl, a.ttl);
          EXPECT_EQ(p.view.udp_src, a.udp_src);
          EXPECT_EQ(p.roce.payload, roce_head_bytes(a, opcode));
          EXPECT_LE(p.roce.payload, kMostRoceHeadBytes);
        }
      }
    }
  }
}

TEST(Build, PadBytesAreZeroEvenInUsedMemory) {
  const RoceAddressing a = sample_addressing(false);
  RoceFields f;
  f.opcode = Opcode::kSendOnly;
  std::vector<uint8_t> frame(roce_frame_bytes(a, f.opcode, 1), 0xff);
  *begin_roce(frame.data(), a, f, 1) = 7;
  finish_roce(frame.data(), a, f.opcode, 1);
  EXPECT_EQ(frame[frame.size() - 8], 7);
  for (size_t i = 5; i <= 7; ++i) EXPECT_EQ(frame[frame.size() - i], 0);
}

// rules: A1.2 A1.3
TEST(Build, Ipv4HeaderIsRuleA1s) {
  const auto frame = roce_frame(sample_addressing(false), RoceFields{});
  EXPECT_EQ(frame[14], 0x45);
  EXPECT_EQ(frame[18] << 8 | frame[19], 0) << "id";
  EXPECT_EQ(frame[20] << 8 | frame[21], 0x4000) << "DF";
  EXPECT_EQ(frame[40] << 8 | frame[41], 0) << "UDP checksum";
  EXPECT_EQ(checksum_finish(checksum_add(0, frame.data() + 14, 20)), 0);
}

// rules: A6.3
TEST(Build, CnpIs32BytesOfUdpPayload) {
  RoceFields f;
  f.opcode = Opcode::kCnp;
  f.becn = true;
  const auto frame = roce_frame(sample_addressing(false), f, std::vector<uint8_t>(kCnpPadBytes));
  EXPECT_EQ(frame.size(), 14u + 20 + 8 + 32);  // rule A6
  EXPECT_EQ(frame[14 + 20 + 8 + 4], 0x40);
}

TEST(Build, ChecksumExampleOfRfc1071) {
  const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(checksum_finish(checksum_add(0, bytes, sizeof bytes)), static_cast<uint16_t>(~0xddf2));
  const uint32_t half = checksum_add(0, bytes, 4);
  EXPECT_EQ(checksum_add(half, bytes + 4, 4), checksum_add(0, bytes, 8)) << "may be continued";
  EXPECT_EQ(checksum_finish(checksum_add(0, bytes, 7)), static_cast<uint16_t>(~(0xddf2 - 0x00f7)))
      << "odd length";
}

TEST(Build, PseudoHeaderOfUdp) {
  // 10.0.0.1 -> 10.0.0.2, protocol 17, length 8: summed by hand.
  const uint32_t v4 =
      pseudo_header_sum(*IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2"), 17, 8);
  EXPECT_EQ(v4, 0x0a00u + 0x0001 + 0x0a00 + 0x0002 + 17 + 8);
  const uint32_t v6 =
      pseudo_header_sum(*IpAddress::parse("fd00::1"), *IpAddress::parse("fd00::2"), 58, 0x12345);
  uint32_t expected = 0xfd00 + 1 + 0xfd00 + 2 + 58 + 1 + 0x2345;
  expected = (expected & 0xffff) + (expected >> 16);
  EXPECT_EQ(v6, expected);
}

}  // namespace
}  // namespace understudy
