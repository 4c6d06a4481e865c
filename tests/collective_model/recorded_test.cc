// Schedules against what NCCL sent in the recorded runs of docs/nccl J.3 and J.5, and against
// what its own generators give.
#include <gtest/gtest.h>

#include "collective_model/nccl/p2p_rounds.h"
#include "collective_model/nccl/pat_pattern.h"
#include "tests/collective_model/sizes.h"
#include "tests/collective_model/walk.h"

namespace understudy {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

TEST(RecordedRuns, J3RingAllReduces) {
  struct Row {
    uint32_t ranks;
    uint64_t floats;
    uint32_t channels, version;
    std::vector<uint64_t> messages;  // of each channel, all the same number
  };
  const Row rows[] = {
      {4, 16777216, 1, 28, {96}},
      {4, 25000, 1, 28, {12}},
      {4, 2, 1, 28, {12}},
      {4, 26214400, 4, 28, {48, 48, 48, 48}},
      {4, 16777216, 3, 28, {36, 36, 36}},
      {5, 16777216, 2, 28, {64, 64}},
      {8, 3000001, 2, 28, {28, 28}},
      {16, 16777216, 2, 28, {60, 60}},
      {64, 16777216, 1, 28, {252}},
      {2, 16777216, 1, 28, {64}},
      {4, 16777216, 2, 29, {48, 48}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.ranks) + " ranks, " + std::to_string(row.floats) + " floats");
    const Communicator c = nodes_of(row.ranks, row.channels, 1, row.version);
    const Operation o = operation_of(Collective::kAllReduce, row.floats * 4);
    ASSERT_EQ(part_sizes(c, o).size(), row.messages.size());
    for (uint32_t i = 0; i < row.messages.size(); ++i) {
      EXPECT_EQ(sent(c, o, 2 * i).size(), row.messages[i]);
    }
  }
}

TEST(RecordedRuns, J3SizesOfThreeMillionFloats) {
  const Communicator c = nodes_of(8, 2);
  const Operation o = operation_of(Collective::kAllReduce, 3000001 * 4);
  EXPECT_EQ(part_sizes(c, o), (std::vector<uint64_t>{6004736, 5995268}));
  EXPECT_EQ(sent(c, o, 0), times(28, 375296));
  const auto second = sent(c, o, 2);
  const std::vector<uint64_t> first_sizes(second.begin(), second.begin() + 4);
  EXPECT_EQ(first_sizes, (std::vector<uint64_t>{374656, 374644, 374720, 374704}));
}

TEST(RecordedRuns, OneMillionFloatsInHalfMegabytes) {
  EXPECT_EQ(sent(nodes_of(4), operation_of(Collective::kAllReduce, 1048576 * 4)),
            times(12, 524288));
}

TEST(RecordedRuns, J3SendRecvOf400012Bytes) {
  const Communicator c = nodes_of(4);
  const Operation o = operation_of(Collective::kSendRecv, 400012);
  EXPECT_EQ(sent(c, o), joined(times(6, 65536), {6796}));
  EXPECT_EQ(rank_schedule(c, o, {}, 0)->connections()[0].capacity, 65536u);
}

TEST(RecordedRuns, J5MixedProtocols) {
  // 98,304 elements over 4 ranks: what rank 3 sends in each operation.
  struct Row {
    Collective collective;
    Protocol protocol;
    DataType type;
    size_t messages;
  };
  const Row rows[] = {
      {Collective::kAllReduce, Protocol::kLL, DataType::kFloat32, 18},
      {Collective::kAllReduce, Protocol::kSimple, DataType::kFloat64, 12},
      {Collective::kAllReduce, Protocol::kLL, DataType::kInt8, 6},
      {Collective::kAllGather, Protocol::kSimple, DataType::kFloat32, 6},
      {Collective::kReduceScatter, Protocol::kSimple, DataType::kFloat32, 6},
      {Collective::kBroadcast, Protocol::kSimple, DataType::kFloat32, 1},
  };
  for (const Row& row : rows) {
    Operation o = operation_of(row.collective, 0, Algorithm::kRing, row.protocol, row.type);
    o.count = 98304;
    o.root = 1;
    EXPECT_EQ(sent(nodes_of(4), o, 0, 3).size(), row.messages);
  }
}

