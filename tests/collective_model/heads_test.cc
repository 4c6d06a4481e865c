// What reductions over heads move: NVLS' law, and CollNet's.
#include "collective_model/schedule/heads.h"

#include <gtest/gtest.h>

#include <map>

#include "collective_model/schedule/group.h"

namespace understudy {
namespace {

constexpr uint64_t kBytes = uint64_t{64} << 20;

Communicator machine(uint32_t nodes, uint32_t gpus, uint32_t channels = 16) {
  Communicator c;
  c.nodes = nodes;
  c.gpus = c.nics = gpus;
  c.channels = channels;
  return c;
}

Operation all_reduce(Algorithm algorithm, uint64_t bytes = kBytes) {
  Operation o;
  o.algorithm = algorithm;
  o.count = bytes / 4;
  return o;
}

std::vector<std::shared_ptr<const RankSchedule>> ranks_of(const Communicator& c,
                                                          const Operation& o) {
  auto made = kernel_schedules(c, {&o, 1});
  EXPECT_TRUE(made) << (made ? "" : made.error().text);
  return made ? *made : std::vector<std::shared_ptr<const RankSchedule>>();
}

/// Bytes that each rank's messages have, over the network or not.
uint64_t sent(const RankSchedule& rank, bool network) {
  uint64_t sum = 0;
  for (uint32_t c = 0; c < rank.connections().size(); ++c) {
    const Connection& own = rank.connections()[c];
    if (own.direction != Direction::kSend || own.network != network) continue;
    for (uint64_t k = 0; k < own.messages; ++k) sum += rank.message(c, k).wire;
  }
  return sum;
}

/// What a GPU's link carries up: every connection counts for its shares.
uint64_t on_link(const RankSchedule& rank) {
  uint64_t sum = 0;
  for (uint32_t c = 0; c < rank.connections().size(); ++c) {
    const Connection& own = rank.connections()[c];
    if (own.direction != Direction::kSend || own.network) continue;
    for (uint64_t k = 0; k < own.messages; ++k) sum += rank.message(c, k).wire * own.shares;
  }
  return sum;
}

// S (n+1)/n each way, against the ring's 2 S (n-1)/n.
TEST(Heads, AnNvlsLinkCarriesItsLaw) {
  for (const uint32_t n : {2u, 4u, 8u, 16u}) {
    const Communicator c = machine(1, n);
    for (const auto& rank : ranks_of(c, all_reduce(Algorithm::kNvls))) {
      EXPECT_EQ(on_link(*rank), kBytes * (n + 1) / n) << n;
      EXPECT_EQ(ways_out(*rank), 16 * (n + 1));
      EXPECT_EQ(sent(*rank, true), 0u);
    }
    for (const auto& rank : ranks_of(c, all_reduce(Algorithm::kRing))) {
      EXPECT_EQ(on_link(*rank), kBytes * 2 * (n - 1) / n) << n;
    }
  }
}

// A switch reaches 85 % of a link: 1 MiB as one of 9 shares of 450 GB/s.
TEST(Heads, SwitchesReachLessThanTheLink) {
  const NodeWay way{Rate::bits_per_second(3'600'000'000'000), Duration::ns(500), 85};
  Connection plain, reduced;
  reduced.in_switch = true;
  EXPECT_NEAR(way.time_for(plain, 1 << 20, 9).microseconds(), 20.97, .01);
  EXPECT_NEAR(way.time_for(reduced, 1 << 20, 9).microseconds(), 20.97 / .85, .01);
}

// Between nodes an NVLS tree sends what a double binary tree of the nodes does, each head its part.
TEST(Heads, AnNvlsTreeIsATreeOfHeads) {
  const uint32_t gpus = 8;
  const auto heads = ranks_of(machine(4, gpus), all_reduce(Algorithm::kNvlsTree));
  const auto nodes = ranks_of(machine(4, 1), all_reduce(Algorithm::kTree));
  ASSERT_EQ(heads.size(), 32u);
  ASSERT_EQ(nodes.size(), 4u);
  for (uint32_t node = 0; node < 4; ++node) {
    uint64_t sum = 0;
    for (uint32_t g = 0; g < gpus; ++g) {
      const uint64_t own = sent(*heads[node * gpus + g], true);
      EXPECT_EQ(own, sent(*nodes[node], true) / gpus) << node << " " << g;
      sum += own;
    }
    EXPECT_EQ(sum, sent(*nodes[node], true)) << node;
  }
}

// Fewer NICs than GPUs: the first GPU of each is a head, and no other one sends to other nodes.
TEST(Heads, ThereIsOneForEachNic) {
  Communicator c = machine(3, 8);
  c.nics = 4;
  const auto ranks = ranks_of(c, all_reduce(Algorithm::kNvlsTree));
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const bool head = r % 8 % 2 == 0;
    EXPECT_EQ(sent(*ranks[r], true) > 0, head) << r;
    EXPECT_EQ(on_link(*ranks[r]), kBytes + (head ? kBytes / 4 : 0)) << r;
  }
}

// Each node sends its sum to the network's switches once, and gets that of all once.
TEST(Heads, CollnetSendsEachByteOnce) {
  for (const Algorithm algorithm : {Algorithm::kCollnetDirect, Algorithm::kCollnetChain}) {
    const auto ranks = ranks_of(machine(4, 8), all_reduce(algorithm));
    std::map<uint32_t, uint64_t> by_node;
    for (uint32_t r = 0; r < ranks.size(); ++r) {
      by_node[r / 8] += sent(*ranks[r], true);
      for (const Connection& own : ranks[r]->connections()) {
        if (!own.network) continue;
        EXPECT_EQ(own.from, own.to);
        EXPECT_EQ(own.shares, 1u);
      }
    }
    for (const auto& [node, bytes] : by_node) EXPECT_EQ(bytes, kBytes) << node;
  }
}

// NVLS' chunks become short where there are few loops.
TEST(Heads, ChunksFitTheOperation) {
  const auto chunk = [](uint32_t nodes, uint64_t bytes) {
    const Operation o = all_reduce(nodes == 1 ? Algorithm::kNvls : Algorithm::kNvlsTree, bytes);
    return chunking_of(machine(nodes, 8, 1), o, bytes, 1).chunk_bytes;
  };
  const uint64_t mib = 1 << 20;
  EXPECT_EQ(chunk(1, 64 * mib), 131072u);  // 64 loops of 8 heads' 128 KiB
  EXPECT_EQ(chunk(1, 64 * mib - 1), 65536u);
  EXPECT_EQ(chunk(1, 4 * mib - 1), 32768u);
  EXPECT_EQ(chunk(1, mib / 2 - 1), 16384u);
  EXPECT_EQ(chunk(2, 4 * mib), 131072u);
  EXPECT_EQ(chunk(2, 4 * mib - 1), 65536u);
  EXPECT_EQ(chunk(4, 64 * mib), 65536u);
}

// What the last loop leaves is cut in whole 16 KiB of NVLS, whole 16 bytes of its tree.
TEST(Heads, LastChunksAreWhole) {
  const auto sizes = [](uint32_t nodes) {
    const Operation o = all_reduce(nodes == 1 ? Algorithm::kNvls : Algorithm::kNvlsTree, 100'000);
    std::vector<uint32_t> chunks;
    for (const auto& rank : ranks_of(machine(nodes, 4, 1), o)) {
      for (uint32_t c = 0; c < rank->connections().size(); ++c) {
        const Connection& own = rank->connections()[c];
        const bool to_last = own.direction == Direction::kSend && own.from == 0 && own.index == 2;
        if (to_last) chunks.push_back(rank->message(c, own.messages - 1).data);
      }
    }
    return chunks;  // of heads 1, 2, 3
  };
  EXPECT_EQ(sizes(1), (std::vector<uint32_t>{16384, 1696, 0}));
  EXPECT_EQ(sizes(2), (std::vector<uint32_t>{25'008, 25'008, 24'976}));
}

TEST(Heads, WhatCannotBeIsRefused) {
  const auto why = [](Communicator c, Operation o) {
    const auto checked = check_operation(c, o);
    return checked ? std::string() : checked.error().text;
  };
  const Operation nvls = all_reduce(Algorithm::kNvls), tree = all_reduce(Algorithm::kNvlsTree);
  EXPECT_EQ(why(machine(1, 8), nvls), "");
  EXPECT_EQ(why(machine(2, 8), nvls), "algorithm: nvls: within one node; several take nvls-tree");
  EXPECT_EQ(why(machine(1, 8), tree), "algorithm: nvls-tree: needs several nodes; one takes nvls");
  EXPECT_EQ(why(machine(4, 1), tree), "algorithm: nvls-tree: needs 2 to 16 ranks a node");
  EXPECT_EQ(why(machine(2, 16), all_reduce(Algorithm::kCollnetChain)),
            "algorithm: collnet-chain: takes 8 ranks a node at most");
  Operation other = nvls;
  other.protocol = Protocol::kLL;
  EXPECT_EQ(why(machine(1, 8), other), "protocol: ll: nvls goes by simple only");
  other = nvls;
  other.collective = Collective::kAllGather;
  EXPECT_EQ(why(machine(1, 8), other),
            "algorithm: nvls: known for all_reduce only, not for all_gather");
  Communicator old = machine(1, 8);
  old.version = {21};
  EXPECT_EQ(why(old, nvls), "nccl: 2.21: nvls is known from 2.22 on");
}

}  // namespace
}  // namespace understudy
