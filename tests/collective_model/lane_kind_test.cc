// What a message on one channel says of its operation.
#include "collective_model/schedule/lane_kind.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/collective_model/walk.h"

namespace understudy {
namespace {

uint64_t draw(std::mt19937_64& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}

/// Which sizes a message leaves, against trying them all.
TEST(LaneKind, WhatAMessageLeavesIsAllThatHasIt) {
  std::mt19937_64 random(5);
  uint64_t tried = 0;
  for (const uint32_t version : {18u, 20u, 22u, 28u}) {
    Communicator c = nodes_of(static_cast<uint32_t>(draw(random, 2, 5)), 2, 1, version);
    c.buffers = {.simple = 8 * 4096, .ll = 8 * 512, .ll128 = 8 * 4096, .p2p_chunk = 4096};
    const std::vector<uint32_t> real = {1};
    const auto connections = border_connections(c, real);
    for (const LaneKind& kind : lane_kinds(c, real, connections, 1)) {
      for (int i = 0; i < 4; ++i) {
        const LaneKind::Way& way = kind.ways[random() % kind.ways.size()];
        const uint64_t most = std::min(kind.sizes.most(), 2 * kind.loop_bytes + 4096);
        if (kind.sizes.least() > most) continue;
        const uint64_t size = draw(random, kind.sizes.least(), most);
        const uint64_t k = random() % kind.messages(way, size);
        const uint32_t wire = *kind.wire(way, k, size);
        const uint32_t before = k == 0 ? 0 : *kind.wire(way, k - 1, size);
        const SizeSet left = kind.with_wire(way, k, wire, before);
        ASSERT_TRUE(left.contains(size));
        const bool second = k % way.per_loop % kind.chunking.slices() == 1;
        for (uint64_t other = kind.sizes.least(); other <= most; other += 1 + random() % 64) {
          const auto same = kind.wire(way, k, other);
          const bool fits = same == wire && (!second || kind.wire(way, k - 1, other) == before);
          ASSERT_EQ(left.contains(other), fits)
              << other << " for " << size << ", message " << k << " of " << wire << " bytes";
          ++tried;
        }
      }
    }
  }
  EXPECT_GT(tried, 10000u);
}

}  // namespace
}  // namespace understudy
