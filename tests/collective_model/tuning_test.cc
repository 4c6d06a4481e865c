// NCCL's choice, by hand from its published constants, and by what measured curves show.
#include "collective_model/tuner/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "collective_model/tuner/graph_search.h"
#include "collective_model/tuner/nvlink_mesh.h"

namespace understudy {
namespace {

constexpr uint64_t kMiB = 1 << 20;

NcclSystem system_of(GpuGeneration gpu, NcclGraph ring, NcclGraph tree, uint32_t channels) {
  NcclSystem system;
  system.gpu = gpu;
  system.ring = ring;
  system.tree = tree;
  system.channels = channels;
  return system;
}

Tuner a100_node() {
  const NcclGraph graph{12, 20, 20};
  return Tuner(system_of(GpuGeneration::kAmpere, graph, graph, 24), {8, 1}, {18});
}

/// 2 nodes of 8 A100, 16 NICs of 100 Gbit/s.
Tuner two_nodes(NcclVersion version) {
  NcclSystem system = system_of(GpuGeneration::kAmpere, {16, 12, 12}, {16, 15, 12}, 32);
  system.cpu = CpuVendor::kAmd;
  return Tuner(system, {16, 2}, version);
}

std::pair<Algorithm, Protocol> choice(const Tuner& tuner, uint64_t bytes) {
  const TuningTable table = tuner.tune(Collective::kAllReduce, bytes);
  EXPECT_TRUE(table.chosen);
  return {table.algorithm, table.protocol};
}

const auto kRingSimple = std::pair{Algorithm::kRing, Protocol::kSimple};
const auto kRingLl128 = std::pair{Algorithm::kRing, Protocol::kLL128};
const auto kTreeSimple = std::pair{Algorithm::kTree, Protocol::kSimple};
const auto kTreeLl = std::pair{Algorithm::kTree, Protocol::kLL};
const auto kTreeLl128 = std::pair{Algorithm::kTree, Protocol::kLL128};

TEST(Tuning, TimesByHand) {
  const TuningTable table = a100_node().tune(Collective::kAllReduce, 24 * kMiB);
  const auto& ring = table.pairs[index(Algorithm::kRing)];
  // Simple: 8.4 + 14 * 3.4 us, 12 * 20 GB/s * 8 / 14.
  EXPECT_NEAR(ring[index(Protocol::kSimple)].latency, 56, 1e-9);
  EXPECT_NEAR(ring[index(Protocol::kSimple)].bandwidth, 240 * 8 / 14.0, 1e-9);
  // LL128: 14 + 14 * 1.9 us, 0.92 of that.
  EXPECT_NEAR(ring[index(Protocol::kLL128)].latency, 40.6, 1e-9);
  EXPECT_NEAR(ring[index(Protocol::kLL128)].bandwidth, 240 * .92 * 8 / 14, 1e-9);
  EXPECT_NEAR(ring[index(Protocol::kLL128)].time, 40.6 + 24 * kMiB / (1000 * 240 * .92 * 8 / 14),
              1e-6);
  // A tree of 24 MiB has 0.7 of its bandwidth by Simple: min(0.92 * 240, 12 * 24) / 2.
  const TuningPair& tree = table.pairs[index(Algorithm::kTree)][index(Protocol::kSimple)];
  EXPECT_EQ(tree.correction, .7);
  EXPECT_NEAR(tree.bandwidth, 110.4, 1e-9);
}

TEST(Tuning, SwitchesWhereMeasuredCurvesDo) {
  // vTrain's table of 8 A100: 303 us at 22 MiB, 265 us at 24 MiB.
  EXPECT_EQ(choice(a100_node(), 22 * kMiB), kRingLl128);
  EXPECT_EQ(choice(a100_node(), 24 * kMiB), kRingSimple);
  // Of 8 V100: 300 us at 12 MiB, 256 us at 14 MiB; of 4: flat between 4 and 6 MiB.
  const NcclGraph six{6, 22, 22}, four{4, 22, 22};
  const Tuner v8(system_of(GpuGeneration::kVolta, six, six, 12), {8, 1}, {12});
  EXPECT_EQ(choice(v8, 12 * kMiB), kRingLl128);
  EXPECT_EQ(choice(v8, 14 * kMiB), kRingSimple);
  const Tuner v4(system_of(GpuGeneration::kVolta, four, four, 8), {4, 1}, {12});
  EXPECT_EQ(choice(v4, 4 * kMiB), kRingLl128);
  EXPECT_EQ(choice(v4, 6 * kMiB), kRingSimple);
  // OCI's 2 nodes: busbw jumps from 156 to 219 GB/s between 512 MiB and 1 GiB. 238 GB/s at 8 GiB is
  // more than a ring could bring through 16 NICs of 100 Gbit/s.
  const Tuner oci = two_nodes({20});
  EXPECT_EQ(choice(oci, 8), kTreeLl);
  EXPECT_EQ(choice(oci, 65536), kTreeLl);
  EXPECT_EQ(choice(oci, 262144), kTreeLl128);
  EXPECT_EQ(choice(oci, 512 * kMiB), kTreeLl128);
  EXPECT_EQ(choice(oci, 1024 * kMiB), kTreeSimple);
  // With 2.23 trees by Simple are estimated faster.
  EXPECT_EQ(choice(two_nodes({23}), 512 * kMiB), kTreeSimple);
}

TEST(Tuning, FewerChannelsForSmallSizes) {
  const Tuner tuner = two_nodes({20});
  // LL: 8 bytes a thread of 512 for trees; 8 bytes a rank for rings.
  EXPECT_EQ(tuner.tune(Collective::kAllReduce, 65536).channels_used, 16u);
  const TuningTable ring =
      tuner.tune(Collective::kAllReduce, 8 << 20, Algorithm::kRing, Protocol::kLL);
  EXPECT_EQ(ring.channels_used, 32u);
  EXPECT_EQ(
      tuner.tune(Collective::kAllReduce, 65536 * 16, Algorithm::kRing, Protocol::kLL).channels_used,
      16u);
  const TuningTable tiny =
      tuner.tune(Collective::kAllReduce, 8, Algorithm::kRing, Protocol::kSimple);
  EXPECT_EQ(tiny.channels_used, 1u);
  EXPECT_EQ(tiny.threads, 96u);  // 64 and a warp that synchronises
}

TEST(Tuning, SaysWhyNot) {
  const Tuner tuner = a100_node();
  const auto reason = [&](Collective c, Algorithm a, Protocol p, const Tuner& t) {
    return t.tune(c, kMiB).pairs[index(a)][index(p)].reason;
  };
  EXPECT_EQ(reason(Collective::kAllGather, Algorithm::kTree, Protocol::kLL, tuner),
            "trees are for all-reduce");
  EXPECT_EQ(reason(Collective::kAllGather, Algorithm::kPat, Protocol::kSimple, tuner),
            "PAT came with NCCL 2.23");
  const Tuner pat(NcclSystem(), {16, 2}, {28});
  EXPECT_EQ(reason(Collective::kAllGather, Algorithm::kPat, Protocol::kSimple, pat),
            "PAT is for one GPU per node");
  EXPECT_EQ(reason(Collective::kAllGather, Algorithm::kPat, Protocol::kLL, pat),
            "PAT knows Simple only");
  const Tuner alone(NcclSystem(), {16, 16}, {28});
  EXPECT_TRUE(alone.tune(Collective::kAllGather, kMiB, Algorithm::kPat).chosen);
  EXPECT_FALSE(alone.tune(Collective::kAllReduce, kMiB, Algorithm::kPat).chosen);
  EXPECT_FALSE(alone.tune(Collective::kSendRecv, kMiB).chosen);
}

TEST(Tuning, LL128IsTakenByNameOnly) {
  NcclSystem system;
  system.ll128 = false;
  const Tuner tuner(system, {8, 1}, {28});
  const auto pair = [&](std::optional<Protocol> p) {
    return tuner.tune(Collective::kAllReduce, kMiB, {}, p)
        .pairs[index(Algorithm::kRing)][index(Protocol::kLL128)];
  };
  EXPECT_FALSE(pair({}).enabled);
  EXPECT_TRUE(pair(Protocol::kLL128).enabled);
}

struct Variable {
  const char* name;
  const char* value;
};

Tuner with(std::initializer_list<Variable> variables, NcclVersion version = {28}) {
  NcclEnvironment environment;
  for (const Variable& v : variables) {
    const auto set = environment.set(v.name, v.value, version);
    EXPECT_TRUE(set) << (set ? "" : set.error().text);
  }
  NcclSystem system = system_of(GpuGeneration::kAmpere, {16, 12, 12}, {16, 12, 12}, 32);
  return Tuner(system, {16, 2}, version, environment);
}

TEST(Tuning, EnvironmentForces) {
  const auto ways = [](const Tuner& tuner, Collective c) {
    std::string text;
    const TuningTable table = tuner.tune(c, 64 * kMiB);
    for (size_t a = 0; a < kAlgorithms; ++a) {
      for (size_t p = 0; p < kProtocols; ++p) {
        if (table.pairs[a][p].enabled) text += std::string(1, "rtp"[a]) + "slL"[p] + " ";
      }
    }
    return text;
  };
  const Collective reduce = Collective::kAllReduce, gather = Collective::kAllGather;
  EXPECT_EQ(ways(with({}), reduce), "rs rl rL ts tl tL ");
  EXPECT_EQ(ways(with({{"NCCL_ALGO", "Tree"}}), reduce), "ts tl tL ");
  EXPECT_EQ(ways(with({{"NCCL_ALGO", "^tree"}}), reduce), "rs rl rL ");
  EXPECT_EQ(ways(with({{"NCCL_PROTO", "LL,Simple;allreduce:^LL"}}), reduce), "rs rL ts tL ");
  EXPECT_EQ(ways(with({{"NCCL_PROTO", "LL,Simple;allreduce:^LL"}}), gather), "rs rl ");
  EXPECT_EQ(ways(with({{"NCCL_ALGO", "allreduce:tree"}, {"NCCL_PROTO", "simple"}}), reduce), "ts ");
  EXPECT_EQ(ways(with({{"NCCL_ALGO", "NVLS"}}), reduce), "");
  // Until 2.23 other collectives kept their ring.
  EXPECT_EQ(ways(with({{"NCCL_ALGO", "Tree"}}, {22}), gather), "rs rl rL ");
  EXPECT_EQ(ways(with({{"NCCL_ALGO", "Tree"}}), gather), "");
  EXPECT_EQ(with({{"NCCL_MAX_NCHANNELS", "4"}}).channels(), 4u);
  EXPECT_EQ(with({{"NCCL_MIN_NCHANNELS", "48"}}).channels(), 48u);
  const Tuner slow = with({{"NCCL_NTHREADS", "128"}, {"NCCL_THREAD_THRESHOLDS", "-2 -2 -2 1 1 1"}});
  const TuningTable table = slow.tune(reduce, 4096, Algorithm::kRing, Protocol::kSimple);
  EXPECT_EQ(table.channels_used, 32u);
  EXPECT_EQ(table.threads, 160u);
}

TEST(Tuning, BadEnvironment) {
  const auto error = [](const char* name, const char* value, NcclVersion version = {28}) {
    NcclEnvironment environment;
    const auto set = environment.set(name, value, version);
    return set ? std::string() : set.error().text;
  };
  EXPECT_EQ(error("NCCL_ALGO", "rings"), "NCCL_ALGO: \"rings\" is unknown");
  EXPECT_EQ(error("NCCL_ALGO", "sum:ring"), "NCCL_ALGO: \"sum\" is no function");
  EXPECT_EQ(error("NCCL_ALGO", "ring;tree"),
            "NCCL_ALGO: every list but the first one needs its function");
  EXPECT_EQ(error("NCCL_PROTO", "allreduce:LL", {22}),
            "NCCL_PROTO: lists by function came with NCCL 2.24");
  EXPECT_EQ(error("NCCL_MAX_NCHANNELS", "65"), "NCCL_MAX_NCHANNELS takes a number from 1 to 64");
  EXPECT_NE(error("NCCL_DEBUG", "INFO"), "");
}

TEST(Tuning, SearchFindsKnownGraphs) {
  const auto search = [](GpuGeneration gpu, uint32_t minor, CommunicatorSize c, NodeLinks links) {
    NcclSystem system;
    system.gpu = gpu;
    search_graphs(system, {minor}, c, links);
    return system;
  };
  const NcclSystem a100 = search(GpuGeneration::kAmpere, 18, {8, 1}, {8, 0, 0});
  EXPECT_EQ(a100.ring.channels, 12u);
  EXPECT_EQ(a100.ring.intra, 20);
  EXPECT_EQ(a100.channels, 24u);
  const NcclSystem oci = search(GpuGeneration::kAmpere, 20, {16, 2}, {8, 16, 12.5});
  EXPECT_EQ(oci.ring.channels, 16u);
  EXPECT_EQ(oci.ring.inter, 12);
  EXPECT_EQ(oci.tree.intra, 15);
  const NcclSystem h100 = search(GpuGeneration::kHopper, 28, {8, 1}, {8, 0, 0});
  EXPECT_EQ(h100.ring.channels, 12u);
  EXPECT_EQ(h100.ring.intra, 30);
}

TEST(Tuning, RingsFollowTheMeshOfV100) {
  const NvlinkMesh& mesh = hybrid_cube_mesh();
  for (size_t a = 0; a < kMeshGpus; ++a) {
    uint32_t links = 0;
    for (size_t b = 0; b < kMeshGpus; ++b) {
      EXPECT_EQ(mesh[a][b], mesh[b][a]);
      links += mesh[a][b];
    }
    EXPECT_EQ(links, 6u) << "GPU " << a;
  }
  const auto found = [](uint32_t gpus, uint32_t minor) {
    NcclSystem system;
    system.gpu = GpuGeneration::kVolta;
    search_graphs(system, {minor}, {gpus, 1}, {gpus, 0, 0});
    EXPECT_EQ(system.channels, 2 * system.ring.channels);
    EXPECT_EQ(system.ring.bridged, gpus == 5);
    return std::pair(system.ring.channels, system.ring.intra);
  };
  // By hand. 2: one link. 3: GPU 0 has one link to each other one, so one ring each way round.
  // 4: GPUs 0 and 1 have four links each, all of them in rings. 5: GPU 4 hangs on two links to GPU
  // 0 and is in rings only across it. 6: all rings pass the one link between 4 and 5. 7: GPUs 4 and
  // 6 have four links. 8: all six links of each are in rings.
  const std::pair<uint32_t, uint32_t> by_hand[] = {{2, 1}, {3, 2}, {4, 4}, {5, 2},
                                                   {6, 2}, {7, 4}, {8, 6}};
  for (const auto& [gpus, rings] : by_hand) {
    EXPECT_EQ(found(gpus, 12), std::pair(rings, 22.0)) << gpus;
    EXPECT_EQ(found(gpus, 18), std::pair(rings, 20.0)) << gpus;
  }
  EXPECT_EQ(rings_of(mesh, 5, 22, 22, false, 16), 0u);
  EXPECT_EQ(rings_of(mesh, 8, 22, 22, false, 3), 3u);
  // All eight also lie on one ring of double links, which is less than six of single ones.
  EXPECT_EQ(rings_of(mesh, 8, 22, 44, false, 16), 2u);
}

NcclSystem searched(GpuGeneration gpu, uint32_t gpus, GpuLinks inside,
                    IntraLink intra = IntraLink::kNvlink) {
  NcclSystem system;
  system.gpu = gpu;
  system.intra = intra;
  search_graphs(system, {28}, {gpus, 1}, {gpus, 0, 0, inside});
  return system;
}

// By hand: 8 links of 20.6 GB/s carry 4 channels of 40, more than 2 of 60 or 3 of 50, and these are
// doubled at half the speed.
TEST(Tuning, SearchTakesTheNvlinksThatAreGiven) {
  const NcclSystem fewer = searched(GpuGeneration::kHopper, 8, {.nvlinks = 8});
  EXPECT_EQ(fewer.ring.channels, 8u);
  EXPECT_EQ(fewer.ring.intra, 20);
  const NcclSystem all = searched(GpuGeneration::kHopper, 8, {.nvlinks = 18});
  const NcclSystem usual = searched(GpuGeneration::kHopper, 8, {});
  EXPECT_EQ(all.ring.channels, usual.ring.channels);
  EXPECT_EQ(all.ring.intra, usual.ring.intra);
  // Switches take the place of the mesh that such GPUs have otherwise: 6 links of 20.
  EXPECT_EQ(searched(GpuGeneration::kVolta, 4, {.nvlinks = 6}).ring.channels, 6u);
}

TEST(Tuning, SearchGoesThroughTheMeshThatIsGiven) {
  // Four GPUs, each with four links to each other one. Three cycles lead through all of them, each
  // way round, and pass each pair twice in each direction: all links are in twelve rings.
  NvlinkMesh mesh{};
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 4; ++b) mesh[a][b] = a == b ? 0 : 4;
  }
  const NcclSystem ampere = searched(GpuGeneration::kAmpere, 4, {.mesh = mesh});
  EXPECT_EQ(ampere.ring.channels, 12u);
  EXPECT_EQ(ampere.ring.intra, 20);
  // Without a ring of links there are the slots.
  const NcclSystem apart =
      searched(GpuGeneration::kVolta, 4, {.mesh = NvlinkMesh{}, .pci_rate = 24});
  const NcclSystem slots = searched(GpuGeneration::kVolta, 4, {.pci_rate = 24}, IntraLink::kPci);
  EXPECT_EQ(apart.ring.channels, slots.ring.channels);
  EXPECT_EQ(apart.ring.intra, slots.ring.intra);
  EXPECT_EQ(slots.ring.channels * slots.ring.intra, 24);
}

