// How NCCL cuts a message in parts, and when all of them have come.
#include "dataplane/nccl/message_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace understudy {
namespace {

std::vector<uint64_t> lengths(uint64_t bytes, uint32_t parts) {
  std::vector<uint64_t> out;
  for (uint32_t part = 0; part < parts; ++part) {
    out.push_back(message_part(bytes, parts, part).bytes);
  }
  return out;
}

/// As NCCL was seen to cut them (docs/nccl 3.2).
TEST(MessageParts, AreCutAsNcclCutsThem) {
  EXPECT_EQ(lengths(9000, 4), (std::vector<uint64_t>{2304, 2304, 2304, 2088}));
  EXPECT_EQ(lengths(100, 4), (std::vector<uint64_t>{100, 0, 0, 0}));
  EXPECT_EQ(lengths(9000, 2), (std::vector<uint64_t>{4608, 4392}));
  EXPECT_EQ(lengths(0, 2), (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(lengths(77, 1), (std::vector<uint64_t>{77}));
}

TEST(MessageParts, FollowEachOtherToTheEnd) {
  std::mt19937_64 random(3);
  for (unsigned i = 0; i < 20'000; ++i) {
    const uint64_t bytes = random() >> (random() % 44 + 20);
    const auto parts = static_cast<uint32_t>(1 + random() % 8);
    uint64_t sum = 0;
    for (uint32_t part = 0; part < parts; ++part) {
      const MessagePart cut = message_part(bytes, parts, part);
      EXPECT_TRUE(cut.bytes == 0 || cut.from == sum) << bytes << " in " << parts;
      EXPECT_EQ(cut.from % 128, 0U);
      EXPECT_LE(cut.bytes, message_part(bytes, parts, 0).bytes);
      sum += cut.bytes;
    }
    EXPECT_EQ(sum, bytes) << "in " << parts;
  }
}

/// Parts come in any order that a window allows: as many messages are whole as there are in front
/// of the first one that lacks a part.
TEST(WholeMessages, AreWholeInTheirOrderWithTheirLastPart) {
  std::mt19937 random(5);
  for (unsigned i = 0; i < 300; ++i) {
    const auto parts = static_cast<uint32_t>(1 + random() % 8);
    const auto window = static_cast<uint32_t>(1 + random() % 9);
    const uint32_t messages = 40;
    WholeMessages whole(parts, window);
    std::vector<uint32_t> came(messages);
    uint32_t done = 0;
    while (done < messages) {
      std::vector<uint32_t> open;
      for (uint32_t k = done; k < std::min(messages, done + window); ++k) {
        if (came[k] < parts) open.push_back(k);
      }
      const uint32_t k = open[random() % open.size()];
      ++came[k];
      const uint32_t before = done;
      while (done < messages && came[done] == parts) ++done;
      ASSERT_EQ(whole.take(k), done - before) << parts << " parts, a window of " << window;
    }
  }
}

}  // namespace
}  // namespace understudy
