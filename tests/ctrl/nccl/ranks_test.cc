// Emulated ranks in one communicator with reference ranks, in every release: check-in, ring,
// all-gathers, transports, splits, the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tests/rigs/nccl_rank/emulated_side.h"
#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {
namespace {

using Script = Task<> (*)(RealRank* rank, Communicator* comm);

Task<> nothing_more(RealRank*, Communicator*) { co_return; }

/// The first use of each algorithm, one after the other.
Task<> all_algorithms(RealRank* rank, Communicator* comm) {
  co_await rank->connect_ring(comm);
  co_await rank->connect_tree(comm);
  if (comm->topology.nodes == comm->size()) co_await rank->connect_pat(comm);
}

/// An all-to-all's connections, then a group of neighbours on more channels.
Task<> sends_and_receives(RealRank* rank, Communicator* comm) {
  co_await rank->send_receive(comm, PairUse::with_all_others(*comm));
  PairUse next;
  next.to = {(comm->rank() + 1) % comm->size()};
  next.from = {(comm->rank() + comm->size() - 1) % comm->size()};
  next.channels = 3;
  co_await rank->send_receive(comm, next);
}

/// A copy, then a child in reverse order of it, whose end comes first.
Task<> splits(RealRank* rank, Communicator* comm) {
  Communicator* copy = co_await rank->split(comm, 7, comm->rank());
  Communicator* again = co_await rank->split(copy, 0, copy->rank());
  // Before 2.19 a rank does not know whether the other side is through yet.
  if (rank->ends_are_known()) rank->destroy(again);
}

/// Ranks end when all are through: before 2.19 nothing else keeps one from closing what another has
/// not seen yet.
struct End {
  bool begins = false;
  int reached = 0;
};

Task<> whole_life(RealRank* rank, SocketAddress root, Script script, End* end) {
  Communicator* comm = co_await rank->init(root);
  co_await script(rank, comm);
  rank->stand("its end");
  ++end->reached;
  co_await rank->until([end] { return end->begins; });
  rank->destroy_all();
  rank->close_all();
}

struct Play {
  World world;
  Script script = nothing_more;
  bool emulated_root = false;
  uint64_t seed = 1;
  bool whole = false;
};

/// Both sides know of the same connections, and of each other's queue pairs and memory.
void expect_links(const World& world, const EmulatedSide& emulated, const RealRank& rank) {
  std::map<uint32_t, std::pair<NcclConnector, EmulatedSide::Connected>> by_qpn;
  size_t ours = 0, theirs = 0;
  for (const auto& [connector, made] : emulated.connected()) {
    if (static_cast<int>(connector.real) != rank.rank()) continue;
    ++ours;
    by_qpn[made.own.at(0)] = {connector, made};
  }
  for (const auto& comm : rank.communicators()) {
    if (comm->next == nullptr) continue;
    for (const auto& [link, ends] : comm->links) {
      const int peer = comm->members.of[static_cast<size_t>(link.peer)];
      if (world.real(peer)) continue;
      ++theirs;
      const auto found = by_qpn.find(ends.theirs.qpns.at(0));
      ASSERT_NE(found, by_qpn.end());
      const auto& [connector, made] = found->second;
      EXPECT_EQ(made.own, ends.theirs.qpns);
      EXPECT_EQ(made.remote, ends.own.qpns);
      EXPECT_EQ(made.request.remote, ends.own.gids[0]);
      EXPECT_EQ(made.request.nccl->fifo_address, ends.own.address);
      const auto& devices = made.request.nccl->devices;
      ASSERT_EQ(devices.size(), ends.own.gids.size());
      for (size_t d = 0; d < devices.size(); ++d) {
        EXPECT_EQ(devices[d].gid, ends.own.gids[d]);
        EXPECT_EQ(devices[d].rkey, ends.own.rkeys[d]);
      }
      EXPECT_EQ(made.request.nccl->local, ends.theirs.gids);
      EXPECT_EQ(made.request.nccl->parts, std::max(devices.size(), ends.theirs.gids.size()));
      for (size_t q = 0; q < made.own.size(); ++q) {
        EXPECT_EQ(made.request.nccl->remote_device[q], q % devices.size());
      }
      EXPECT_EQ(static_cast<int>(connector.emulated), peer);
      EXPECT_EQ(connector.real_sends, link.sends);
      EXPECT_EQ(connector.index, link.index);
      // Sends and receives may be on any; there the lowest is as good.
      if (link.index == 0) {
        EXPECT_EQ(connector.channel, static_cast<uint32_t>(link.channel));
      }
      // Credits carry the sender's number.
      const int sender = link.sends ? comm->rank() : link.peer;
      EXPECT_EQ(static_cast<int>(connector.sender), sender);
    }
  }
  EXPECT_EQ(ours, theirs) << "rank " << rank.rank();
}

void play(const Play& p) {
  MemoryNetwork network(p.seed, p.whole);
  EmulatedSide emulated(p.world, network);
  std::vector<std::unique_ptr<RealRank>> reals;
  int first_emulated = -1;
  for (int r = 0; r < p.world.size(); ++r) {
    if (p.world.real(r))
      reals.push_back(std::make_unique<RealRank>(p.world, network, r));
    else if (first_emulated < 0)
      first_emulated = r;
  }
  const SocketAddress root = p.emulated_root
                                 ? emulated.open_root(static_cast<uint32_t>(first_emulated))
                                 : reals[0]->start_root();
  End end;
  emulated.start(root);
  for (auto& rank : reals) rank->spawn(whole_life(rank.get(), root, p.script, &end));
  while (network.step()) {
  }
  bool all_well = end.reached == static_cast<int>(reals.size());
  EXPECT_TRUE(all_well);
  EXPECT_EQ(emulated.communicator().failure(), "");
  for (auto& rank : reals) expect_links(p.world, emulated, *rank);
  end.begins = true;
  for (auto& rank : reals) rank->run();
  while (network.step()) {
  }
  for (auto& rank : reals) {
    EXPECT_EQ(rank->failure(), "") << "rank " << rank->rank();
    if (!rank->idle()) {
      ADD_FAILURE() << "rank " << rank->rank() << " stands at " << rank->standing();
    }
    all_well = all_well && rank->failure().empty();
  }
  EXPECT_EQ(emulated.communicator().failure(), "");
  EXPECT_EQ(emulated.ib_failure(), "");
  EXPECT_TRUE(emulated.communicator().finished());
  EXPECT_TRUE(emulated.connected().empty());
  if (all_well) return;
  for (const auto& line : emulated.communicator().waiting()) ADD_FAILURE() << "emulated: " << line;
}

/// Real nodes by number.
struct Place {
  int ranks, per_node;
  std::vector<int> real;
  int channels = 1, search = 1;
};

World place_world(const Place& place) {
  World world = make_world(place.ranks, place.per_node, place.real);
  world.channels = place.channels;
  world.search_channels = place.search;
  return world;
}

/// In every release; at every other place the root is emulated, in the next release at the others.
void play_everywhere(const std::vector<Place>& places, Script script, bool lazy) {
  uint64_t seed = 1;
  for (const auto& layout : nccl_decode::layouts()) {
    if (lazy && layout.release.minor < 22) continue;  // connects when it joins
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      Play p;
      p.world = place_world(place);
      p.world.release = layout.release;
      p.world.lazy = lazy;
      p.script = script;
      p.emulated_root = (i + static_cast<size_t>(layout.release.minor)) % 2 == 0;
      p.seed = seed++;
      SCOPED_TRACE(layout.release.text() + ", " + std::to_string(place.ranks) + " ranks, " +
                   std::to_string(place.per_node) + " a node, " + std::to_string(place.channels) +
                   " channels, first real node " + std::to_string(place.real[0]) +
                   (p.emulated_root ? ", emulated root" : ", real root"));
      play(p);
      if (testing::Test::HasFailure()) return;
    }
  }
}

