// Emulated ranks in the set-up of one-sided connections where a mesh is made with its ring, at the same
// listeners: GIN's of NCCL 2.28, the RMA proxy's and GIN's of 2.29.7 (docs/nccl 3.16).
#include "tests/ctrl/peers/one_sided_rig.h"

namespace understudy {
namespace {

using namespace one_sided_rig;
using Gather = OneSided::Gather;

/// 2.28: no all-gather of how many; the mesh follows at the ring's listeners.
TEST(OneSidedRings, GinAtOnce) {
  OneSidedRig rig;
  rig.gather(Gather::kNone, {1, 0, 0, 0}, 28);
  rig.gather(Gather::kHandles, handle(kReal), 28);
  ASSERT_EQ(rig.host.expected.size(), 3u);
  ASSERT_EQ(rig.host.behind.size(), 1u);
  EXPECT_EQ(rig.host.behind[0].second.index, kOneSidedRing);
  EXPECT_EQ(rig.host.behind[0].first.emulated, 2u);
  for (const Bytes& one : rig.handles) EXPECT_GE(nccl_address(one, 0)->port, 9000);
  NcclConnector in;
  for (const NcclConnector& c : rig.host.expected) {
    if (c.index == kOneSidedRing) in = c;
  }
  const auto over_ring = [&](const Bytes& own) {
    rig.host.relayed.clear();
    rig.set_up.relayed(in, own);
    const std::vector<Bytes> ours = rig.host.relayed;
    for (size_t i = 0; i + 1 < ours.size(); ++i) rig.set_up.relayed(in, ours[i]);
  };
  for (uint32_t barrier = 0; barrier < OneSidedRig::kRanks; ++barrier) {
    rig.all_stand();
    rig.set_up.ready(rig.host.behind[0].first);
    over_ring(Bytes(4));
    EXPECT_EQ(rig.host.called.back().second, kReal);
  }
  EXPECT_EQ(rig.host.called.size(), 4u);
  const Use uses[] = {Use::kGinSignals, Use::kLocal, Use::kWindow, Use::kWindow};
  const uint64_t sizes[] = {65536 * 8, 256 * 8 * 4, 0, 0};
  for (size_t i = 0; i < 4; ++i) {
    over_ring(Bytes(8, 1));
    over_ring(Bytes(4, 1));
    EXPECT_EQ(rig.host.memories.back().use, uses[i]);
    EXPECT_EQ(rig.host.memories.back().bytes, sizes[i]);
  }
  EXPECT_FALSE(rig.set_up.under_way());
  EXPECT_EQ(rig.host.failure, "");
  rig.gather(Gather::kHandles, handle(kReal), 28);
  over_ring(handle(kMesh));
  EXPECT_TRUE(says(rig.host.failure, "sends 128 bytes over the ring"));
}

/// NCCL 2.29.7.
struct Rig229 : OneSidedRig {
  static constexpr uint32_t kMinor = 29;

