// Emulated ranks in the set-up of one-sided connections: what they answer step by step, and what
// they refuse with a sentence (docs/nccl 3.16). Of NCCL from 2.30.7 on.
#include "tests/ctrl/peers/one_sided_rig.h"

namespace understudy {
namespace {

using namespace one_sided_rig;

TEST(OneSided, SetUpInTheOrderOfTheRealRank) {
  OneSidedRig rig;
  rig.begin();
  ASSERT_EQ(rig.host.failure, "");
  // The rank after the real one takes the ring's connection, the one before it calls.
  ASSERT_EQ(rig.host.expected.size(), 1u);
  EXPECT_EQ(rig.in().emulated, 2u);
  ASSERT_EQ(rig.host.called.size(), 1u);
  EXPECT_EQ(rig.host.called[0].first.emulated, 0u);
  EXPECT_EQ(rig.host.called[0].second, kReal);
  for (const Bytes& one : rig.handles) {
    ASSERT_EQ(one.size(), 128u);
    EXPECT_EQ(nccl_u64(one, 32), kNcclNetMagic);
    EXPECT_TRUE(nccl_address(one, 0).has_value());
  }
  EXPECT_TRUE(rig.set_up.under_way());

  rig.ring(handle(kMesh));
  ASSERT_EQ(rig.host.relayed.size(), 3u);
  // The nearest rank behind comes first: 0, 3, 2. Each listens for itself.
  for (size_t i = 0; i < 3; ++i) {
    const auto at = nccl_address(rig.host.relayed[i], 0);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at->address, IpAddress::v4(0x0a090100 + std::array{0u, 3u, 2u}[i]));
  }
  EXPECT_EQ(rig.host.called.size(), 1u);
  // Barrier i lets the rank at distance i + 1 behind call.
  for (uint32_t barrier = 0; barrier < OneSidedRig::kRanks; ++barrier) {
    rig.all_stand();
    rig.ring(Bytes(4));
    const size_t calls = 1 + std::min(barrier + 1, OneSidedRig::kRanks - 1);
    ASSERT_EQ(rig.host.called.size(), calls);
    EXPECT_EQ(rig.host.called.back().second, kMesh);
    const uint32_t distance = std::min(barrier + 1, OneSidedRig::kRanks - 1);
    EXPECT_EQ(rig.host.called.back().first.emulated, (1 + 4 - distance) % 4);
  }
  // NCCL's own memory, then the window.
  const uint64_t sizes[] = {40, 40, 32, 1 << 20};
  for (uint32_t i = 0; i < 4; ++i) {
    rig.host.memories.clear();
    rig.host.reals.clear();
    Bytes address(8), key(4);
    put_nccl_u64(address, 0, 0x1000 + i);
    put_nccl_u32(key, 0, 0x77);
    rig.ring(address);
    EXPECT_EQ(nccl_u64(rig.host.relayed[0], 0), uint64_t{0} << 32 | i);
    EXPECT_EQ(nccl_u64(rig.host.relayed[1], 0), uint64_t{3} << 32 | i);
    rig.ring(key);
    EXPECT_EQ(nccl_u32(rig.host.relayed[2], 0), 2u + 7);
    ASSERT_EQ(rig.host.memories.size(), 3u);
    EXPECT_EQ(rig.host.memories[0].bytes, sizes[i]);
    EXPECT_EQ(rig.host.memories[0].use, i == 3 ? Use::kWindow : Use::kSignals);
    ASSERT_EQ(rig.host.reals.size(), 3u);
    EXPECT_EQ(rig.host.reals[0].address, 0x1000u + i);
    EXPECT_EQ(rig.host.reals[0].rkey, 0x77u);
  }
  EXPECT_FALSE(rig.set_up.under_way());
  EXPECT_EQ(rig.host.failure, "");
  // The next window needs no new connections.
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(1 << 16));
  rig.ring(Bytes(8, 1));
  EXPECT_EQ(rig.host.memories.back().bytes, 1u << 16);
  rig.set_up.disconnect();
  EXPECT_EQ(rig.host.gone.size(), 8u);
}

