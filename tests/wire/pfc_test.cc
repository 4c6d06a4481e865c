// PFC frames: the standard's bytes, and what is none.
#include "dataplane/wire/pfc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "dataplane/wire/parse.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

std::vector<uint8_t> bytes_of(const PfcFrame& frame) {
  std::vector<uint8_t> bytes(kPfcFrameBytes, 0xee);
  write_pfc(frame, bytes.data());
  return bytes;
}

// rules: A8.2
TEST(Pfc, TheFrameIsTheStandards) {
  PfcFrame frame;
  frame.source = kMacA;
  frame.priorities = 0x88;
  frame.quanta[3] = 0xffff;
  frame.quanta[4] = 77;  // of a priority for which it does not speak
  std::vector<uint8_t> expected = {
      0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0x75, 0x00, 0x00, 0x00, 0x0a,  // addresses
      0x88, 0x08, 0x01, 0x01, 0x00, 0x88,              // MAC control, PFC, priorities 3 and 7
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,  // times of 0 to 3
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // and of 4 to 7
  };
  expected.resize(60);
  EXPECT_EQ(bytes_of(frame), expected);
}

// rules: A8.2
TEST(Pfc, WhatIsWrittenIsRead) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    PfcFrame frame;
    for (uint8_t& b : frame.source.bytes) b = static_cast<uint8_t>(random());
    frame.priorities = static_cast<uint8_t>(random());
    for (unsigned p = 0; p < kPfcPriorities; ++p) {
      if ((frame.priorities >> p & 1) != 0) frame.quanta[p] = static_cast<uint16_t>(random());
    }
    const auto bytes = bytes_of(frame);
    PfcFrame read;
    ASSERT_TRUE(parse_pfc(bytes, read));
    EXPECT_EQ(read.source, frame.source);
    EXPECT_EQ(read.priorities, frame.priorities);
    EXPECT_EQ(read.quanta, frame.quanta);
    FrameView view;
    RoceView roce;
    EXPECT_EQ(parse_frame(bytes, view, roce), FrameKind::kMacControl);
  }
}

// rules: A8.2
TEST(Pfc, ReservedBitsAndOtherPrioritiesTimesAreNotLookedAt) {
  PfcFrame frame, read;
  frame.priorities = 0x01;
  frame.quanta[0] = 5;
  auto bytes = bytes_of(frame);
  bytes[16] = 0xff;  // upper half of the priorities
  bytes[21] = 9;     // time of priority 1
  bytes.back() = 1;  // padding
  ASSERT_TRUE(parse_pfc(bytes, read));
  EXPECT_EQ(read.priorities, 0x01);
  EXPECT_EQ(read.quanta[0], 5);
  EXPECT_EQ(read.quanta[1], 0);
}

// rules: A8.2
TEST(Pfc, OtherFramesAreNone) {
  PfcFrame frame, read;
  frame.priorities = 0xff;
  const auto good = bytes_of(frame);
  const auto with = [&](size_t at, uint8_t value) {
    auto bytes = good;
    bytes[at] = value;
    return parse_pfc(bytes, read);
  };
  EXPECT_TRUE(with(0, 0x01));
  EXPECT_FALSE(with(0, 0x03)) << "another address";
  EXPECT_FALSE(with(5, 0x02)) << "the neighbour group of the same range";
  EXPECT_FALSE(with(13, 0x09)) << "Ethertype of slow protocols";
  EXPECT_FALSE(with(14, 0x00)) << "plain PAUSE";
  auto tagged = good;
  const uint8_t tag[] = {0x81, 0x00, 0x60, 0x00};
  tagged.insert(tagged.begin() + 12, std::begin(tag), std::end(tag));
  EXPECT_FALSE(parse_pfc(tagged, read));
  FrameView view;
  RoceView roce;
  EXPECT_EQ(parse_frame(tagged, view, roce), FrameKind::kOther);
  for (size_t n = 0; n < good.size(); ++n) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(parse_pfc(cut, read), n >= kPfcHeaderBytes) << n;
  }
}

// rules: A8.2
TEST(Pfc, AQuantumIs512BitTimes) {
  const Rate rate = Rate::bits_per_second(100'000'000'000);
  EXPECT_EQ(pfc_time(1, rate), Duration::ps(5120));
  EXPECT_EQ(pfc_time(0xffff, rate), Duration::ps(335'539'200));
  EXPECT_EQ(pfc_time(0, rate), Duration());
  EXPECT_EQ(pfc_time(0xffff, Rate::bits_per_second(1'000'000)), Duration::us(33'553'920));
}

}  // namespace
}  // namespace understudy