  void count(uint8_t nics) { gather(Gather::kCount, {nics, 0, 0, 0}, kMinor); }
  /// A NIC: its ring's handles.
  void handles(uint32_t minor = kMinor) { gather(Gather::kHandles, handle(kReal), minor); }
  /// The connection of the ring of this number at the listeners of a NIC.
  NcclConnector in(uint32_t nic, uint32_t number) const {
    NcclConnector c;
    c.emulated = 2;
    c.real = kTheReal;
    c.channel = nic | (number > 1 ? number << 8 : 0);
    c.index = kOneSidedRing;
    c.real_sends = true;
    c.sender = 0xa0;
    return c;
  }
  void over(const NcclConnector& ring, const Bytes& own) {
    host.relayed.clear();
    set_up.relayed(ring, own);
    const std::vector<Bytes> ours = host.relayed;
    for (size_t i = 0; i + 1 < ours.size(); ++i) set_up.relayed(ring, ours[i]);
  }
  /// Whatever has been expected and called so far; of further rings those up to this one.
  void stand(uint32_t nic, uint32_t number) {
    all_stand();
    for (const auto& [c, before] : host.behind) {
      if ((c.channel & 0xff) == nic && c.channel >> 8 <= number) set_up.ready(c);
    }
  }
  /// The mesh of a ring that stands.
  void mesh(uint32_t nic, uint32_t number) {
    for (uint32_t barrier = 0; barrier < kRanks; ++barrier) {
      over(in(nic, number), Bytes(4));
      stand(nic, number);
    }
  }
  /// Over the first ring of a NIC.
  void registers(uint32_t nic, uint64_t bytes, Use use) {
    SCOPED_TRACE(std::to_string(bytes) + " bytes by NIC " + std::to_string(nic));
    over(in(nic, 1), Bytes(8, 1));
    over(in(nic, 1), Bytes(4, 1));
    ASSERT_EQ(host.failure, "");
    EXPECT_EQ(host.memories.back().bytes, bytes);
    EXPECT_EQ(host.memories.back().use, use);
    EXPECT_EQ(host.memories.back().ring, nic);
  }
};

TEST(OneSidedRings, RmaProxy) {
  Rig229 rig;
  rig.count(1);
  rig.handles();
  // Each emulated rank listens; the one after the real rank for the ring, then for its mesh.
  ASSERT_EQ(rig.host.expected.size(), 3u);
  for (const NcclConnector& c : rig.host.expected) {
    EXPECT_EQ(c.index, c.emulated == 2 ? kOneSidedRing : kOneSided);
  }
  EXPECT_EQ(rig.host.expected[1], rig.in(0, 1));
  ASSERT_EQ(rig.host.called.size(), 1u);
  EXPECT_EQ(rig.host.called[0].first.emulated, 0u);
  EXPECT_EQ(rig.host.called[0].second, kReal);
  rig.stand(0, 1);
  EXPECT_TRUE(rig.set_up.under_way());
  // Barrier i lets the rank at distance i + 1 behind call, where the ring's was taken.
  for (uint32_t barrier = 0; barrier < OneSidedRig::kRanks; ++barrier) {
    rig.over(rig.in(0, 1), Bytes(4));
    const uint32_t distance = std::min(barrier + 1, OneSidedRig::kRanks - 1);
    ASSERT_EQ(rig.host.called.size(), 1 + distance);
    EXPECT_EQ(rig.host.called.back().first.emulated, (1 + 4 - distance) % 4);
    EXPECT_EQ(rig.host.called.back().first.channel, 1u << 8);
    EXPECT_EQ(rig.host.called.back().second, kReal);
    rig.stand(0, 1);
  }
  EXPECT_TRUE(rig.host.gone.empty());
  rig.registers(0, 40, Use::kSignals);
  // A further ring with its mesh was expected, and does not come.
  EXPECT_EQ(rig.host.gone.size(), 4u);
  EXPECT_FALSE(rig.set_up.under_way());
  rig.registers(0, 0, Use::kWindow);
  rig.set_up.at_barrier();
  EXPECT_EQ(rig.host.failure, "");
  const uint32_t first = rig.host.memories.back().window;
  rig.registers(0, 0, Use::kWindow);
  EXPECT_NE(rig.host.memories.back().window, first);
  rig.set_up.at_barrier();
  EXPECT_EQ(rig.host.failure, "");
  rig.set_up.disconnect();
  EXPECT_EQ(rig.host.gone.size(), 4u + 8);
}

/// With two NICs the only context is the first one's; each window is registered for both.
TEST(OneSidedRings, RmaProxyOfTwoNics) {
  Rig229 rig;
  rig.count(2);
  for (uint32_t nic = 0; nic < 2; ++nic) {
    rig.host.expected.clear();
    rig.handles();
    // The first NIC's connections are all there are.
    EXPECT_EQ(rig.host.gone.size(), nic == 0 ? 0u : 4u);
    rig.stand(nic, 1);
    rig.mesh(nic, 1);
  }
  EXPECT_EQ(rig.host.gone.size(), 4u);
  rig.registers(0, 40, Use::kSignals);
  for (uint32_t window = 0; window < 2; ++window) {
    rig.registers(0, 0, Use::kWindow);
    const uint32_t number = rig.host.memories.back().window;
    rig.registers(1, 0, Use::kWindow);
    EXPECT_EQ(rig.host.memories.back().window, number);
    rig.set_up.at_barrier();
    EXPECT_EQ(rig.host.failure, "");
  }
}

/// Before it has registered anything, a further ring at the same listeners tells GIN from the RMA
/// proxy.
TEST(OneSidedRings, GinThenTheRmaProxy) {
  Rig229 rig;
  rig.count(1);
  rig.handles();
  rig.stand(0, 1);
  for (uint32_t number = 1; number <= 3; ++number) {
    if (number > 1) {
      const size_t calls = rig.host.called.size();
      EXPECT_TRUE(rig.set_up.ready(rig.in(0, number)));
      ASSERT_EQ(rig.host.failure, "");
      // The rank before the real one calls for the ring.
      ASSERT_EQ(rig.host.called.size(), calls + 1);
      EXPECT_EQ(rig.host.called.back().first.index, kOneSidedRing);
      EXPECT_EQ(rig.host.called.back().first.emulated, 0u);
      EXPECT_EQ(rig.host.called.back().first.channel, number << 8);
      EXPECT_EQ(rig.host.called.back().second, kReal);
    }
    rig.mesh(0, number);
    EXPECT_EQ(rig.host.called.back().first.index, kOneSided);
    EXPECT_EQ(rig.host.called.back().first.channel, number << 8);
  }
  // Each rank's further mesh comes behind the one before it, the next rank's behind the ring.
  for (const auto& [c, before] : rig.host.behind) {
    EXPECT_EQ(c.emulated, before.emulated);
    if (c.index == kOneSidedRing || c.emulated != 2) {
      EXPECT_EQ(before.index, kOneSided);
      EXPECT_EQ(before.channel + (1u << 8), c.channel);
    } else {
      EXPECT_EQ(before.index, kOneSidedRing);
    }
  }
  EXPECT_TRUE(rig.host.gone.empty());
  rig.registers(0, uint64_t{3} * (512 << 10) * 8, Use::kGinSignals);
  EXPECT_EQ(rig.host.gone.size(), 4u);
  for (uint32_t context = 0; context < 3; ++context) {
    EXPECT_TRUE(rig.set_up.under_way());
    rig.registers(0, 256 * 8 * OneSidedRig::kRanks, Use::kLocal);
  }
  EXPECT_FALSE(rig.set_up.under_way());
  // The communicator's own window, with which the RMA proxy connects.
  rig.registers(0, 0, Use::kWindow);
  const uint32_t window = rig.host.memories.back().window;
  rig.host.expected.clear();
  rig.count(1);
  rig.handles();
  rig.stand(1, 1);
  rig.mesh(1, 1);
  EXPECT_EQ(rig.host.gone.size(), 4u) << "nothing comes after the RMA proxy's";
  rig.registers(1, 40, Use::kSignals);
  rig.registers(1, 0, Use::kWindow);
  EXPECT_EQ(rig.host.memories.back().window, window);
  rig.set_up.at_barrier();
  EXPECT_EQ(rig.host.failure, "");
  // There is nothing else that could connect.
  rig.gather(Gather::kNone, {1, 0, 0, 0}, Rig229::kMinor);
  rig.gather(Gather::kNone, handle(kReal), Rig229::kMinor);
  EXPECT_TRUE(says(rig.host.failure, "one after another all-gathers than NCCL's"));
}

/// With four NICs GIN has one context each, and registers its memory before the next one connects.
TEST(OneSidedRings, GinOfFourNics) {
  Rig229 rig;
  rig.count(4);
  for (uint32_t nic = 0; nic < 4; ++nic) {
    rig.host.expected.clear();
    rig.handles();
    rig.stand(nic, 1);
    rig.mesh(nic, 1);
    rig.registers(nic, (512 << 10) * 8, Use::kGinSignals);
    rig.registers(nic, 256 * 8 * OneSidedRig::kRanks, Use::kLocal);
  }
  uint32_t number = 0;
  for (uint32_t nic = 0; nic < 4; ++nic) {
    rig.registers(nic, 0, Use::kWindow);
    if (nic == 0) number = rig.host.memories.back().window;
    EXPECT_EQ(rig.host.memories.back().window, number);
  }
  rig.set_up.at_barrier();
  EXPECT_EQ(rig.host.failure, "");
}

/// GIN connects after the RMA proxy; windows that there are come first.
TEST(OneSidedRings, GinAfterTheRmaProxy) {
  Rig229 rig;
  rig.count(1);
  rig.handles();
  rig.stand(0, 1);
  rig.mesh(0, 1);
  rig.registers(0, 40, Use::kSignals);
  rig.registers(0, 0, Use::kWindow);
  const uint32_t window = rig.host.memories.back().window;
  rig.set_up.at_barrier();
  rig.host.expected.clear();
  rig.count(1);
  rig.handles();
  rig.stand(1, 1);
  rig.mesh(1, 1);
  EXPECT_TRUE(rig.set_up.ready(rig.in(1, 2)));
  rig.mesh(1, 2);
  rig.registers(1, uint64_t{2} * (512 << 10) * 8, Use::kGinSignals);
  rig.registers(1, 256 * 8 * OneSidedRig::kRanks, Use::kLocal);
  rig.registers(1, 256 * 8 * OneSidedRig::kRanks, Use::kLocal);
  rig.registers(1, 0, Use::kWindow);
  EXPECT_EQ(rig.host.memories.back().window, window);
  rig.registers(1, 0, Use::kWindow);
  EXPECT_NE(rig.host.memories.back().window, window);
  rig.set_up.at_barrier();
  EXPECT_EQ(rig.host.failure, "");
}

TEST(OneSidedRings, OtherContextsAreRefusedByName) {
  const std::string words = "numRmaCtx = 1 (or NCCL_NUM_RMA_CTX) and without NCCL_GIN_NCONTEXTS";
  {
    // Two contexts of the RMA proxy.
    Rig229 rig;
    rig.count(1);
    rig.handles();
    rig.stand(0, 1);
    rig.mesh(0, 1);
    for (int i = 0; i < 3; ++i) {
      rig.over(rig.in(0, 1), Bytes(8, 1));
      rig.over(rig.in(0, 1), Bytes(4, 1));
    }
    EXPECT_EQ(rig.host.failure, "");
    rig.set_up.at_barrier();
    EXPECT_TRUE(says(rig.host.failure, "rank 1 registers memory 3 times with its first window"));
    EXPECT_TRUE(says(rig.host.failure, words));
  }
  // GIN with a single context, then the RMA proxy.
  Rig229 rig;
  rig.count(1);
  rig.handles();
  rig.stand(0, 1);
  rig.mesh(0, 1);
  for (int i = 0; i < 3; ++i) {
    rig.over(rig.in(0, 1), Bytes(8, 1));
    rig.over(rig.in(0, 1), Bytes(4, 1));
  }
  rig.count(1);
  rig.handles();
  EXPECT_TRUE(says(rig.host.failure, words));
}

TEST(OneSidedRings, WhatNcclDoesNotSendIsRefused) {
  const auto meshed = [](Rig229& rig) {
    rig.count(1);
    rig.handles();
    rig.stand(0, 1);
    rig.mesh(0, 1);
    ASSERT_EQ(rig.host.failure, "");
  };
  {
    // GIN on the GPU tells of its keys without addresses.
    Rig229 rig;
    meshed(rig);
    rig.over(rig.in(0, 1), Bytes(4));
    EXPECT_TRUE(says(rig.host.failure, "with GIN on the GPU itself (NCCL_GIN_TYPE=3)"));
  }
  {
    // A ring before the mesh of the one before it.
    Rig229 rig;
    rig.count(1);
    rig.handles();
    rig.stand(0, 1);
    rig.over(rig.in(0, 1), Bytes(4));
    rig.set_up.ready(rig.in(0, 2));
    EXPECT_TRUE(says(rig.host.failure, "before the mesh of the one before it is there"));
  }
  for (const bool memory : {false, true}) {
    // Barriers of a mesh go over its ring, memory over the first.
    Rig229 rig;
    meshed(rig);
    rig.set_up.ready(rig.in(0, 2));
    if (memory) rig.mesh(0, 2);
    ASSERT_EQ(rig.host.failure, "");
    rig.over(rig.in(0, memory ? 2 : 1), Bytes(memory ? 8 : 4, 1));
    EXPECT_TRUE(says(rig.host.failure, memory ? "sends 8 bytes" : "sends 4 bytes")) << memory;
  }
  {
    // What came over one ring is handed on over another.
    Rig229 rig;
    meshed(rig);
    rig.set_up.ready(rig.in(0, 2));
    rig.set_up.relayed(rig.in(0, 2), Bytes(4));
    rig.set_up.relayed(rig.in(0, 1), rig.host.relayed.back());
    EXPECT_TRUE(says(rig.host.failure, "hands on 4 bytes as rank 0's"));
  }
}

}  // namespace
}  // namespace understudy
