// A shard's packets in a network of switches: which ways those of spraying NICs take.
#include "dataplane/engine/state/switched_fabric.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace understudy {
namespace {

constexpr unsigned kSpines = 4;
constexpr uint32_t kPackets = 40;
constexpr uint32_t kReal = 2;  ///< position of the real NIC; 0 and 1 are emulated

/// Two emulated NICs at one leaf, a real one at another, and spines between them.
SwitchedNetwork two_leaves() {
  SwitchedNetwork n;
  const Rate rate = Rate::bits_per_second(100'000'000'000);
  for (const char* name : {"leaf0", "leaf1"}) {
    n.graph.add_vertex({VertexKind::kSwitch, name, 0, 0, 1});
  }
  for (unsigned i = 0; i < kSpines; ++i) {
    const VertexId s = n.graph.add_vertex({VertexKind::kSwitch, "s" + std::to_string(i), 0, 0, 2});
    n.graph.connect(0, s, rate, Duration::us(1));
    n.graph.connect(1, s, rate, Duration::us(1));
  }
  for (uint32_t i = 0; i < 3; ++i) {
    n.nics.push_back(n.graph.add_vertex({VertexKind::kNic, "n" + std::to_string(i), i, 0, 0}));
    n.cables.push_back({n.graph.connect(n.nics[i], i == kReal ? 1 : 0, rate, Duration::us(1))});
  }
  n.settings.classes.emplace_back();
  n.packets = 256;
  return n;
}

/// Each emulated NIC of `senders` sends its packets to the real one as fast as it may.
class Senders final : public FabricUser {
 public:
  Senders(const SwitchedNetwork& network, const std::vector<uint32_t>& senders)
      : pool_(256),
        fabric_(std::make_shared<const SwitchedNetwork>(network), {{kReal, Rate(), false}}, pool_,
                *this, nullptr) {
    for (const uint32_t sender : senders) left_[sender] = kPackets;
    for (const uint32_t sender : senders) fabric_.ready(sender, Time::zero());
    while (!fabric_.next().is_never()) fabric_.step();
    for (LinkId link = 0; link < 4 * kSpines; link += 4) {
      up.push_back(fabric_.network().counters(link).packets);
    }
  }

  uint32_t next_packet(uint32_t node, LinkId, uint8_t, Time) override {
    if (left_[node] == 0) return kNoPacket;
    --left_[node];
    const uint32_t id = pool_.take(PacketSide::kOutbound);
    Packet& p = pool_[id];
    p.node = node;
    p.real = kReal;
    p.wire_bytes = 1024;
    p.frame_bytes = 1000;
    return id;
  }
  uint64_t next_turn(uint32_t, LinkId, uint8_t, Time) override { return 0; }
  void came_through(uint32_t packet, Time) override {
    ++come[pool_[packet].node];
    pool_.release(packet);
  }
  void lost(uint32_t, PacketLoss) override { ADD_FAILURE(); }
  void tell_pause(uint32_t, unsigned, bool, Time) override {}

  std::vector<uint64_t> up;  ///< packets on each way up from leaf 0
  uint32_t come[3] = {};

 private:
  PacketPool pool_;
  SwitchedFabric fabric_;
  uint32_t left_[3] = {};
};

TEST(SwitchedFabric, SprayingOfOneNicDoesNotDisturbAnothers) {
  SwitchedNetwork network = two_leaves();
  network.choice = RouteChoice::kSpray;
  const Senders first(network, {0}), second(network, {1}), both(network, {0, 1});
  EXPECT_EQ(both.come[0], kPackets);
  EXPECT_EQ(both.come[1], kPackets);
  for (unsigned i = 0; i < kSpines; ++i) {
    EXPECT_GT(first.up[i], 0u);
    EXPECT_EQ(both.up[i], first.up[i] + second.up[i]) << i;
  }
}

// One flow keeps to one way where switches choose by hash, and to that of a static route.
TEST(SwitchedFabric, WithoutSprayingAFlowKeepsToItsWay) {
  SwitchedNetwork network = two_leaves();
  const Senders hashed(network, {0});
  EXPECT_EQ(std::ranges::count(hashed.up, kPackets), 1);
  for (unsigned spine = 0; spine < kSpines; ++spine) {
    StaticRoute route;
    route.from.resize(network.graph.vertices().size());
    route.to = route.from;
    route.from[network.nics[0]] = route.to[network.nics[kReal]] = true;
    route.via = {0, 2 + spine, 1};
    network.static_routes = {route};
    const Senders routed(network, {0, 1});
    EXPECT_GE(routed.up[spine], kPackets) << spine;
    EXPECT_EQ(routed.come[0] + routed.come[1], 2 * kPackets);
  }
}

}  // namespace
}  // namespace understudy
