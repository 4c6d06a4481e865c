// Reference ranks among themselves: they agree with each other in every release.
#include <gtest/gtest.h>

#include <memory>

#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {
namespace {

Task<> whole_life(RealRank* rank, SocketAddress root, int* done) {
  Communicator* comm = co_await rank->init(root);
  rank->stand("its end");
  rank->destroy(comm);
  ++*done;
}

void play(const World& world, uint64_t seed) {
  MemoryNetwork network(seed);
  std::vector<std::unique_ptr<RealRank>> ranks;
  for (int r = 0; r < world.size(); ++r) {
    ranks.push_back(std::make_unique<RealRank>(world, network, r));
  }
  const SocketAddress root = ranks[0]->start_root();
  int done = 0;
  for (auto& rank : ranks) rank->spawn(whole_life(rank.get(), root, &done));
  while (network.step()) {
  }
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->failure(), "") << "rank " << rank->rank();
    if (!rank->idle()) {
      ADD_FAILURE() << "rank " << rank->rank() << " stands at " << rank->standing();
    }
  }
  EXPECT_EQ(done, world.size());
}

TEST(NcclReference, AmongThemselves) {
  for (const auto& layout : nccl_decode::layouts()) {
    SCOPED_TRACE(layout.release.text());
    for (const auto& [count, per_node] :
         {std::pair{2, 1}, {3, 1}, {4, 1}, {8, 1}, {8, 2}, {5, 1}}) {
      SCOPED_TRACE(count);
      std::vector<int> all;
      for (int node = 0; node < count; ++node) all.push_back(node);
      World world = make_world(count, per_node, all);
      world.release = layout.release;
      world.search_channels = 2;
      world.channels = 3;
      play(world, static_cast<uint64_t>(count));
    }
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
