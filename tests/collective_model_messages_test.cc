// Schedules against the worked numbers of `nccl-wire.md`: 2.8 (trees), 3.9-3.11, appendix G, and
// what NCCL sent in the recorded runs of J.3 and J.5.
#include <gtest/gtest.h>

#include <numeric>

#include "collective_model/double_tree.h"
#include "collective_model/p2p_rounds.h"
#include "collective_model/pat_pattern.h"
#include "collective_model/schedule_p2p.h"
#include "collective_model/schedule_tree.h"
#include "tests/collective_model_walk.h"

namespace understudy {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

OperationCut cut_of(const Communicator& communicator, const Operation& operation) {
  auto cut = cut_group(communicator, {&operation, 1});
  EXPECT_TRUE(cut);
  return (*cut)[0];
}

std::vector<uint64_t> part_sizes(const Communicator& communicator, const Operation& operation) {
  std::vector<uint64_t> sizes;
  for (const ChannelPart& part : cut_of(communicator, operation).parts) sizes.push_back(part.bytes);
  return sizes;
}

/// Wire sizes of what rank 0 sends on its connection `connection`.
std::vector<uint64_t> sent(const Communicator& communicator, const Operation& operation,
                           uint32_t connection = 0, uint32_t rank = 0) {
  OperationCut cut;
  if (!is_p2p(operation.collective)) cut = cut_of(communicator, operation);
  const auto schedule = rank_schedule(communicator, operation, cut, rank);
  std::vector<uint64_t> sizes;
  for (uint64_t k = 0; k < schedule->connections()[connection].messages; ++k) {
    sizes.push_back(schedule->message(connection, k).wire);
  }
  return sizes;
}

std::vector<uint64_t> joined(std::vector<uint64_t> a, const std::vector<uint64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// `count` times (x, 0).
std::vector<uint64_t> pairs(uint64_t count, uint64_t x) {
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < count; ++i) {
    sizes.push_back(x);
    sizes.push_back(0);
  }
  return sizes;
}

TEST(WorkedNumbers, G1PartsAndMessages) {
  struct Row {
    uint64_t bytes;
    uint32_t channels;
    std::vector<uint64_t> parts;
    std::vector<uint64_t> messages;  // of the first channel
  };
  const Row rows[] = {
      {4 * kKiB, 2, {4096}, pairs(6, 1024)},
      {4 * kKiB, 8, {4096}, pairs(6, 1024)},
      {16 * kKiB, 2, times(2, 8192), pairs(6, 2048)},
      {16 * kKiB, 8, times(2, 8192), pairs(6, 2048)},
      {64 * kKiB, 2, times(2, 32768), pairs(6, 8192)},
      {64 * kKiB, 4, times(4, 16384), pairs(6, 4096)},
      {64 * kKiB, 8, times(8, 8192), pairs(6, 2048)},
      {100000, 8, joined(times(6, 16384), {1696}), pairs(6, 4096)},
      {kMiB, 1, {kMiB}, times(12, 131072)},
      {kMiB, 2, times(2, 524288), times(12, 65536)},
      {kMiB, 8, times(8, 131072), pairs(6, 32768)},
      {16 * kMiB, 2, times(2, 8 * kMiB), times(12, kMiB)},
      {16 * kMiB, 4, times(4, 4 * kMiB), times(12, 512 * kKiB)},
      {16 * kMiB, 8, times(8, 2 * kMiB), times(12, 256 * kKiB)},
      {64 * kMiB, 2, times(2, 32 * kMiB), times(48, kMiB)},
      {64 * kMiB, 4, times(4, 16 * kMiB), times(24, kMiB)},
      {64 * kMiB, 8, times(8, 8 * kMiB), times(12, kMiB)},
      {100 * kMiB, 4, times(4, 25 * kMiB), joined(times(36, kMiB), times(12, 131072))},
      {kGiB, 2, times(2, 512 * kMiB), times(768, kMiB)},
      {kGiB, 4, times(4, 256 * kMiB), times(384, kMiB)},
      {kGiB, 8, times(8, 128 * kMiB), times(192, kMiB)},
      {64 * kMiB, 3, {22372352, 22372352, 22364160}, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.bytes) + " B on " + std::to_string(row.channels));
    const Communicator c = nodes_of(4, row.channels);
    const Operation o = operation_of(Collective::kAllReduce, row.bytes);
    EXPECT_EQ(part_sizes(c, o), row.parts);
    if (row.messages.empty()) continue;
    EXPECT_EQ(sent(c, o), row.messages);
  }
  // 8 bytes: chunk 0 has them, the others nothing. Rank 0 sends chunk 0 in step 3.
  std::vector<uint64_t> tiny = times(12, 0);
  tiny[6] = 8;
  EXPECT_EQ(sent(nodes_of(4, 8), operation_of(Collective::kAllReduce, 8)), tiny);
}