TEST(RecordedRuns, J5ClassesAndLowLatency) {
  const auto ll = [](uint64_t floats, uint32_t channels, uint32_t connection) {
    return sent(nodes_of(4, channels),
                operation_of(Collective::kAllReduce, floats * 4, Algorithm::kRing, Protocol::kLL),
                connection);
  };
  EXPECT_EQ(ll(25000, 1, 0).size(), 6u);
  EXPECT_EQ(ll(1000003, 2, 0).size(), 96u);
  EXPECT_EQ(ll(1000003, 2, 2).size(), 96u);
  EXPECT_EQ(ll(16777216, 1, 0).size(), 3072u);
  struct Row {
    Collective collective;
    Algorithm algorithm;
    Protocol protocol;
    uint32_t capacity, slice_steps, chunk_steps;
  };
  const Row rows[] = {
      {Collective::kAllReduce, Algorithm::kRing, Protocol::kLL, 65536, 1, 1},
      {Collective::kAllReduce, Algorithm::kTree, Protocol::kLL, 65536, 1, 1},
      {Collective::kAllReduce, Algorithm::kRing, Protocol::kLL128, 614400, 1, 1},
      {Collective::kAllReduce, Algorithm::kRing, Protocol::kSimple, 1048576, 2, 4},
      {Collective::kAllGather, Algorithm::kRing, Protocol::kSimple, 1048576, 2, 4},
      {Collective::kReduceScatter, Algorithm::kRing, Protocol::kSimple, 1048576, 2, 4},
      {Collective::kBroadcast, Algorithm::kRing, Protocol::kSimple, 524288, 1, 1},
      {Collective::kReduce, Algorithm::kRing, Protocol::kSimple, 524288, 1, 1},
      {Collective::kAllReduce, Algorithm::kTree, Protocol::kSimple, 524288, 1, 1},
      {Collective::kAllGather, Algorithm::kPat, Protocol::kSimple, 524288, 1, 1},
  };
  for (const Row& row : rows) {
    const Communicator c = nodes_of(4);
    const Operation o = operation_of(row.collective, kMiB, row.algorithm, row.protocol);
    const auto schedule = rank_schedule(c, o, cut_of(c, o), 0);
    for (const Connection& connection : schedule->connections()) {
      EXPECT_EQ(connection.capacity, row.capacity);
      EXPECT_EQ(connection.slice_steps, row.slice_steps);
      EXPECT_EQ(connection.chunk_steps, row.chunk_steps);
      EXPECT_EQ(connection.window, 8 / row.slice_steps);
    }
  }
}

// Counts and pieces of messages as NCCL's own generators give them, for one chunk of up to 64 KiB.
TEST(Generators, PatMessagesOfEachDistance) {
  struct Row {
    bool gather, gaps;
    uint32_t ranks;
    uint64_t block;
    std::vector<std::vector<uint32_t>> pieces;  // by dimension and message
  };
  const Row rows[] = {
      {false, true, 6, 100, {{4}, {2}, {1}}},
      {true, true, 6, 100, {{3}, {1}, {1}}},
      {false, true, 6, 40000, {{1, 1, 1}, {1}, {1}}},
      {true, true, 6, 40000, {{1, 1, 1}, {1}, {1}}},
      {false, true, 7, 100, {{4}, {2}, {1}}},
      {true, true, 7, 100, {{3}, {2}, {1}}},
      {false, true, 7, 40000, {{1, 1, 1}, {1, 1}, {1}}},
      {true, true, 7, 40000, {{1, 1, 1}, {1, 1}, {1}}},
      {false, true, 12, 100, {{8}, {4}, {2}, {1}}},
      {true, true, 12, 100, {{6}, {3}, {1}, {1}}},
      {false, true, 12, 40000, {{1, 1, 1, 1, 1, 1}, {1, 1, 1}, {1}, {1}}},
      {true, true, 12, 40000, {{1, 1, 1, 1, 1, 1}, {1, 1, 1}, {1}, {1}}},
      {false, true, 20, 100, {{16}, {8}, {4}, {2}, {1}}},
      {true, true, 20, 100, {{10}, {5}, {2}, {1}, {1}}},
      {false, true, 20, 40000, {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1}, {1}, {1}}},
      {true, true, 20, 40000, {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1}, {1}, {1}}},
      {false, true, 33, 100, {{16, 16}, {16}, {8}, {4}, {2}, {1}}},
      {true, true, 33, 100, {{8, 8}, {8}, {4}, {2}, {1}, {1}}},
      {false,
       true,
       33,
       40000,
       {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 1, 1, 1, 1, 1, 1, 1},
        {1, 1, 1, 1},
        {1, 1},
        {1},
        {1}}},
      {true,
       true,
       33,
       40000,
       {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 1, 1, 1, 1, 1, 1, 1},
        {1, 1, 1, 1},
        {1, 1},
        {1},
        {1}}},
      {false, false, 6, 100, {{3}, {1}, {1}}},
      {false, false, 7, 100, {{3}, {2}, {1}}},
      {false, false, 12, 100, {{6}, {3}, {1}, {1}}},
      {false, false, 20, 100, {{10}, {5}, {2}, {1}, {1}}},
      {false, false, 33, 100, {{8, 8}, {8}, {4}, {2}, {1}, {1}}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.ranks) + " ranks, " + std::to_string(row.block) + " B");
    const PatPattern pattern(row.gather, row.ranks, row.block, 65536, row.gaps);
    std::vector<std::vector<uint32_t>> pieces(pattern.dimensions());
    for (uint32_t d = 0; d < pattern.dimensions(); ++d) {
      for (const PatPattern::Group& group : pattern.messages(d)) pieces[d].push_back(group.pieces);
    }
    EXPECT_EQ(pieces, row.pieces);
  }
}