// The densest meshes that a file may describe end as well, and those without any order.
TEST(Tuning, SearchEndsInAnyMesh) {
  std::mt19937 random(5);
  for (uint32_t gpus = 2; gpus <= kMeshGpus; ++gpus) {
    for (const unsigned links : {0u, 1u, 2u, 9u}) {
      NvlinkMesh mesh{};
      uint32_t most = 0;
      for (size_t a = 0; a < gpus; ++a) {
        for (size_t b = 0; b < a; ++b) {
          mesh[a][b] = mesh[b][a] = static_cast<uint8_t>(links > 0 ? links : random() % 7);
        }
      }
      for (size_t a = 0; a < gpus; ++a) {
        most = std::max(most, std::accumulate(mesh[a].begin(), mesh[a].end(), 0u));
      }
      const NcclSystem found = searched(GpuGeneration::kAmpere, gpus, {.mesh = mesh});
      EXPECT_GE(found.ring.channels, 1u) << gpus;
      EXPECT_LE(found.ring.channels * found.ring.intra, most * 20) << gpus;
    }
  }
}

TEST(Tuning, AMeshMayHaveNoRingOrAFasterOne) {
  const double speeds[] = {44, 22, 18, 12, 10};
  NvlinkMesh mesh{};
  EXPECT_EQ(mesh_graph(mesh, 2, 22, speeds, 16).channels, 0u);
  // A chain of three: its ends are joined across the middle, by all four links it has.
  mesh[0][1] = mesh[1][0] = mesh[1][2] = mesh[2][1] = 2;
  EXPECT_EQ(rings_of(mesh, 3, 22, 22, false, 16), 0u);
  const NcclGraph bridged = mesh_graph(mesh, 3, 22, speeds, 16);
  EXPECT_EQ(bridged.channels, 1u);
  EXPECT_EQ(bridged.intra, 44);
  // A triangle of double links: one ring each way round at the speed of both links.
  mesh[0][2] = mesh[2][0] = 2;
  const NcclGraph fast = mesh_graph(mesh, 3, 22, speeds, 16);
  EXPECT_EQ(fast.channels, 2u);
  EXPECT_EQ(fast.intra, 44);
}