/// numRmaCtx = 2: each context has a mesh of its own, then its own memory.
TEST(OneSided, SeveralContexts) {
  OneSidedRig rig;
  rig.begin();
  for (uint32_t context = 1; context <= 2; ++context) {
    rig.host.expected.resize(1);
    rig.host.called.resize(1);
    rig.ring(handle(kMesh));
    for (uint32_t barrier = 0; barrier < OneSidedRig::kRanks; ++barrier) {
      rig.all_stand();
      rig.ring(Bytes(4));
    }
    ASSERT_EQ(rig.host.expected.size(), 4u);
    ASSERT_EQ(rig.host.called.size(), 4u);
    EXPECT_EQ(rig.host.expected.back().channel, context << 8);
    EXPECT_EQ(rig.host.called.back().first.channel, context << 8);
    EXPECT_TRUE(rig.set_up.under_way());
    for (uint32_t i = 0; i < 3; ++i) {
      rig.ring(Bytes(8, 1));
      EXPECT_EQ(rig.host.memories.back().use, Use::kSignals);
      rig.ring(Bytes(4, 1));
    }
    EXPECT_FALSE(rig.set_up.under_way());
  }
  rig.ring(Bytes(8, 1));
  EXPECT_EQ(rig.host.memories.back().use, Use::kWindow);
  EXPECT_EQ(rig.host.memories.back().registration, 6u);
  EXPECT_EQ(rig.host.failure, "");
}

TEST(OneSided, OtherReleasesAreRefusedByName) {
  {
    OneSidedRig rig;
    const BootstrapLayout& early = *layouts_of({29}).front();
    EXPECT_EQ(rig.set_up.next(early, 4), OneSided::Gather::kNone);
    rig.set_up.look_at_other(early, OneSidedRig::kTheReal, {});
    EXPECT_EQ(rig.host.failure, "");
    EXPECT_EQ(rig.set_up.next(early, 128), OneSided::Gather::kNone);
    rig.set_up.look_at_other(early, OneSidedRig::kTheReal, handle(kReal));
    EXPECT_TRUE(says(rig.host.failure, "rank 1 makes connections for one-sided operations"));
    EXPECT_TRUE(says(rig.host.failure, "not with 2.29.2 to 2.29.3"));
    EXPECT_TRUE(says(rig.host.failure, "NCCL_WIN_ENABLE=0"));
  }
  // 2.30.3 and 2.30.4 tell no sizes.
  OneSidedRig rig;
  rig.set_up.look_at_other(*layouts_of({30}).front(), 1, handle(kReal));
  EXPECT_TRUE(says(rig.host.failure, "not with 2.30.3 to 2.30.4"));
}

/// A barrier of the mesh is left when the connections before it stand on both sides.
TEST(OneSided, ABarrierWaitsForItsConnections) {
  OneSidedRig rig;
  rig.begin();
  rig.ring(handle(kMesh));
  rig.ring(Bytes(4));
  rig.host.relayed.clear();
  rig.set_up.relayed(rig.in(), Bytes(4));
  EXPECT_TRUE(rig.host.relayed.empty());
  rig.set_up.ready(rig.host.called.back().first);
  EXPECT_TRUE(rig.host.relayed.empty());
  for (const NcclConnector& c : rig.host.expected) {
    if (c.emulated == 2) rig.set_up.ready(c);
  }
  EXPECT_EQ(rig.host.relayed.size(), 3u);
  EXPECT_EQ(rig.host.failure, "");
}

/// The real rank can have heard of nobody yet.
TEST(OneSided, WhoGoesOnInABarrierIsRefused) {
  OneSidedRig rig;
  rig.begin();
  rig.ring(handle(kMesh));
  rig.ring(Bytes(4));
  rig.set_up.relayed(rig.in(), Bytes(4));
  rig.set_up.relayed(rig.in(), Bytes(4));
  EXPECT_TRUE(says(rig.host.failure, "what it cannot have yet"));
}

