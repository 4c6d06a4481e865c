// Reference ranks over sockets of the kernel: all of them real, each with an address of the
// loopback device.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/rigs/nccl_rank/real_rank.h"
#include "tests/rigs/nccl_rank/socket_network.h"

namespace understudy::nccl_rank {
namespace {

using std::chrono::milliseconds;

World loopback_world(int ranks, int minor) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  World world = make_world(ranks, 1, all);
  world.release = nccl_decode::layout_of({minor, 0})->release;
  world.channels = 2;
  for (int r = 0; r < ranks; ++r) {
    world.addresses.push_back(IpAddress::v4(0x7f000001 + static_cast<uint32_t>(r)));
  }
  return world;
}

struct Ranks {
  int joined = 0;
};

Task<> whole_life(RealRank* rank, SocketAddress root, Ranks* ranks, int count) {
  Communicator* comm = co_await rank->init(root);
  co_await rank->split(comm, 0, -rank->rank());
  ++ranks->joined;
  // Before 2.19 a rank does not know whether the other side is through yet.
  co_await rank->until([=] { return ranks->joined == count; });
  rank->destroy_all();
  rank->close_all();
}

TEST(NcclSockets, RanksOfEachGenerationMeet) {
  constexpr int kRanks = 5;
  for (int minor : {18, 20, 22, 23, 28, 30, 31}) {
    SCOPED_TRACE("2." + std::to_string(minor));
    const World world = loopback_world(kRanks, minor);
    SocketNetwork network;
    std::vector<std::unique_ptr<RealRank>> reals;
    for (int r = 0; r < kRanks; ++r) {
      reals.push_back(std::make_unique<RealRank>(world, network, r));
    }
    const SocketAddress root = reals[0]->start_root();
    Ranks ranks;
    for (auto& rank : reals) rank->spawn(whole_life(rank.get(), root, &ranks, kRanks));
    const auto idle = [&] {
      for (const auto& rank : reals) {
        if (!rank->idle()) return false;
      }
      return true;
    };
    // All of it happens at once; the wait is for the case that something is missing.
    while (!idle()) {
      if (!network.step(milliseconds(ranks.joined == kRanks ? 0 : 20000))) {
        if (ranks.joined < kRanks) break;
        for (auto& rank : reals) rank->run();
      }
    }
    for (const auto& rank : reals) {
      EXPECT_EQ(rank->failure(), "") << "rank " << rank->rank();
      EXPECT_TRUE(rank->idle()) << "rank " << rank->rank() << " stands at " << rank->standing();
    }
  }
}

TEST(NcclSockets, ADialWaitsForItsListener) {
  const World world = loopback_world(2, 28);
  SocketNetwork network;
  RealRank early(world, network, 0), late(world, network, 1);
  ListeningSocket* first = late.listen();
  const SocketAddress address = first->address;
  late.stop(first);
  bool through = false;
  struct Meeting {
    static Task<> dials(RealRank* rank, SocketAddress to) { co_await rank->dial(to, 7, 1); }
    static Task<> accepts(RealRank* rank, uint16_t port, bool* through) {
      co_await rank->accept(rank->listen(port), 7, 1);
      *through = true;
    }
  };
  early.spawn(Meeting::dials(&early, address));
  ASSERT_TRUE(network.step(milliseconds(0)));  // it is refused
  ASSERT_FALSE(early.idle());
  late.spawn(Meeting::accepts(&late, address.port, &through));
  while (!through && network.step(milliseconds(20000))) {
  }
  EXPECT_TRUE(through);
  early.close_all();
  late.close_all();
}

}  // namespace
}  // namespace understudy::nccl_rank