const std::vector<Place> kPlaces = {
    {2, 1, {0}},          {2, 1, {1}, 2, 1},     {4, 1, {0}, 1, 1},    {4, 1, {2}, 3, 2},
    {4, 1, {0, 1}, 2, 1}, {5, 1, {1, 3}, 2, 2},  {8, 1, {0, 4}, 8, 4}, {8, 2, {1}, 2, 1},
    {8, 4, {0}, 4, 2},    {16, 2, {0, 3}, 2, 2}, {16, 8, {1}, 8, 8},
};

TEST(NcclRanks, Join) { play_everywhere(kPlaces, nothing_more, false); }

TEST(NcclRanks, ConnectAtFirstUse) { play_everywhere(kPlaces, all_algorithms, true); }

TEST(NcclRanks, SendsAndReceives) {
  play_everywhere({{4, 1, {0}, 2, 1}, {5, 1, {1, 3}, 2, 1}, {8, 2, {1}, 2, 1}}, sends_and_receives,
                  false);
}

TEST(NcclRanks, Splits) {
  play_everywhere({{2, 1, {0}}, {4, 1, {0}, 2, 1}, {5, 1, {1, 3}, 2, 1}, {8, 2, {1}, 2, 1}}, splits,
                  false);
}

/// Large ones, in some of the releases, with bytes that come as they were sent.
void play_large(const std::vector<int>& minors, const Place& place) {
  for (int minor : minors) {
    SCOPED_TRACE("2." + std::to_string(minor) + ", " + std::to_string(place.ranks) + " ranks");
    Play p;
    p.world = place_world(place);
    p.world.release = nccl_decode::layout_of({minor, 0})->release;
    p.emulated_root = minor % 2 == 0;
    p.whole = true;
    play(p);
  }
}