TEST(WorkedNumbers, Section39PairsOfASmallRing) {
  EXPECT_EQ(sent(nodes_of(4), operation_of(Collective::kAllReduce, 100000)),
            (std::vector<uint64_t>{24976, 0, 25008, 0, 25008, 0, 25008, 0, 24976, 0, 25008, 0}));
}

TEST(WorkedNumbers, Section311DependenciesOfARing) {
  const Communicator c = nodes_of(4);
  const Operation o = operation_of(Collective::kAllReduce, 64 * kMiB);
  const auto schedule = rank_schedule(c, o, cut_of(c, o), 0);
  ASSERT_EQ(schedule->connections().size(), 2u);
  const Connection& out = schedule->connections()[0];
  const Connection& in = schedule->connections()[1];
  EXPECT_EQ(out.to, 1u);
  EXPECT_EQ(in.from, 3u);
  EXPECT_EQ(out.messages, 96u);
  EXPECT_EQ(out.window, 4u);
  EXPECT_EQ(out.capacity, kMiB);
  EXPECT_EQ(out.slice_steps, 2u);
  const uint32_t chunks[] = {3, 2, 1, 0, 3, 2}, received[] = {2, 1, 0, 3, 2, 1};
  for (uint64_t m = 0; m < 96; ++m) {
    EXPECT_EQ(schedule->message(0, m).offset,
              (m / 12 * 4 + chunks[m % 12 / 2]) * 2 * kMiB + m % 2 * kMiB);
    EXPECT_EQ(schedule->message(1, m).offset,
              (m / 12 * 4 + received[m % 12 / 2]) * 2 * kMiB + m % 2 * kMiB);
    const Waits waits = schedule->waits(0, m);
    if (m < 2) {
      EXPECT_EQ(waits.size(), 0u);
    } else if (m % 12 >= 2) {
      ASSERT_EQ(waits.size(), 1u);
      EXPECT_EQ(*waits.begin(), (Wait{Wait::Moment::kArrival, 1, m - 2}));
    } else {
      ASSERT_EQ(waits.size(), 1u);
      EXPECT_EQ(*waits.begin(), (Wait{Wait::Moment::kDone, 1, m / 12 * 12 - 1}));
    }
  }
}

TEST(WorkedNumbers, G2GrowthWithTheRanks) {
  const Operation o = operation_of(Collective::kAllReduce, 64 * kMiB);
  EXPECT_EQ(sent(nodes_of(2), o), times(64, kMiB));
  EXPECT_EQ(sent(nodes_of(8), o), times(112, kMiB));
  EXPECT_EQ(sent(nodes_of(16), o), times(120, kMiB));
  EXPECT_EQ(sent(nodes_of(64), o), times(252, 512 * kKiB));
  EXPECT_EQ(sent(nodes_of(256), o), times(1020, 128 * kKiB));
  EXPECT_EQ(sent(nodes_of(1024), o), times(4092, 32 * kKiB));
}

TEST(WorkedNumbers, G3LowLatencyProtocols) {
  const auto ring = [](uint64_t bytes, Protocol protocol) {
    return sent(nodes_of(4),
                operation_of(Collective::kAllReduce, bytes, Algorithm::kRing, protocol));
  };
  EXPECT_EQ(ring(64 * kMiB, Protocol::kLL), times(3072, 65536));
  EXPECT_EQ(ring(kMiB, Protocol::kLL), times(48, 65536));
  EXPECT_EQ(ring(100000, Protocol::kLL),
            (std::vector<uint64_t>{49952, 50016, 50016, 50016, 49952, 50016}));
  const auto large = ring(64 * kMiB, Protocol::kLL128);
  ASSERT_EQ(large.size(), 180u);
  for (size_t i = 0; i < 174; ++i) EXPECT_EQ(large[i], 614400u);
  EXPECT_LT(large[174], 614400u);
  EXPECT_EQ(ring(kMiB, Protocol::kLL128), times(6, 280576));
  EXPECT_EQ(ring(100000, Protocol::kLL128), times(6, 28672));
}