/// Nodes of 8 H100 with NICs of 400 Gbit/s, as NCCL's search finds them.
Tuner hoppers(uint32_t gpus, uint32_t nodes, NcclEnvironment environment = {}) {
  NcclSystem system;
  system.gpu = GpuGeneration::kHopper;
  system.nvls = true;
  search_graphs(system, {28}, {gpus * nodes, nodes}, {gpus, gpus, 50});
  return Tuner(system, {gpus * nodes, nodes}, {28}, environment);
}

// A head's link carries a share for each of 8 heads and its own twice: 40 GB/s of 370 / 9. NVLS has
// 8 * 2 * 40 * 0.85 * 7/8 = 476 GB/s then, as measured (480); up to 4 GPUs rings are faster.
TEST(Tuning, NvlsOnHopper) {
  const Tuner eight = hoppers(8, 1);
  EXPECT_EQ(eight.system().nvls_graph.channels, 8u);
  EXPECT_EQ(eight.system().nvls_graph.intra, 40);
  const TuningTable table = eight.tune(Collective::kAllReduce, 1024 * kMiB);
  EXPECT_EQ(table.algorithm, Algorithm::kNvls);
  EXPECT_EQ(table.protocol, Protocol::kSimple);
  EXPECT_EQ(table.channels_used, 16u);
  EXPECT_EQ(table.choice().latency, 25);
  EXPECT_NEAR(table.choice().bandwidth, 476 * 8 / 14.0, 1e-9);
  const TuningPair& ring = table.pairs[index(Algorithm::kRing)][index(Protocol::kSimple)];
  EXPECT_NEAR(table.choice().bandwidth / ring.bandwidth, 1.30, .05);
  for (uint32_t gpus = 2; gpus <= 4; ++gpus) {
    EXPECT_EQ(hoppers(gpus, 1).tune(Collective::kAllReduce, 1024 * kMiB).algorithm,
              Algorithm::kRing)
        << gpus;
  }
  NcclEnvironment off;
  ASSERT_TRUE(off.set("NCCL_NVLS_ENABLE", "0", {28}));
  EXPECT_EQ(hoppers(8, 1, off).tune(Collective::kAllReduce, 1024 * kMiB).algorithm,
            Algorithm::kRing);
}

