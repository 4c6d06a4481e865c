// Packets whose headers come from a template are those that are built whole.
#include "dataplane/wire/head_template.h"

#include <gtest/gtest.h>

#include "tests/wire/frames.h"

namespace understudy {
namespace {

// rules: A2.1 A3.1 A3.2
TEST(HeadTemplate, WritesWhatIsBuiltWhole) {
  std::mt19937_64 random(7);
  const uint32_t sizes[] = {0, 1, 4, 7, 63, 256, 1021, 4096};
  for (const Opcode opcode : known_opcodes()) {
    for (uint32_t round = 0; round < 40; ++round) {
      std::optional<uint16_t> tci;
      if (round % 4 >= 2) tci = static_cast<uint16_t>(random());
      RoceAddressing a = sample_addressing(round % 2 != 0, tci);
      a.traffic_class = static_cast<uint8_t>(random());
      a.udp_src = static_cast<uint16_t>(random());
      RoceFields f;
      f.opcode = opcode;
      f.migration = round % 3 != 0;
      f.solicited = round % 5 == 0;
      f.becn = round % 7 == 0;
      f.dest_qpn = static_cast<uint32_t>(random()) & kQpnMask;
      f.pkey = static_cast<uint16_t>(random());
      const uint32_t size = sizes[round % std::size(sizes)];
      HeadTemplate head;
      head.set(a, f, size);
      for (int i = 0; i < 4; ++i) {
        f.ack_request = i % 2 != 0;
        f.psn = Psn(static_cast<uint32_t>(random()));
        f.syndrome = static_cast<uint8_t>(random());
        f.msn = static_cast<uint32_t>(random()) & Psn::kMask;
        f.va = random();
        f.rkey = f.imm = f.dma_length = static_cast<uint32_t>(random());
        f.swap_add = f.compare = f.atomic_original = random();
        ASSERT_TRUE(head.fits(a, f, size));
        const auto payload = random_bytes(i < 2 ? size : 0, random);
        const std::vector<uint8_t> contents = i < 2 ? payload : std::vector<uint8_t>(size);
        const auto expected = roce_frame(a, f, contents);
        std::vector<uint8_t> frame(expected.size(), 0xee);
        uint32_t crc;
        uint8_t* const at = head.begin(frame.data(), f, crc);
        ASSERT_EQ(at, frame.data() + roce_head_bytes(a, opcode));
        std::copy(contents.begin(), contents.end(), at);
        if (i < 2) {
          finish_payload(at, size, crc);
        } else {
          finish_payload_of_zeros(at, size, crc);
        }
        ASSERT_EQ(frame, expected) << opcode_info(opcode).name << " of " << size;
      }
    }
  }
}

TEST(HeadTemplate, KnowsWhatItDoesNotFit) {
  RoceAddressing a = sample_addressing(false);
  RoceFields f;
  f.opcode = Opcode::kWriteMiddle;
  HeadTemplate head;
  head.set(a, f, 1024);
  EXPECT_TRUE(head.fits(a, f, 1024));
  EXPECT_FALSE(head.fits(a, f, 1023));
  f.solicited = true;
  EXPECT_FALSE(head.fits(a, f, 1024));
  f.solicited = false;
  f.opcode = Opcode::kSendMiddle;
  EXPECT_FALSE(head.fits(a, f, 1024));
  f.opcode = Opcode::kWriteMiddle;
  a.traffic_class |= 3;  // a mark
  EXPECT_FALSE(head.fits(a, f, 1024));
  a.traffic_class &= 0xfc;
  a.dst_mac.bytes[5] ^= 1;  // learned anew
  EXPECT_FALSE(head.fits(a, f, 1024));
}

}  // namespace
}  // namespace understudy
