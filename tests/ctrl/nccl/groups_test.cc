// PyTorch's further communicators: emulated ranks join those of process groups and of pairs of
// ranks beside reference ranks, with TCP in memory.
#include <gtest/gtest.h>

#include <memory>

#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"
#include "ctrl/peers/nccl/transport/net_ib_peer.h"
#include "ctrl/peers/sockets/torch_groups.h"
#include "tests/rigs/nccl_rank/real_rank.h"
#include "tests/rigs/nccl_virtual/memory_peers.h"

namespace understudy::nccl_rank {
namespace {

/// Four nodes of two ranks; node 1, ranks 2 and 3, is real.
constexpr int kRanks = 8, kPerNode = 2;
const std::vector<std::vector<uint32_t>> kGroups = {{0, 2, 4, 6}, {1, 3, 5, 7}, {2, 3}, {2, 4}};

Task<> member(RealRank* rank, SocketAddress root, const bool* ends) {
  Communicator* comm = co_await rank->init(root);
  co_await rank->send_receive(comm, PairUse::with_all_others(*comm));
  rank->stand("its end");
  co_await rank->until([ends] { return *ends; });
  rank->destroy_all();
  rank->close_all();
}

class TorchGroupsTest : public testing::Test, public NetIbObserver {
 protected:
  TorchGroupsTest()
      : network_(1, false),
        peers_(network_, emulated_addresses(), [this] { return now_; },
               {.endpoint =
                    [this](NodeId, ConnectionId c, const EndpointRequest& r) {
                      if (const auto ready = endpoint(c, r); ready) {
                        peers_.endpoint_ready(c, *ready);
                      } else {
                        peers_.endpoint_refused(c, ready.error().text);
                      }
                    },
                .start = [](const EndpointStart&) {},
                .ended = [this](const EndedConnection& ended) { groups_->on_ended(ended); }}) {
    TorchGroups::Setup setup;
    setup.nccl = NcclVersion{28};
    for (int rank = 0; rank < kRanks; ++rank) {
      setup.ranks.push_back({whole_.real(rank), static_cast<uint32_t>(whole_.node(rank))});
      setup.addresses.push_back(World::address(whole_.node(rank)));
    }
    setup.groups = kGroups;
    NcclSockets::Callbacks callbacks;
    callbacks.receiver = [this](const NcclConnector& c) { return net_ib(c, kNetIbMagic); };
    callbacks.sender = [this](const NcclConnector& c, uint64_t magic) { return net_ib(c, magic); };
    callbacks.disconnect = [](const NcclConnector&) {};
    callbacks.say = [this](const std::string& line) { said_ += line + "\n"; };
    groups_ = std::make_unique<TorchGroups>(setup, peers_, callbacks);
  }

  std::vector<IpAddress> emulated_addresses() const {
    std::vector<IpAddress> all;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (!whole_.real(rank)) all.push_back(World::address(whole_.node(rank)));
    }
    return all;
  }
  Result<EndpointReady> endpoint(ConnectionId connection, const EndpointRequest& request) {
    EXPECT_TRUE(groups_->owns(connection));
    const NcclConnector& c = request.nccl->connector;
    EXPECT_TRUE(groups_->has(c));
    EXPECT_TRUE(whole_.real(static_cast<int>(groups_->job_rank(c, c.real))));
    EXPECT_FALSE(whole_.real(static_cast<int>(groups_->job_rank(c, c.emulated))));
    EndpointReady ready;
    for (uint32_t q = 0; q < request.nccl->queue_pairs; ++q) ready.qpns.push_back(++last_qpn_);
    ready.qpn = ready.qpns[0];
    ready.address = 0x770000000000 + ready.qpn * 0x100000ULL;
    ready.rkey = 0x2000 + ready.qpn;
    return ready;
  }
  std::unique_ptr<Peer> net_ib(const NcclConnector& connector, uint64_t magic) {
    NetIbSettings settings;
    settings.version = NcclVersion{28};
    settings.magic = magic;
    const auto address = [&](uint32_t rank) {
      return World::address(whole_.node(static_cast<int>(groups_->job_rank(connector, rank))));
    };
    settings.local = {address(connector.emulated)};
    settings.real_addresses = {address(connector.real)};
    settings.mtu = 4096;
    return std::make_unique<NetIbPeer>(connector, settings, seen_, *this);
  }
  void on_connector_ready(Time, const NcclConnector& connector) override {
    ++ready_;
    groups_->on_connector(connector, "");
  }
  void on_connector_failed(Time, const NcclConnector& connector, const std::string& why) override {
    groups_->on_connector(connector, why);
  }
  void on_connector_closed(Time, const NcclConnector&) override {}