TEST(WorkedNumbers, Section28Trees) {
  struct Row {
    uint32_t nodes, tree, node;
    int parent, child0, child1;
  };
  const Row rows[] = {
      {4, 0, 0, -1, -1, 2}, {4, 0, 1, 2, -1, -1}, {4, 0, 2, 0, 1, 3},   {4, 0, 3, 2, -1, -1},
      {4, 1, 0, 1, -1, -1}, {4, 1, 1, 3, 2, 0},   {4, 1, 2, 1, -1, -1}, {4, 1, 3, -1, -1, 1},
      {5, 0, 0, -1, -1, 4}, {5, 0, 1, 2, -1, -1}, {5, 0, 2, 4, 1, 3},   {5, 0, 3, 2, -1, -1},
      {5, 0, 4, 0, 2, -1},  {5, 1, 3, 0, 2, 4},   {5, 1, 0, 1, 3, -1},  {5, 1, 1, -1, -1, 0},
      {5, 1, 2, 3, -1, -1}, {5, 1, 4, 3, -1, -1}, {8, 0, 0, -1, -1, 4}, {8, 0, 4, 0, 2, 6},
      {8, 0, 2, 4, 1, 3},   {8, 0, 6, 4, 5, 7},   {8, 0, 1, 2, -1, -1}, {8, 0, 7, 6, -1, -1},
      {8, 1, 7, -1, -1, 3}, {8, 1, 3, 7, 5, 1},   {8, 1, 5, 3, 6, 4},   {8, 1, 1, 3, 2, 0},
      {8, 1, 6, 5, -1, -1}, {8, 1, 0, 1, -1, -1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.nodes) + " nodes, tree " + std::to_string(row.tree) +
                 ", node " + std::to_string(row.node));
    const DoubleTree trees(row.nodes);
    const uint32_t place = trees.place(row.tree, row.node);
    EXPECT_EQ(place == 0 ? -1 : static_cast<int>(trees.rank(row.tree, trees.parent(place))),
              row.parent);
    for (const uint32_t which : {0u, 1u}) {
      const auto child = trees.child(place, which);
      EXPECT_EQ(child ? static_cast<int>(trees.rank(row.tree, *child)) : -1,
                which == 0 ? row.child0 : row.child1);
    }
    // The rank of a node with one GPU has all of its links.
    const TreePlace links = tree_place(nodes_of(row.nodes, 2), row.tree, row.node);
    EXPECT_EQ(links.up ? static_cast<int>(*links.up) : -1, row.parent);
    EXPECT_EQ(links.down.size(), (row.child0 >= 0 ? 1u : 0u) + (row.child1 >= 0 ? 1u : 0u));
  }
}

TEST(WorkedNumbers, TreesOfChannels) {
  const auto trees = [](uint32_t channels, uint32_t search) {
    Communicator c = nodes_of(4, channels);
    c.search_channels = search;
    std::vector<uint32_t> of;
    for (uint32_t channel = 0; channel < channels; ++channel) of.push_back(c.tree_of(channel));
    return of;
  };
  using Trees = std::vector<uint32_t>;
  EXPECT_EQ(trees(4, 0), (Trees{0, 0, 1, 1}));
  EXPECT_EQ(trees(4, 2), (Trees{0, 0, 1, 1}));
  EXPECT_EQ(trees(4, 1), (Trees{0, 1, 0, 1}));  // 2.28.9 and 2.29.7 with NCCL_MIN_NCHANNELS=4
  EXPECT_EQ(trees(2, 2), (Trees{0, 0}));        // NCCL_MAX_NCHANNELS=2
  EXPECT_EQ(trees(1, 1), (Trees{0}));
}

TEST(WorkedNumbers, TreesOfNodesWithSeveralGpus) {
  // Balanced trees: the chain's first GPU has the parent and child 1, the second one child 0.
  const Communicator c = nodes_of(4, 2, 4);
  const TreePlace first = tree_place(c, 0, 8);  // node 2 of tree 0: parent 0, children 1 and 3
  EXPECT_EQ(first.up, 0u);                      // child 1 of the root
  EXPECT_EQ(first.down, (std::vector<uint32_t>{9, 12}));
  const TreePlace second = tree_place(c, 0, 9);
  EXPECT_EQ(second.up, 8u);
  EXPECT_EQ(second.down, (std::vector<uint32_t>{10, 4}));
  const TreePlace child = tree_place(c, 0, 4);  // node 1 is child 0 of node 2
  EXPECT_EQ(child.up, 9u);
  EXPECT_EQ(tree_place(c, 0, 11).down, std::vector<uint32_t>{});
}