// Two nodes: 57.7 GB/s of each of 8 heads; more: 45.5. Latency 25 + 2 log2(nodes) 20.9 us.
TEST(Tuning, NvlsTreesBetweenNodes) {
  for (const uint32_t nodes : {2u, 4u, 8u}) {
    const Tuner tuner = hoppers(8, nodes);
    const TuningTable table = tuner.tune(Collective::kAllReduce, 1024 * kMiB);
    const TuningPair& pair = table.pairs[index(Algorithm::kNvlsTree)][index(Protocol::kSimple)];
    ASSERT_TRUE(pair.enabled) << pair.reason;
    const double n = 8 * nodes, log2 = nodes == 2 ? 1 : nodes == 4 ? 2 : 3;
    EXPECT_NEAR(pair.bandwidth, 8 * (nodes == 2 ? 57.7 : 45.5) * n / (2 * (n - 1)), 1e-9) << nodes;
    EXPECT_NEAR(pair.latency, 25 + 2 * log2 * 20.9, 1e-9) << nodes;
    EXPECT_EQ(table.algorithm, Algorithm::kNvlsTree) << nodes;
    EXPECT_FALSE(table.pairs[index(Algorithm::kNvls)][index(Protocol::kSimple)].enabled);
  }
}

// A maintainer's rule of thumb (NVIDIA/nccl issue 320): about 20 GB/s a NIC of 200 Gbit/s for
// DGX A100 with 4 NICs; a head for each NIC halves what its GPUs share.
TEST(Tuning, CollnetHasAHeadForEachNic) {
  NcclSystem system;
  system.collnet = true;
  const auto tuned = [&](uint32_t nics, Algorithm algorithm) {
    search_graphs(system, {28}, {16, 2}, {8, nics, 25});
    const Tuner tuner(system, {16, 2}, {28});
    return tuner.tune(Collective::kAllReduce, 256 * kMiB, algorithm).choice();
  };
  EXPECT_NEAR(tuned(8, Algorithm::kCollnetDirect).bandwidth, 8 * 24 * .5, 1e-9);
  EXPECT_NEAR(tuned(4, Algorithm::kCollnetDirect).bandwidth, 4 * 24 * .5 / 1.5, 1e-9);
  EXPECT_NEAR(tuned(8, Algorithm::kCollnetDirect).latency, 2 * (3.7 + 7 * .4) + 31, 1e-9);
  EXPECT_NEAR(tuned(8, Algorithm::kCollnetChain).latency, 2 * 7 * 2.8 + 30, 1e-9);
  // 16 channels of 640 threads with 512 bytes of each of 8 heads; every halving halves that.
  search_graphs(system, {28}, {16, 2}, {8, 8, 25});
  const Tuner direct(system, {16, 2}, {28});
  const auto channels = [&](uint64_t bytes) {
    return direct.tune(Collective::kAllReduce, bytes, Algorithm::kCollnetDirect).channels_used;
  };
  EXPECT_EQ(channels(uint64_t{16} * 640 * 512 * 8), 16u);
  EXPECT_EQ(channels(uint64_t{8} * 640 * 256 * 8), 8u);
  EXPECT_EQ(channels(1), 1u);
  // It is not spoken of where no switch reduces.
  const TuningTable without = hoppers(8, 2).tune(Collective::kAllReduce, kMiB);
  EXPECT_FALSE(without.offered[index(Algorithm::kCollnetChain)]);
  EXPECT_TRUE(without.offered[index(Algorithm::kNvlsTree)]);
}

}  // namespace
}  // namespace understudy