/// A device communicator with two contexts, after a window without an RMA proxy; then its own
/// window, with which the RMA proxy connects.
TEST(OneSided, GinConnects) {
  OneSidedRig rig;
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(1 << 20));
  rig.set_up.at_barrier();
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(1 << 18));
  rig.set_up.at_barrier();
  rig.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  rig.gather(OneSided::Gather::kHandles, handle(kReal));
  rig.all_stand();
  const auto registers = [&](const NcclConnector& in, uint64_t bytes, Use use) {
    SCOPED_TRACE(bytes);
    for (const Bytes& own : {Bytes(8, 1), Bytes(4, 1)}) {
      rig.host.relayed.clear();
      rig.set_up.relayed(in, own);
      const std::vector<Bytes> ours = rig.host.relayed;
      for (size_t i = 0; i + 1 < ours.size(); ++i) rig.set_up.relayed(in, ours[i]);
    }
    ASSERT_EQ(rig.host.failure, "");
    EXPECT_EQ(rig.host.memories.back().bytes, bytes);
    EXPECT_EQ(rig.host.memories.back().use, use);
  };
  // Windows that were there before, the newest first.
  registers(rig.in(), 1 << 18, Use::kWindow);
  registers(rig.in(), 1 << 20, Use::kWindow);
  EXPECT_TRUE(rig.set_up.under_way());
  rig.ring(handle(kMesh));
  const std::vector<NcclConnector> first(rig.host.expected.begin() + 1, rig.host.expected.end());
  for (uint32_t context = 1; context <= 2; ++context) {
    for (uint32_t barrier = 0; barrier < OneSidedRig::kRanks; ++barrier) {
      rig.ring(Bytes(4));
      rig.all_stand();
      if (context == 2) {
        for (const auto& [c, before] : rig.host.behind) rig.set_up.ready(c);
      }
    }
    // At the listener of the first context, and called at the real rank's.
    ASSERT_EQ(rig.host.behind.size(), 3u * context);
    EXPECT_EQ(rig.host.called.size(), 1 + 3u * context);
    EXPECT_EQ(rig.host.called.back().second, kMesh);
    EXPECT_EQ(rig.host.called.back().first.channel, context << 8);
  }
  EXPECT_EQ(rig.host.behind.front().second, first.front());
  EXPECT_TRUE(rig.host.gone.empty());
  registers(rig.in(), 2 * 8192 * 8, Use::kGinSignals);
  // A third context was expected, and does not come.
  ASSERT_EQ(rig.host.gone.size(), 3u);
  EXPECT_EQ(rig.host.gone[0].channel, 3u << 8);
  registers(rig.in(), 256 * 8 * OneSidedRig::kRanks, Use::kLocal);
  registers(rig.in(), 256 * 8 * OneSidedRig::kRanks, Use::kLocal);
  EXPECT_FALSE(rig.set_up.under_way());
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(1 << 16));
  registers(rig.in(), 1 << 16, Use::kWindow);

  // The RMA proxy's ring is another.
  rig.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  rig.gather(OneSided::Gather::kHandles, handle(kReal));
  const NcclConnector in = rig.host.expected.back();
  EXPECT_EQ(in.index, kOneSidedRing);
  EXPECT_EQ(in.channel, 1u);
  rig.all_stand();
  rig.set_up.relayed(in, Bytes(8, 1));
  EXPECT_TRUE(says(rig.host.failure, "where NCCL's RMA proxy has others"));
}

/// GIN on the GPU tells of its keys without addresses.
TEST(OneSided, GinOnTheGpuIsRefusedByName) {
  for (const size_t bytes : {4u, 200u}) {
    OneSidedRig rig;
    rig.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
    rig.gather(OneSided::Gather::kHandles, handle(kReal));
    rig.set_up.relayed(rig.in(), Bytes(bytes));
    EXPECT_TRUE(says(rig.host.failure, "with GIN on the GPU itself (NCCL_GIN_TYPE=3)"));
  }
}

TEST(OneSided, WindowsThatNoGpuHasAreRefused) {
  for (const uint64_t bytes : {uint64_t{0}, (uint64_t{1} << 40) + 1, ~uint64_t{0}}) {
    OneSidedRig rig;
    rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(bytes));
    EXPECT_TRUE(says(rig.host.failure, "a window of " + std::to_string(bytes) + " bytes"));
  }
  OneSidedRig rig;
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(uint64_t{1} << 40));
  EXPECT_EQ(rig.host.failure, "");
}

