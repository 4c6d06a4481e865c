// The ring schedule against the worked examples of docs/nccl 3.9, 3.11 and appendix G, and
// against what an all-reduce is: every rank ends with every rank's contribution, once.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "collective_model/schedule/simple_all_reduce.h"

namespace understudy {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

std::vector<uint32_t> sizes(const RingSchedule& schedule, uint32_t rank) {
  std::vector<uint32_t> result;
  for (uint32_t m = 0; m < schedule.messages(); ++m) result.push_back(schedule.size(rank, m));
  return result;
}

std::vector<uint64_t> part_sizes(uint64_t bytes, uint32_t channels) {
  std::vector<uint64_t> result;
  uint64_t end = 0;
  for (const ChannelPart& part : cut_all_reduce(bytes, 4, channels)) {
    EXPECT_EQ(part.offset, end);
    end += part.bytes;
    result.push_back(part.bytes);
  }
  EXPECT_EQ(end, bytes);
  return result;
}

std::vector<uint64_t> equal_parts(uint64_t count, uint64_t bytes) {
  return std::vector<uint64_t>(count, bytes);
}

TEST(ChannelCut, FollowsTheTable) {
  EXPECT_EQ(part_sizes(0, 4), equal_parts(0, 0));
  for (const uint32_t channels : {1u, 2u, 4u, 8u}) {
    EXPECT_EQ(part_sizes(8, channels), equal_parts(1, 8));
    EXPECT_EQ(part_sizes(4 * kKiB, channels), equal_parts(1, 4 * kKiB));
    EXPECT_EQ(part_sizes(64 * kMiB, channels), equal_parts(channels, 64 * kMiB / channels));
    EXPECT_EQ(part_sizes(1 * kGiB, channels), equal_parts(channels, kGiB / channels));
  }
  for (const uint32_t channels : {2u, 4u, 8u}) {
    EXPECT_EQ(part_sizes(16 * kKiB, channels), equal_parts(2, 8 * kKiB));
    EXPECT_EQ(part_sizes(64 * kKiB, channels), equal_parts(channels, 64 * kKiB / channels));
  }
  EXPECT_EQ(part_sizes(100 * kMiB, 4), equal_parts(4, 25 * kMiB));
  EXPECT_EQ(part_sizes(100000, 8),
            (std::vector<uint64_t>{16384, 16384, 16384, 16384, 16384, 16384, 1696}));
  EXPECT_EQ(part_sizes(64 * kMiB, 3), (std::vector<uint64_t>{22372352, 22372352, 22364160}));
}

TEST(ChannelCut, GivesTheLastChannelWhatRoundingDownLeavesOver) {
  // 2 * bytes / 16 rounds down to one cell of traffic per channel, but there are 17 cells.
  std::vector<uint64_t> expected = equal_parts(16, 8192);
  expected.back() = 8192 + 4;
  EXPECT_EQ(part_sizes(16 * 8192 + 4, 16), expected);
}

TEST(RingSchedule, SmallOperationComesAsPairsWithAnEmptySecondSlice) {
  const RingSchedule schedule(4, {0, 100000}, 4);
  EXPECT_EQ(sizes(schedule, 0), (std::vector<uint32_t>{24976, 0, 25008, 0, 25008, 0,  //
                                                       25008, 0, 24976, 0, 25008, 0}));
}

TEST(RingSchedule, TinyOperationHasOneChunkThatIsNotEmpty) {
  const RingSchedule schedule(4, {0, 8}, 4);
  ASSERT_EQ(schedule.messages(), 12u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (uint32_t m = 0; m < 12; ++m) {
      const RingMessage message = schedule.sent(rank, m);
      EXPECT_EQ(message.size, message.chunk == 0 && message.slice == 0 ? 8u : 0u);
      EXPECT_LE(message.offset + message.size, 8u);
    }
  }
}

TEST(RingSchedule, MegabyteMessagesInNcclsOrder) {
  const RingSchedule schedule(4, {0, 64 * kMiB}, 4);
  ASSERT_EQ(schedule.loops(), 8u);
  ASSERT_EQ(schedule.messages(), 96u);
  const std::vector<uint32_t> chunks = {3, 2, 1, 0, 3, 2};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (uint32_t m = 0; m < 96; ++m) {
      const RingMessage message = schedule.sent(rank, m);
      const uint32_t chunk = (chunks[m % 12 / 2] + rank) % 4;
      EXPECT_EQ(message.size, kMiB);
      EXPECT_EQ(message.loop, m / 12);
      EXPECT_EQ(message.chunk, chunk);
      EXPECT_EQ(message.offset, (m / 12 * 4 + chunk) * 2 * kMiB + m % 2 * kMiB);
    }
  }
  const RingAction actions[] = {RingAction::kOwn,    RingAction::kReduce, RingAction::kReduce,
                                RingAction::kReduce, RingAction::kCopy,   RingAction::kCopy};
  for (uint32_t m = 0; m < 12; ++m) EXPECT_EQ(schedule.sent(0, m).action, actions[m / 2]);
}

TEST(RingSchedule, GrowsWithTheRanksAsNcclDoes) {
  struct Row {
    uint32_t ranks, messages;
    uint64_t size;
  };
  const Row rows[] = {{2, 64, kMiB},          {4, 96, kMiB},         {8, 112, kMiB},
                      {16, 120, kMiB},        {64, 252, 512 * kKiB}, {256, 1020, 128 * kKiB},
                      {1024, 4092, 32 * kKiB}};
  for (const Row& row : rows) {
    const RingSchedule schedule(row.ranks, {0, 64 * kMiB}, 4);
    EXPECT_EQ(sizes(schedule, 1),
              std::vector<uint32_t>(row.messages, static_cast<uint32_t>(row.size)));
  }
  const RingSchedule large(2048, {0, 64 * kMiB}, 4);
  EXPECT_EQ(large.size(0, 0), 32 * kKiB);
  EXPECT_EQ(large.size(0, 1), 0u);
}

