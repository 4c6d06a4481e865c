// PSN arithmetic over the wrap at 2^24, wire integers, and the exact-mode values.
#include "dataplane/base/ids.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "dataplane/base/big_endian.h"
#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

TEST(Psn, DistanceIsSignedAndWraps) {
  EXPECT_EQ(Psn(0).distance_from(Psn(0xffffff)), 1);
  EXPECT_EQ(Psn(0xffffff).distance_from(Psn(0)), -1);
  EXPECT_EQ(Psn(0x7fffff).distance_from(Psn(0)), 0x7fffff);
  EXPECT_EQ(Psn(0x800000).distance_from(Psn(0)), -0x800000) << "half the space away is behind";
  EXPECT_EQ(Psn(0xfffff0).advance(0x20), Psn(0x10));
  EXPECT_EQ(Psn(0x1000005), Psn(5));
}

TEST(BigEndian, StandsAsOnTheWire) {
  const Be24 psn(0x010203);
  EXPECT_EQ(std::memcmp(&psn, "\x01\x02\x03", 3), 0);
  EXPECT_EQ(psn.get(), 0x010203u);
  EXPECT_EQ(Be24(0xff010203).get(), 0x010203u) << "the upper byte has no place";
  const Be64 va(0x0102030405060708);
  EXPECT_EQ(std::memcmp(&va, "\x01\x02\x03\x04\x05\x06\x07\x08", 8), 0);
  EXPECT_EQ(va.get(), 0x0102030405060708u);
  EXPECT_EQ(Be16(0xfffe).get(), 0xfffe);
  EXPECT_EQ(Be32(0x80000001).get(), 0x80000001u);
}

TEST(Pattern, ValuesShowEveryMistakeOfASum) {
  const Pattern a(1, 0);
  std::set<float> seen;
  for (uint64_t i = 0; i < 10'000; ++i) {
    const float v = a.at(i);
    ASSERT_GE(std::fabs(v), 0.5f);
    ASSERT_LT(std::fabs(v), 2.0f);
    ASSERT_NE(v, std::nearbyint(v));
    seen.insert(v);
  }
  EXPECT_GT(seen.size(), 9'900u);
  EXPECT_NE(Pattern(1, 1).at(0), a.at(0)) << "rank";
  EXPECT_NE(Pattern(2, 0).at(0), a.at(0)) << "seed";
  // Fixed for ever: recorded results and other programs (ring_node) depend on it.
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafULL);
}

}  // namespace
}  // namespace understudy
