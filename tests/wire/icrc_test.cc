// The invariant CRC: a check vector that two independent programs agree on (rule A2), what the mask
// covers, and recorded packets of Linux' soft RoCE.
#include "dataplane/wire/icrc.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/rigs/pcap_frames.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

RoceFields sample_ack() {
  RoceFields f;
  f.opcode = Opcode::kAcknowledge;
  f.migration = false;
  f.dest_qpn = 0xd2;
  f.psn = Psn(5);
  f.syndrome = 0;
  f.msn = 1;
  return f;
}

// rules: A2.1
TEST(Icrc, CheckVectorOfRuleA2) {
  const auto frame = roce_frame(sample_addressing(false), sample_ack());
  const uint8_t expected[] = {0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd2, 0x00, 0x00,
                              0x00, 0x05, 0x00, 0x00, 0x00, 0x01, 0xa3, 0xfb, 0x8e, 0x71};
  ASSERT_EQ(frame.size(), 14 + 20 + 8 + sizeof expected);
  EXPECT_EQ(std::memcmp(frame.data() + 42, expected, sizeof expected), 0);
}

/// Bit by bit, from the definition: reflected polynomial 0xedb88320 over eight bytes of ones and
/// the packet with its mutable fields set to ones.
uint32_t slow_icrc(std::vector<uint8_t> ip, bool v6) {
  const size_t udp = v6 ? 40 : 20;
  if (v6) {
    ip[0] |= 0x0f;
    ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
  } else {
    ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
  }
  ip[udp + 6] = ip[udp + 7] = ip[udp + 8 + 4] = 0xff;
  ip.insert(ip.begin(), 8, 0xff);
  uint32_t crc = 0xffffffff;
  for (uint8_t byte : ip) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// rules: A2.1
TEST(Icrc, OfPacketsWhoseHeadersMayBeKnown) {
  IcrcMemory memory;
  std::mt19937_64 random(5);
  std::vector<std::vector<uint8_t>> packets;
  for (int i = 0; i < 8; ++i) {  // few, so that places are met again
    const bool v6 = i % 4 == 3;
    auto& p = packets.emplace_back((v6 ? 40 : 20) + 8 + 12 + random() % 80);
    std::ranges::generate(p, [&] { return static_cast<uint8_t>(random()); });
    p[0] = v6 ? 0x60 : 0x45;
  }
  for (int round = 0; round < 20'000; ++round) {
    auto& p = packets[random() % packets.size()];
    const bool v6 = p[0] >> 4 == 6;
    // Often only the PSN, or what the ICRC leaves out; else any byte but the version.
    const size_t bth = (v6 ? 40 : 20) + 8;
    const size_t at = random() % 3 == 0 ? 1 + random() % (p.size() - 1) : bth + 8 + random() % 4;
    p[at] ^= static_cast<uint8_t>(1u << random() % 8);
    const auto qpn = static_cast<uint32_t>(random() % 3);
    ASSERT_EQ(memory.icrc(p, qpn, p[bth] & 1), slow_icrc(p, v6)) << round << ", byte " << at;
  }
}

// rules: A2.1
TEST(Icrc, GoesOnFromThePsnWordAndOverZerosUnread) {
  std::mt19937_64 random(3);
  for (uint32_t round = 0; round < 400; ++round) {
    const bool v6 = round % 2 != 0;
    const size_t before = (v6 ? 40 : 20) + 8 + 8, after = random() % 48;
    std::vector<uint8_t> ip(before + 4 + after);
    for (uint8_t& byte : ip) byte = static_cast<uint8_t>(random());
    ip[0] = v6 ? 0x60 : 0x45;
    const uint32_t zeros = round < 40 ? round : static_cast<uint32_t>(random() % 16384);
    std::vector<uint8_t> whole = ip;
    whole.resize(ip.size() + zeros);
    const uint32_t crc = icrc_go_on(icrc_before_psn(ip.data()), std::span(ip).subspan(before));
    ASSERT_EQ(crc, slow_icrc(ip, v6)) << after;
    ASSERT_EQ(icrc_after_zeros(crc, zeros), slow_icrc(whole, v6)) << zeros;
  }
}

// rules: A2.1 A2.2
TEST(Icrc, EqualsTheDefinitionBitByBit) {
  std::mt19937_64 random(7);
  for (bool v6 : {false, true}) {
    for (size_t payload : {0u, 1u, 3u, 64u, 1000u, 4096u}) {
      RoceFields f;
      f.opcode = Opcode::kWriteOnly;
      f.psn = Psn(static_cast<uint32_t>(random()));
      f.va = random();
      const auto frame = roce_frame(sample_addressing(v6), f, random_bytes(payload, random));
      const std::vector<uint8_t> ip(frame.begin() + 14, frame.end() - 4);
      EXPECT_EQ(icrc(ip), slow_icrc(ip, v6));
      EXPECT_EQ(load_icrc(frame.data() + frame.size() - 4), icrc(ip));
    }
  }
}

/// Offsets, from the IP header on, of the bits that routers and NICs may change under way.
bool mutable_bit(bool v6, size_t byte, unsigned bit) {
  const size_t udp = v6 ? 40 : 20;
  if (byte == udp + 6 || byte == udp + 7 || byte == udp + 12) return true;
  if (!v6) return byte == 1 || byte == 8 || byte == 10 || byte == 11;
  return (byte == 0 && bit < 4) || (byte >= 1 && byte <= 3) || byte == 7;
}

// rules: A2.1 A2.2
TEST(Icrc, CoversEveryBitButTheMutableOnes) {
  for (bool v6 : {false, true}) {
    const auto frame = roce_frame(sample_addressing(v6), sample_ack());
    std::vector<uint8_t> ip(frame.begin() + 14, frame.end() - 4);
    const uint32_t good = icrc(ip);
    for (size_t byte = 0; byte < ip.size(); ++byte) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        if (byte == 0 && bit >= 4) continue;  // the IP version itself
        ip[byte] ^= static_cast<uint8_t>(1u << bit);
        EXPECT_EQ(icrc(ip) == good, mutable_bit(v6, byte, bit)) << "byte " << byte << " v6 " << v6;
        ip[byte] ^= static_cast<uint8_t>(1u << bit);
      }
    }
  }
}

// rules: A2.1 A2.2
TEST(Icrc, RecordedPacketsOfSoftRoce) {
  const std::filesystem::path folder = std::string(UNDERSTUDY_TEST_DATA) + "/rxe";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no recordings in " << folder;
  size_t roce = 0, unreliable = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".pcap") continue;
    for (const auto& frame : pcap_frames(entry.path())) {
      const Parsed p(frame);
      if (p.kind == FrameKind::kIp || p.kind == FrameKind::kArp) continue;
      ASSERT_EQ(p.kind, FrameKind::kRoce) << entry.path() << " " << frame_kind_name(p.kind);
      EXPECT_TRUE(icrc_ok(p.view, p.roce)) << entry.path();
      ++roce;
      unreliable += p.roce.info().unreliable ? 1 : 0;
    }
  }
  EXPECT_GT(roce, 1000u);
  EXPECT_GT(unreliable, 0u);
}

}  // namespace
}  // namespace understudy
