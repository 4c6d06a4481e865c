// From what real ranks send and receive to what all ranks do.
#include "collective_model/inference/pair_operation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "collective_model/schedule/group.h"
#include "collective_model/schedule/p2p.h"

namespace understudy {
namespace {

Communicator nodes_of(uint32_t nodes, uint32_t gpus = 1) {
  Communicator c;
  c.nodes = nodes;
  c.gpus = gpus;
  c.channels = 2;
  return c;
}

/// What ranks would be told to do in an operation.
std::vector<RankPairs> parts_of(const Communicator& c, const Operation& o,
                                const std::vector<uint32_t>& real) {
  std::vector<RankPairs> all;
  for (const uint32_t rank : real) {
    RankPairs& pairs = all.emplace_back();
    pairs.rank = rank;
    for (uint32_t peer = 0; peer < c.ranks(); ++peer) {
      if (const auto bytes = pair_bytes(c, o, rank, peer)) pairs.sends[peer] = *bytes;
      if (const auto bytes = pair_bytes(c, o, peer, rank)) pairs.receives[peer] = *bytes;
    }
  }
  return all;
}

Operation operation(Collective collective, uint64_t bytes, uint32_t root = 0) {
  Operation o;
  o.collective = collective;
  o.type = DataType::kInt8;
  o.count = bytes;
  o.root = root;
  return o;
}

TEST(PairOperation, KindsAreKnown) {
  const Communicator c = nodes_of(5, 2);
  const std::vector<uint32_t> real = {4, 5};
  for (const Operation& o :
       {operation(Collective::kAllToAll, 1000), operation(Collective::kSendRecv, 7),
        operation(Collective::kGather, 0, 5), operation(Collective::kScatter, 1 << 20, 4)}) {
    const auto found = pair_operation(c, parts_of(c, o, real));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->collective, o.collective);
    EXPECT_EQ(found->bytes(), o.bytes());
    EXPECT_EQ(found->root, o.root);
  }
}

/// Whatever it is, the real ranks do what they said, and all schedules fit together.
TEST(PairOperation, RealRanksDoWhatTheySaid) {
  std::mt19937 random(7);
  for (unsigned i = 0; i < 200; ++i) {
    const Communicator c =
        nodes_of(static_cast<uint32_t>(2 + random() % 6), static_cast<uint32_t>(1 + random() % 2));
    std::vector<uint32_t> real;
    for (uint32_t g = 0; g < c.gpus; ++g) real.push_back(c.gpus + g);
    std::vector<RankPairs> told;
    for (const uint32_t rank : real) {
      told.push_back({rank, {}, {}});
      for (uint32_t peer = 0; peer < c.ranks(); ++peer) {
        if (c.local(rank, peer)) continue;
        if (random() % 3 != 0) told.back().sends[peer] = random() % (1 << 20);
        if (random() % 3 != 0) told.back().receives[peer] = random() % (1 << 20);
      }
    }
    const auto found = pair_operation(c, told);
    ASSERT_TRUE(found) << found.error().text;
    for (const RankPairs& pairs : told) {
      const auto said = parts_of(c, *found, {pairs.rank});
      EXPECT_EQ(said[0].sends, pairs.sends);
      EXPECT_EQ(said[0].receives, pairs.receives);
    }
    const auto schedules = kernel_schedules(c, {&*found, 1});
    ASSERT_TRUE(schedules);
    std::vector<const RankSchedule*> all;
    for (const auto& rank : *schedules) all.push_back(rank.get());
    EXPECT_TRUE(far_ends(all));
  }
}

/// Where the real rank does at all distances what comes to it, the others do so, too.
TEST(PairOperation, OthersDoTheSameAtTheSameDistances) {
  const Communicator c = nodes_of(6);
  const std::vector<RankPairs> told = {{2, {{3, 10}, {5, 20}}, {{1, 11}, {5, 21}}}};
  const auto found = pair_operation(c, told);
  ASSERT_TRUE(found);
  const auto bytes = [&](uint32_t from, uint32_t to) { return pair_bytes(c, *found, from, to); };
  EXPECT_EQ(bytes(0, 1), 10u);
  EXPECT_EQ(bytes(0, 3), 20u);
  EXPECT_EQ(bytes(1, 2), 11u);
  EXPECT_EQ(bytes(5, 2), 21u);
  EXPECT_EQ(bytes(2, 5), 20u);
  EXPECT_FALSE(bytes(0, 2));
  // It does not: they only do what it says.
  const auto alone = pair_operation(c, std::vector<RankPairs>{{2, {{3, 10}}, {{0, 11}}}});
  ASSERT_TRUE(alone);
  EXPECT_EQ(std::ranges::count(alone->pair_bytes, kNoPair), 34);
}

TEST(PairOperation, ContradictionsAreNamed) {
  const Communicator c = nodes_of(3, 2);
  const auto error = [&](const std::vector<RankPairs>& told) {
    const auto found = pair_operation(c, told);
    return found ? std::string() : found.error().text;
  };
  EXPECT_EQ(error({{0, {{6, 1}}, {}}}), "rank 0 sends to rank 6 of 6");
  EXPECT_EQ(error({{0, {}, {{7, 1}}}}), "rank 0 receives from rank 7 of 6");
  EXPECT_EQ(error({{0, {{1, 5}}, {}}, {1, {}, {{0, 6}}}}),
            "rank 0 sends 5 bytes to rank 1, which receives 6 bytes");
  EXPECT_EQ(error({{0, {}, {}}, {1, {}, {{0, 6}}}}),
            "rank 0 sends nothing to rank 1, which receives 6 bytes");
}

}  // namespace
}  // namespace understudy
