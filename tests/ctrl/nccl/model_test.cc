// The connections that reference ranks make when they join are those on which the collective
// model's schedules send and receive, by peer, channel and direction.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "tests/rigs/nccl_rank/emulated_side.h"
#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {
namespace {

/// Channel, peer, whether the rank sends.
using Edge = std::tuple<int, int, bool>;

struct Case {
  int minor, nodes, gpus, channels, search;
};

understudy::Communicator model_of(const Case& c) {
  understudy::Communicator model;
  model.nodes = static_cast<uint32_t>(c.nodes);
  model.gpus = static_cast<uint32_t>(c.gpus);
  model.nics = model.gpus;
  model.channels = static_cast<uint32_t>(c.channels);
  model.version.minor = static_cast<uint32_t>(c.minor);
  return model;
}

/// Of one rank, in an operation that uses all channels.
void add_edges(const understudy::Communicator& model, Collective collective, Algorithm algorithm,
               int rank, std::set<Edge>& edges) {
  Operation operation;
  operation.collective = collective;
  operation.algorithm = algorithm;
  operation.protocol = Protocol::kSimple;
  operation.count = 64 << 20;
  operation.channels = model.channels;
  ASSERT_TRUE(check_operation(model, operation));
  const auto cut = cut_group(model, {&operation, 1});
  ASSERT_TRUE(cut) << cut.error().text;
  const auto schedule = rank_schedule(model, operation, cut->at(0), static_cast<uint32_t>(rank));
  for (const Connection& connection : schedule->connections()) {
    if (!connection.network) continue;
    const bool sends = connection.direction == Direction::kSend;
    edges.insert({static_cast<int>(connection.channel),
                  static_cast<int>(sends ? connection.to : connection.from), sends});
  }
}

Task<> join(RealRank* rank, SocketAddress root) { co_await rank->init(root); }

void compare(const Case& c) {
  SCOPED_TRACE("2." + std::to_string(c.minor) + ", " + std::to_string(c.nodes) + " nodes of " +
               std::to_string(c.gpus) + ", " + std::to_string(c.channels) + " channels");
  World world = make_world(c.nodes * c.gpus, c.gpus, {c.nodes / 2});
  world.release = nccl_decode::layout_of({c.minor, 0})->release;
  world.channels = c.channels;
  world.search_channels = c.search;
  MemoryNetwork network(7, true);
  EmulatedSide emulated(world, network);
  std::vector<std::unique_ptr<RealRank>> reals;
  emulated.start(emulated.open_root(0));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (!world.real(rank)) continue;
    reals.push_back(std::make_unique<RealRank>(world, network, rank));
    reals.back()->spawn(join(reals.back().get(), emulated.root()));
  }
  while (network.step()) {
  }
  const auto model = model_of(c);
  for (const auto& rank : reals) {
    ASSERT_EQ(rank->failure(), "");
    std::set<Edge> made, modelled;
    for (const auto& [link, ends] : rank->communicators()[0]->links) {
      made.insert({link.channel, link.peer, link.sends});
    }
    add_edges(model, Collective::kAllReduce, Algorithm::kRing, rank->rank(), modelled);
    add_edges(model, Collective::kAllReduce, Algorithm::kTree, rank->rank(), modelled);
    if (c.minor >= 23 && c.gpus == 1) {
      add_edges(model, Collective::kAllGather, Algorithm::kPat, rank->rank(), modelled);
      add_edges(model, Collective::kReduceScatter, Algorithm::kPat, rank->rank(), modelled);
    }
    EXPECT_EQ(made, modelled) << "rank " << rank->rank();
  }
}

TEST(NcclModel, SameConnections) {
  for (int minor : {18, 20, 22, 23, 25, 28, 30}) {
    for (int nodes : {2, 3, 4, 5, 8, 13, 64}) {
      compare({minor, nodes, 1, 1, 1});
      compare({minor, nodes, 1, 2, 1});
      compare({minor, nodes, 1, 8, 4});
    }
    for (int nodes : {2, 3, 6}) {
      compare({minor, nodes, 2, 4, 2});
      compare({minor, nodes, 4, 8, 4});
    }
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
