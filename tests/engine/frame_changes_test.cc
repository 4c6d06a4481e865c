// Marks and damage in finished frames.
#include "dataplane/engine/send/frame_changes.h"

#include <gtest/gtest.h>

#include "dataplane/engine/state/notification.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

std::vector<uint8_t> frame_of(bool v6, Opcode opcode, size_t payload) {
  RoceFields fields;
  fields.opcode = opcode;
  fields.dest_qpn = 17;
  return roce_frame(sample_addressing(v6), fields, std::vector<uint8_t>(payload, 0x5a));
}

unsigned bits_between(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  unsigned bits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bits += static_cast<unsigned>(__builtin_popcount(static_cast<unsigned>(a[i] ^ b[i])));
  }
  return bits;
}

TEST(FrameChanges, AMarkKeepsChecksumAndIcrc) {
  for (const bool v6 : {false, true}) {
    std::vector<uint8_t> frame = frame_of(v6, Opcode::kSendOnly, 64);
    ASSERT_FALSE(marked(Parsed(frame).view.tos));
    mark_frame(frame);
    const Parsed after(frame);
    EXPECT_EQ(after.kind, FrameKind::kRoce) << v6;
    EXPECT_TRUE(marked(after.view.tos)) << v6;
    EXPECT_TRUE(icrc_ok(after.view, after.roce)) << v6;
  }
}

TEST(FrameChanges, DamageIsOneBitOfThePayload) {
  const std::vector<uint8_t> before = frame_of(false, Opcode::kSendOnly, 64);
  const Parsed parsed(before);
  for (uint64_t damage = 0; damage < 3 * 64 * 8; damage += 7) {
    std::vector<uint8_t> frame = before;
    damage_frame(frame, parsed.view, parsed.roce, damage, false);
    ASSERT_EQ(bits_between(before, frame), 1u);
    const Parsed after(frame);
    EXPECT_FALSE(icrc_ok(after.view, after.roce));
    EXPECT_TRUE(std::equal(frame.begin(), frame.begin() + parsed.roce.payload, before.begin()));
  }
}

TEST(FrameChanges, DamageWithAGoodIcrcIsNotSeenByIt) {
  std::vector<uint8_t> frame = frame_of(true, Opcode::kSendOnly, 64);
  const std::vector<uint8_t> before = frame;
  const Parsed parsed(frame);
  damage_frame(frame, parsed.view, parsed.roce, 12345, true);
  EXPECT_NE(frame, before);
  const Parsed after(frame);
  EXPECT_TRUE(icrc_ok(after.view, after.roce));
}

TEST(FrameChanges, WithoutPayloadTheHeadersBehindTheBthAreHit) {
  const std::vector<uint8_t> before = frame_of(false, Opcode::kAcknowledge, 0);
  const Parsed parsed(before);
  std::vector<uint8_t> frame = before;
  damage_frame(frame, parsed.view, parsed.roce, 3, false);
  ASSERT_EQ(bits_between(before, frame), 1u);
  const size_t at = static_cast<size_t>(
      std::mismatch(before.begin(), before.end(), frame.begin()).first - before.begin());
  EXPECT_GE(at, parsed.roce.bth + 12);
  EXPECT_LT(at, before.size() - 4);
}

}  // namespace
}  // namespace understudy