// By the arithmetic of enqueue.cc in 2.22.3, 2.25.1, 2.28.9 and 2.29.7; n = 4, all-reduce.
TEST(Generators, PartsByVersion) {
  struct Row {
    uint32_t version;
    uint64_t bytes;
    uint32_t channels;
    Protocol protocol;
    std::vector<uint64_t> parts;
  };
  const Row rows[] = {
      {22, 16384, 8, Protocol::kSimple, {2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048}},
      {25, 16384, 8, Protocol::kSimple, {8192, 8192}},
      {28, 16384, 8, Protocol::kSimple, {8192, 8192}},
      {29, 16384, 8, Protocol::kSimple, {16384}},
      {22, 100000, 8, Protocol::kSimple, {12496, 12512, 12512, 12512, 12512, 12512, 12512, 12432}},
      {25, 100000, 8, Protocol::kSimple, {16384, 16384, 16384, 16384, 16384, 16384, 1696}},
      {28, 100000, 8, Protocol::kSimple, {16384, 16384, 16384, 16384, 16384, 16384, 1696}},
      {29, 100000, 8, Protocol::kSimple, {16384, 16384, 16384, 16384, 16384, 16384, 1696}},
      {22, 100000, 3, Protocol::kSimple, {33328, 33344, 33328}},
      {25, 100000, 3, Protocol::kSimple, {40960, 40960, 18080}},
      {28, 100000, 3, Protocol::kSimple, {40960, 40960, 18080}},
      {29, 100000, 3, Protocol::kSimple, {49152, 49152, 1696}},
      {22,
       1000000,
       8,
       Protocol::kSimple,
       {124992, 125008, 125008, 125008, 125008, 125008, 125008, 124960}},
      {25,
       1000000,
       8,
       Protocol::kSimple,
       {131072, 131072, 131072, 131072, 131072, 131072, 131072, 82496}},
      {28,
       1000000,
       8,
       Protocol::kSimple,
       {131072, 131072, 131072, 131072, 131072, 131072, 131072, 82496}},
      {29,
       1000000,
       8,
       Protocol::kSimple,
       {131072, 131072, 131072, 131072, 131072, 131072, 131072, 82496}},
      {22, 65536, 8, Protocol::kLL, {8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192}},
      {25, 65536, 8, Protocol::kLL, {8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192}},
      {28, 65536, 8, Protocol::kLL, {8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192}},
      {29, 65536, 8, Protocol::kLL, {8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192}},
      {22, 200000, 4, Protocol::kLL, {50000, 50000, 50000, 50000}},
      {25, 200000, 4, Protocol::kLL, {57344, 57344, 57344, 27968}},
      {28, 200000, 4, Protocol::kLL, {51200, 51200, 51200, 46400}},
      {29, 200000, 4, Protocol::kLL, {53248, 53248, 53248, 40256}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE("2." + std::to_string(row.version) + ", " + std::to_string(row.bytes) + " B");
    EXPECT_EQ(
        part_sizes(nodes_of(4, row.channels, 1, row.version),
                   operation_of(Collective::kAllReduce, row.bytes, Algorithm::kRing, row.protocol)),
        row.parts);
  }
}

TEST(Generators, ChannelsOfSendRecvByVersion) {
  Communicator c = nodes_of(4, 8);
  EXPECT_EQ(c.p2p_channels_per_peer(), 2u);
  c.nodes = 32;
  EXPECT_EQ(c.p2p_channels_per_peer(), 1u);  // 8 operations a channel
  c.version = {29};
  EXPECT_EQ(c.p2p_channels_per_peer(), 2u);
  c.nic_gigabytes = 50;
  EXPECT_EQ(c.p2p_channels_per_peer(), 2u);  // of 4, so that all peers fit in one round
  c.nodes = 16;
  EXPECT_EQ(c.p2p_channels_per_peer(), 4u);
  c.channels_per_peer = 1;
  EXPECT_EQ(c.p2p_channels_per_peer(), 1u);
}

}  // namespace
}  // namespace understudy