  /// A real rank of the group of these.
  void join(const std::vector<uint32_t>& group, uint32_t rank, const NcclUniqueId& id) {
    World& world = world_of(group);
    world.magic = id.magic;
    const auto place = std::find(group.begin(), group.end(), rank) - group.begin();
    ranks_.push_back(std::make_unique<RealRank>(world, network_, static_cast<int>(place)));
    ranks_.back()->spawn(member(ranks_.back().get(), id.root, &ends_));
  }
  World& world_of(const std::vector<uint32_t>& group) {
    worlds_.push_back(std::make_unique<World>(whole_));
    worlds_.back()->ranks.clear();
    for (const uint32_t rank : group) worlds_.back()->ranks.push_back(whole_.ranks[rank]);
    return *worlds_.back();
  }
  void run() {
    for (int quiet = 0; quiet < 200;) {
      quiet = network_.step() ? 0 : quiet + 1;
      now_ = now_ + Duration::ms(quiet == 0 ? 0 : 10);
      groups_->poll();
      peers_.poll();
    }
  }
  void finish() {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->standing(), "its end");
    EXPECT_FALSE(groups_->idle());
    ends_ = true;
    for (const auto& rank : ranks_) rank->run();
    run();
    for (const auto& rank : ranks_) {
      EXPECT_EQ(rank->failure(), "");
      EXPECT_TRUE(rank->idle()) << rank->standing();
    }
    EXPECT_TRUE(groups_->idle()) << said_;
  }

  const World whole_ = make_world(kRanks, kPerNode, {1});
  Time now_ = Time::zero() + Duration::s(1);
  MemoryNetwork network_;
  MemoryPeers peers_;
  NetIbSeen seen_;
  std::unique_ptr<TorchGroups> groups_;
  std::vector<std::unique_ptr<World>> worlds_;
  std::vector<std::unique_ptr<RealRank>> ranks_;
  std::string said_;
  uint32_t last_qpn_ = 0x5000;
  size_t ready_ = 0;
  bool ends_ = false;
};