TEST(NcclRanks, SixtyFour) {
  play_large({18, 20, 22, 24, 26, 28, 30, 31}, {64, 1, {0}, 2, 1});
  play_large({19, 21, 23, 25, 27, 29}, {64, 8, {0, 5}, 8, 8});
}

TEST(NcclRanks, Thousand) {
  play_large({22, 28}, {1024, 1, {0}, 2, 1});
  play_large({31}, {1024, 8, {77}, 8, 8});
}

// NICs that NCCL takes for one device, as many on both sides or not.
TEST(NcclRanks, MergedDevices) {
  for (const auto& layout : nccl_decode::layouts()) {
    const int most = layout.ib.device_count;
    for (const auto& [real, emulated] : {std::pair{2, 2}, {2, 1}, {1, 2}, {4, 4}, {4, 3}}) {
      if (layout.ib.devices == nccl_decode::kAbsent || std::max(real, emulated) > most) continue;
      SCOPED_TRACE(layout.release.text() + ": " + std::to_string(real) + " and " +
                   std::to_string(emulated));
      Play p;
      p.world = make_world(4, 1, {1});
      p.world.release = layout.release;
      p.world.channels = 2;
      p.world.real_devices = real;
      p.world.emulated_devices = emulated;
      p.world.queue_pairs = real == 2 ? 2 : 1;
      play(p);
    }
  }
}

// Several queue pairs a connection, a traffic class, graphs that an emulated node has not.
TEST(NcclRanks, OtherMachines) {
  for (const auto& layout : nccl_decode::layouts()) {
    SCOPED_TRACE(layout.release.text());
    Play p;
    p.world = make_world(12, 4, {1});
    p.world.release = layout.release;
    p.world.search_channels = 4;
    p.world.channels = 8;
    p.world.queue_pairs = 4;
    p.world.traffic_class = 106;
    p.world.nvls_channels = 16;
    p.world.split_tree = true;
    p.world.registration = false;
    play(p);
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