/// No more NICs than NCCL has, and nothing that is no window.
TEST(OneSided, GinsSizesAreBounded) {
  OneSidedRig rig;
  rig.gather(OneSided::Gather::kCount, {0xff, 0xff, 0xff, 0xff});
  for (uint32_t nic = 0; nic < 4; ++nic) {
    rig.gather(OneSided::Gather::kHandles, handle(kReal));
  }
  rig.gather(OneSided::Gather::kNone, handle(kReal));
  EXPECT_TRUE(says(rig.host.failure, "one after another all-gathers than NCCL's"));
  OneSidedRig other;
  other.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  other.gather(OneSided::Gather::kHandles, handle(kReal));
  other.set_up.relayed(other.in(), Bytes(8));
  EXPECT_TRUE(says(other.host.failure, "sends 8 bytes over the ring"));
  OneSidedRig host_memory;
  host_memory.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  host_memory.gather(OneSided::Gather::kHandles, handle(kReal));
  Bytes segments = OneSidedRig::segments(4096);
  segments[4] = 1;
  host_memory.gather(OneSided::Gather::kSegments, segments);
  EXPECT_TRUE(says(host_memory.host.failure, "a window has host memory"));
  OneSidedRig before;
  before.gather(OneSided::Gather::kSegments, segments);
  before.set_up.at_barrier();
  EXPECT_EQ(before.host.failure, "");
  before.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  before.gather(OneSided::Gather::kHandles, handle(kReal));
  EXPECT_TRUE(says(before.host.failure, "a window has host memory"));
}

TEST(OneSided, GinOfSeveralRealRanksIsRefusedByName) {
  OneSidedRig rig(3);
  rig.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  EXPECT_EQ(rig.host.failure, "");
  rig.gather(OneSided::Gather::kNone, handle(kReal));
  EXPECT_TRUE(says(rig.host.failure, "of GIN, for a device communicator, where 2 ranks"));
  EXPECT_TRUE(says(rig.host.failure, "NCCL_SYM_GIN_KERNELS_ENABLE=0"));
}

TEST(OneSided, SeveralRealRanksAreRefusedByName) {
  OneSidedRig rig(3);
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(1 << 20));
  EXPECT_EQ(rig.host.failure, "");
  rig.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  EXPECT_TRUE(says(rig.host.failure, "where one rank of the communicator is real, here 2 are"));
  EXPECT_TRUE(says(rig.host.failure, "NCCL_RMA_DISABLE=1"));
}

TEST(OneSided, WhatNcclDoesNotSendIsRefused) {
  {
    OneSidedRig rig;
    rig.begin();
    rig.set_up.relayed(rig.in(), Bytes(24));
    EXPECT_TRUE(says(rig.host.failure, "sends 24 bytes over the ring"));
  }
  {
    OneSidedRig rig;
    rig.begin();
    rig.set_up.relayed(rig.in(), Bytes(4));
    EXPECT_TRUE(says(rig.host.failure, "sends 4 bytes over the ring"));
  }
  {
    OneSidedRig rig;
    rig.begin();
    rig.set_up.relayed(rig.in(), Bytes(128));
    EXPECT_TRUE(says(rig.host.failure, "no address can be read"));
  }
  {
    OneSidedRig rig;
    rig.begin();
    rig.set_up.relayed(rig.in(), handle(kMesh));
    Bytes other = rig.host.relayed.front();
    other[5] ^= 1;
    rig.set_up.relayed(rig.in(), other);
    EXPECT_TRUE(says(rig.host.failure, "hands on 128 bytes as rank 0's"));
  }
  OneSidedRig rig;
  rig.gather(OneSided::Gather::kSegments, OneSidedRig::segments(1 << 20));
  rig.gather(OneSided::Gather::kCount, {1, 0, 0, 0});
  rig.gather(OneSided::Gather::kHandles, Bytes(128));
  EXPECT_TRUE(says(rig.host.failure, "no address can be read from its net_ib handle"));
}

}  // namespace
}  // namespace understudy