TEST(RingSchedule, TailLoopIsShorterButHasAllItsSteps) {
  const RingSchedule schedule(4, {75 * kMiB, 25 * kMiB}, 4);
  std::vector<uint32_t> expected(48, kMiB);
  std::fill(expected.begin() + 36, expected.end(), 131072u);
  EXPECT_EQ(sizes(schedule, 2), expected);
}

TEST(RingSchedule, TwoChannelsOfOneOperation) {
  const auto parts = cut_all_reduce(16 * kMiB, 4, 2);
  ASSERT_EQ(parts.size(), 2u);
  for (const ChannelPart& part : parts) {
    const RingSchedule schedule(4, part, 4);
    EXPECT_EQ(sizes(schedule, 0), std::vector<uint32_t>(12, kMiB));
    EXPECT_EQ(schedule.sent(0, 6).offset, part.offset);  // chunk 0
  }
}

TEST(RingSchedule, SlicesAreGroupsOfSixteenElements) {
  // 3 ranks, chunk 100000 B: half of it in elements, rounded up to 16 of them.
  EXPECT_EQ(RingSchedule(3, {0, 300000}, 4).size(0, 0), 50048u);  // 25000 el -> 782 groups of 32
  EXPECT_EQ(RingSchedule(3, {0, 300000}, 1).size(0, 0), 50000u);
  EXPECT_EQ(RingSchedule(3, {0, 300000}, 8).size(0, 0), 50048u);
  EXPECT_EQ(RingSchedule(3, {0, 300000}, 8).size(0, 1), 49952u);
}

// What a rank holds of a byte: how often each rank's contribution is in it (4 bits per rank).
using Sum = uint64_t;

/// Runs the schedule on symbols and checks that all ranks end with all contributions once.
void expect_all_reduce(uint32_t ranks, uint64_t bytes, uint32_t element_size, uint32_t channels) {
  const uint64_t elements = bytes / element_size;
  std::vector<std::vector<Sum>> own(ranks), result(ranks, std::vector<Sum>(elements, 0));
  Sum all = 0;
  for (uint32_t r = 0; r < ranks; ++r) {
    own[r].assign(elements, Sum{1} << (4 * r));
    all += Sum{1} << (4 * r);
  }
  for (const ChannelPart& part : cut_all_reduce(bytes, element_size, channels)) {
    const RingSchedule schedule(ranks, part, element_size);
    // wire[r][m]: what rank r sent as message m.
    std::vector<std::vector<std::vector<Sum>>> wire(ranks);
    for (uint32_t m = 0; m < schedule.messages(); ++m) {
      uint64_t step_bytes = 0;
      for (uint32_t r = 0; r < ranks; ++r) {
        const RingMessage message = schedule.sent(r, m);
        step_bytes += message.size;
        ASSERT_EQ(message.size % element_size, 0u);
        ASSERT_GE(message.offset, part.offset);
        ASSERT_LE(message.offset + message.size, part.offset + part.bytes);
        const uint64_t first = message.offset / element_size, count = message.size / element_size;
        std::vector<Sum> data(count, 0);
        if (message.action != RingAction::kOwn) {
          const uint32_t from = (r + ranks - 1) % ranks;
          const RingMessage received = schedule.sent(from, m - RingSchedule::kSlices);
          ASSERT_EQ(received.offset, message.offset);
          ASSERT_EQ(received.size, message.size);
          data = wire[from][m - RingSchedule::kSlices];
        }
        for (uint64_t i = 0; i < count; ++i) {
          if (message.action != RingAction::kCopy) data[i] += own[r][first + i];
          if (message.step + 1 >= ranks) result[r][first + i] = data[i];
        }
        wire[r].push_back(std::move(data));
      }
      if (m % RingSchedule::kSlices == 1) {
        // The two slices of a step over all ranks are the whole loop.
        for (uint32_t r = 0; r < ranks; ++r) step_bytes += schedule.size(r, m - 1);
        const uint64_t loop_bytes = uint64_t{ranks} * RingSchedule::kChunkBytes;
        const uint64_t begin = schedule.sent(0, m).loop * loop_bytes;
        ASSERT_EQ(step_bytes, std::min(loop_bytes, part.bytes - begin));
      }
    }
    // The last step's messages are copied out by their receivers.
    for (uint32_t m = 0; m < schedule.messages(); ++m) {
      for (uint32_t r = 0; r < ranks; ++r) {
        const RingMessage message = schedule.sent(r, m);
        if (message.step + 1 != schedule.steps()) continue;
        const uint64_t first = message.offset / element_size;
        for (uint64_t i = 0; i < message.size / element_size; ++i) {
          result[(r + 1) % ranks][first + i] = wire[r][m][i];
        }
      }
    }
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    ASSERT_EQ(result[r], std::vector<Sum>(elements, all))
        << ranks << " ranks, " << bytes << " B, rank " << r;
  }
}

TEST(RingSchedule, EveryContributionReachesEveryRankOnce) {
  for (uint32_t ranks = 2; ranks <= 9; ++ranks) {
    for (const uint64_t bytes : {8ul, 64ul, 4096ul, 100000ul, 300008ul, 1048576ul}) {
      for (const uint32_t channels : {1u, 2u, 5u}) expect_all_reduce(ranks, bytes, 8, channels);
    }
  }
  expect_all_reduce(3, 1000, 4, 1);
  expect_all_reduce(5, 777777, 1, 2);
  expect_all_reduce(2, 9 * kMiB + 16, 8, 1);  // three loops, the last one short
}

}  // namespace
}  // namespace understudy