TEST_F(TorchGroupsTest, GroupsAndPairsHaveCommunicatorsOfTheirOwnAtOnce) {
  // Two rails, whose first rank is emulated.
  for (const uint32_t rank : {2u, 3u}) {
    const UniqueIdKey key{rank == 2 ? "1" : "2", "0"};
    const auto id = groups_->provide(now_, key);
    ASSERT_TRUE(id) << said_;
    EXPECT_EQ(groups_->provide(now_, key), id);
    join(kGroups[rank - 2], rank, *id);
  }
  // A pair whose first rank is real.
  RealRank root(world_of({2, 4}), network_, 0);
  const NcclUniqueId id{whole_.magic, root.start_root(), {}};
  groups_->learned(now_, {"4", "0"}, id);
  groups_->learned(now_, {"4", "0"}, id);
  join(kGroups[3], 2, id);
  // Sends and receives of ranks 0 and 3, in the numbers of all ranks.
  const auto pair = groups_->provide(now_, {"0", "0:3"});
  ASSERT_TRUE(pair);
  join({0, 3}, 3, *pair);
  run();
  EXPECT_GE(ready_, 2u * (3 + 3 + 1 + 1));
  // As jobs on children find them.
  const auto made = groups_->communicators();
  ASSERT_EQ(made.size(), 4u);
  EXPECT_EQ(made[0].ranks, kGroups[0]);
  EXPECT_EQ(made[2].ranks, kGroups[3]);
  EXPECT_EQ(made[2].called, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(made[2].hash, communicator_hash(id, NcclVersion{28}));
  EXPECT_EQ(made[3].ranks, (std::vector<uint32_t>{0, 3}));
  for (const MadeCommunicator& one : made) EXPECT_GT(one.search_channels, 0u);
  finish();
}

/// Somebody who calls, and counts what becomes of it.
struct Caller : NetworkUser {
  void on_accepted(Id, Id, const SocketAddress&) override {}
  void on_connected(Id) override { ++connected; }
  void on_bytes(Id, std::span<const uint8_t>) override {}
  void on_closed(Id, const std::string&) override { ++closed; }
  size_t connected = 0, closed = 0;
};

/// torchrun begins its workers anew: late calls for the former ones are closed, and the listeners are
/// the next one's.
TEST_F(TorchGroupsTest, ListenersOutliveTheirCommunicatorAndServeTheNextOne) {
  const UniqueIdKey key{"1", "0"};
  const auto first = groups_->provide(now_, key);
  ASSERT_TRUE(first) << said_;
  groups_->forget();
  EXPECT_TRUE(groups_->idle());
  Caller caller;
  network_.dial(caller, World::address(1), first->root, network_.new_id());
  run();
  EXPECT_EQ(caller.connected, 1u);
  EXPECT_EQ(caller.closed, 1u);
  const auto second = groups_->provide(now_, key);
  ASSERT_TRUE(second) << said_;
  EXPECT_EQ(second->root, first->root) << "another listener beside the former one";
  EXPECT_NE(second->magic, first->magic);
  // A rail of the same number of ranks has sockets of its own.
  const auto other = groups_->provide(now_, {"2", "0"});
  ASSERT_TRUE(other);
  EXPECT_NE(other->root, second->root);
  join(kGroups[0], 2, *second);
  join(kGroups[1], 3, *other);
  run();
  EXPECT_GE(ready_, 2u * (3 + 3));
  finish();
}

TEST_F(TorchGroupsTest, WhoseIdsAreOfferedAndAskedFor) {
  const auto has = [](const std::vector<UniqueIdKey>& keys, const UniqueIdKey& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const auto ours = groups_->ours(), awaited = groups_->awaited();
  EXPECT_TRUE(has(ours, {"1", "0"}) && has(ours, {"2", "0"}));
  EXPECT_TRUE(has(ours, {"0", "1:3"}) && has(ours, {"1", "0:1"}));
  EXPECT_TRUE(has(awaited, {"4", "0"}) && has(awaited, {"0", "3:6"}));
  // All of it is real.
  EXPECT_FALSE(has(ours, {"3", "0"}) || has(awaited, {"3", "0"}));
  EXPECT_FALSE(groups_->provide(now_, {"3", "0"}));
  EXPECT_EQ(said_, "");
}

/// Of two nodes the next one is also the last one.
TEST_F(TorchGroupsTest, OfManyPairsThoseOfNeighbouringNodesAreOfferedOnce) {
  TorchGroups::Setup setup;
  for (uint32_t rank = 0; rank < 32; ++rank) setup.ranks.push_back({rank >= 16, rank / 16});
  EXPECT_EQ(TorchGroups(setup, peers_, {}).ours().size(), 16u);
}

TEST_F(TorchGroupsTest, AGroupThatNobodyHasListedIsNamedOnce) {
  EXPECT_FALSE(groups_->provide(now_, {"5", "0"}));
  EXPECT_FALSE(groups_->provide(now_, {"5", "0"}));
  EXPECT_NE(said_.find("process group \"5\""), std::string::npos) << said_;
  EXPECT_EQ(said_.find("process group \"5\""), said_.rfind("process group \"5\""));
}

}  // namespace
}  // namespace understudy::nccl_rank