TEST(WorkedNumbers, G4TreeAllReduce) {
  const Walk walk(nodes_of(4, 2),
                  operation_of(Collective::kAllReduce, 64 * kMiB, Algorithm::kTree));
  const std::pair<uint32_t, uint32_t> edges[2][3] = {{{0, 2}, {2, 1}, {2, 3}},
                                                     {{3, 1}, {1, 0}, {1, 2}}};
  for (const uint32_t channel : {0u, 1u}) {
    for (const auto& [parent, child] : edges[channel]) {
      EXPECT_EQ(walk.wire(child, parent, channel), times(64, 524288));
      EXPECT_EQ(walk.wire(parent, child, channel), times(64, 524288));
    }
  }
  // Rank 0: on channel 0 from and to rank 2, on channel 1 to and from rank 1.
  const auto& own = walk.rank(0).connections();
  ASSERT_EQ(own.size(), 4u);
  EXPECT_EQ(own[0].from, 2u);
  EXPECT_EQ(own[1].to, 2u);
  EXPECT_EQ(own[2].to, 1u);
  EXPECT_EQ(own[3].from, 1u);
  EXPECT_EQ(own[0].capacity, 524288u);
  EXPECT_EQ(walk.rank(0).waits(2, 5).size(), 0u) << "a leaf sends as it likes";
  EXPECT_EQ(walk.rank(0).waits(1, 5).size(), 1u) << "the root spreads what came up";
  const Walk small(nodes_of(4, 2), operation_of(Collective::kAllReduce, 100000, Algorithm::kTree));
  EXPECT_EQ(small.wire(2, 0, 0), times(1, 57344));
  EXPECT_EQ(small.wire(1, 3, 1), times(1, 42656));
}

TEST(WorkedNumbers, G5SendRecv) {
  struct Row {
    uint64_t bytes;
    uint32_t channels;  // of send/recv; 2 a peer
    std::vector<std::vector<uint64_t>> parts;
  };
  // 4 ranks: with 4 channels at least 1, with 8 at least 2 are used.
  const Row rows[] = {
      {0, 4, {{0}}},
      {4, 4, {{4}}},
      {32768, 4, {{32768}}},
      {65536, 4, {{32768, 32768}}},
      {65536, 8, {{32768, 32768}}},
      {65540, 4, {{32768, 32768, 4}}},
      {65540, 8, {{32768, 4096}, {28676}}},
      {100000, 4, {{32768, 32768, 32768, 1696}}},
      {100000, 8, {{32768, 20480}, {32768, 13984}}},
      {131072, 4, {{65536, 65536}}},
      {131072, 8, {{65536}, {65536}}},
      {262144, 4, {{65536, 65536}, {65536, 65536}}},
      {262144, 8, {{65536, 65536}, {65536, 65536}}},
      {524288, 4, {times(4, 65536), times(4, 65536)}},
      {kMiB, 4, {times(4, 131072), times(4, 131072)}},
      {kMiB, 8, {times(4, 131072), times(4, 131072)}},
      {16 * kMiB, 8, {times(64, 131072), times(64, 131072)}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.bytes) + " B, " + std::to_string(row.channels) + " channels");
    const Communicator c = nodes_of(4, row.channels);
    const auto schedule = rank_schedule(c, operation_of(Collective::kSendRecv, row.bytes), {}, 0);
    std::vector<std::vector<uint64_t>> parts;
    for (uint32_t i = 0; i < schedule->connections().size(); ++i) {
      const Connection& connection = schedule->connections()[i];
      EXPECT_EQ(connection.index, 1u);
      if (connection.direction == Direction::kReceive) continue;
      EXPECT_EQ(connection.to, 1u);
      parts.emplace_back();
      for (uint64_t k = 0; k < connection.messages; ++k) {
        parts.back().push_back(schedule->message(i, k).wire);
      }
    }
    EXPECT_EQ(parts, row.parts);
  }
  // 65,537 bytes as the table has them.
  const P2pCut cut = p2p_cut(nodes_of(4, 8), 65537, true);
  EXPECT_EQ(cut.parts, 2u);
  EXPECT_EQ(cut.part_bytes, 36864u);
}

TEST(WorkedNumbers, P2pRoundsFollowTheTriangularNumbers) {
  std::vector<uint32_t> order;
  const P2pRounds rounds(nodes_of(16));
  for (uint32_t i = 0; i < rounds.count(); ++i) {
    order.push_back(rounds.of(0, i).to);
    EXPECT_EQ(rounds.between(0, order.back()), i);
    EXPECT_EQ(rounds.between(rounds.of(0, i).from, 0), i);
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 3, 6, 10, 15, 5, 12, 4, 13, 7, 2, 14, 11, 9, 8}));
}

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
