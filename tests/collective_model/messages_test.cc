// Schedules against the worked numbers of docs/nccl 2.8 (trees), 3.9-3.11, appendix G.
#include <gtest/gtest.h>

#include <numeric>

#include "collective_model/nccl/double_tree.h"
#include "collective_model/nccl/p2p_rounds.h"
#include "collective_model/schedule/p2p.h"
#include "collective_model/schedule/tree.h"
#include "tests/collective_model/sizes.h"
#include "tests/collective_model/walk.h"

namespace understudy {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

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

// With PXN a rank sends by the NIC that its peer has in the peer's node (docs/nccl 2.5). Numbers and
// sizes of messages stay, and so does what does not leave the node.
TEST(Pxn, SendsByTheReceiversNic) {
  Communicator own;
  own.nodes = 3;
  own.gpus = own.nics = 4;
  own.channels = 4;
  Communicator pxn = own;
  pxn.pxn = true;
  Operation operation;
  operation.collective = Collective::kAllToAll;
  operation.count = 100'000;
  const P2pRounds rounds(own);
  for (uint32_t rank = 0; rank < own.ranks(); ++rank) {
    const P2pRankSchedule a(own, operation, rounds, rank), b(pxn, operation, rounds, rank);
    ASSERT_EQ(a.connections().size(), b.connections().size());
    for (uint32_t i = 0; i < a.connections().size(); ++i) {
      const Connection &c = a.connections()[i], &d = b.connections()[i];
      EXPECT_EQ(c.to, d.to);
      EXPECT_EQ(c.messages, d.messages);
      EXPECT_EQ(c.nic, rank % 4);
      EXPECT_FALSE(c.relayed);
      if (!d.network) continue;
      EXPECT_EQ(d.nic, d.to % 4) << d.from << " -> " << d.to;
      EXPECT_EQ(d.relayed, d.from % 4 != d.to % 4);
    }
  }
}

}  // namespace
}  // namespace understudy
