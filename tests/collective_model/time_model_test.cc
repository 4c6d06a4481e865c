// The closed form of operations against the exact ring, bounds and laws.
#include "collective_model/predict/time_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "collective_model/plan/wire_cost.h"
#include "collective_model/predict/fit.h"
#include "collective_model/schedule/simple_all_reduce.h"

namespace understudy {
namespace {

constexpr uint64_t kMiB = 1 << 20;

OperationShape shape_of(Collective collective, CommunicatorSize size, uint64_t bytes) {
  OperationShape shape;
  shape.collective = collective;
  shape.communicator = size;
  shape.bytes = bytes;
  return shape;
}

NetworkCost network_of(uint64_t gbps, double latency) {
  return {static_cast<double>(gbps) * 125, latency, 4178.0 / 4096};
}

/// Time of `bytes` of payload in full packets.
Duration payload_time(uint64_t bytes, Rate rate, const WireCost& wire) {
  return rate.time_for(bytes * (wire.mtu + wire.overhead)) / wire.mtu;
}

/// Uniform ranks whose first credits were there before: the sum over loops of
///   (J-1) * max(c/B, s/B + alpha) + c/B + alpha
/// with J = 2(n-1), c the loop's chunk, s its first slice, alpha the latency + step cost and B the
/// hop's rate times payload over wire bytes of a packet that is full.
Duration closed_form_time(const RingSchedule& schedule, const Hop& hop, const WireCost& wire,
                          Duration step_cost) {
  const Duration alpha = hop.latency + step_cost;
  Duration total;
  for (uint32_t loop = 0; loop < schedule.loops(); ++loop) {
    const uint32_t chunk = schedule.chunk_bytes(loop);
    const Duration whole = payload_time(chunk, hop.rate, wire);
    const Duration slice = payload_time(schedule.first_slice(chunk), hop.rate, wire);
    total += std::max(whole, slice + alpha) * (schedule.steps() - 1) + whole + alpha;
  }
  return total;
}

/// Of the slowest channel, all of which share the links.
Duration ring_time_of(uint32_t ranks, uint64_t bytes, uint32_t channels, uint64_t gbps,
                      Duration latency, Duration step_cost) {
  const auto parts = cut_all_reduce(bytes, 4, channels);
  Duration longest;
  for (const ChannelPart& part : parts) {
    const Hop hop{Rate::bits_per_second(gbps * 1'000'000'000 / parts.size()), latency};
    longest = std::max(longest, closed_form_time(RingSchedule(ranks, part, 4), hop, {}, step_cost));
  }
  return longest;
}

TEST(TimeModel, WithoutGpuCostsIsTheExactRing) {
  for (const uint32_t ranks : {2u, 3u, 4u, 16u, 64u, 1000u}) {
    for (const uint64_t bytes :
         {uint64_t{65536}, kMiB, 24 * kMiB, 100'000'000 / 4 * uint64_t{4}, 1024 * kMiB}) {
      for (const uint32_t channels : {1u, 2u, 8u}) {
        for (const uint64_t gbps : {10u, 400u}) {
          OperationShape shape = shape_of(Collective::kAllReduce, {ranks, ranks}, bytes);
          shape.channels = channels;
          Calibration steps;
          steps.protocol[index(Protocol::kSimple)].latency = 1;
          const double model = operation_time(shape, steps, network_of(gbps, 2));
          const double exact =
              ring_time_of(ranks, bytes, channels, gbps, Duration::us(2), Duration::us(1))
                  .microseconds();
          ASSERT_NEAR(model / exact, 1, 1e-6) << ranks << " ranks, " << bytes << " bytes, "
                                              << channels << " channels, " << gbps << " Gbit/s";
        }
      }
    }
  }
}

TEST(TimeModel, NoFasterThanTheLinksAndNoSlowerWithFasterOnes) {
  Calibration calibration;
  calibration.launch = 10;
  for (ProtocolCost& cost : calibration.protocol) cost = {1, 10, 2, 5};
  for (const Collective c :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kReduce, Collective::kSendRecv, Collective::kAllToAll,
        Collective::kGather}) {
    for (const Algorithm a : {Algorithm::kRing, Algorithm::kTree, Algorithm::kPat}) {
      for (const Protocol p : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
        for (const CommunicatorSize size : {CommunicatorSize{16, 2}, {24, 3}, {64, 8}, {64, 64}}) {
          if (a == Algorithm::kTree && c != Collective::kAllReduce) continue;
          double before = 0;
          for (uint64_t bytes = 1024; bytes <= 4096 * kMiB; bytes *= 4) {
            OperationShape shape = shape_of(c, size, bytes);
            shape.algorithm = a;
            shape.protocol = p;
            shape.channels = 8;
            const NetworkCost network = network_of(200, 3);
            const double t = operation_time(shape, calibration, network);
            const double least = bytes_between_nodes(shape) * network.wire_per_byte / network.rate;
            ASSERT_GE(t, least * 0.9999)
                << static_cast<int>(c) << " " << static_cast<int>(a) << " " << static_cast<int>(p)
                << " " << size.nodes << " nodes, " << bytes;
            ASSERT_GE(t, before);
            ASSERT_LE(operation_time(shape, calibration, network_of(400, 3)), t);
            before = t;
          }
        }
      }
    }
  }
}

TEST(TimeModel, CreditsHoldUpRingsOfSeveralGpus) {
  OperationShape shape = shape_of(Collective::kAllReduce, {64, 8}, 4 * kMiB);
  NetworkCost network = network_of(400, 2);
  const double free = operation_time(shape, {}, network);
  network.farthest = 2;
  const ChunkPlan cut = cut_chunks(shape);
  ASSERT_EQ(cut.loops, 0u);
  // Two messages of a chunk, of the four that a buffer holds, come and go at a time.
  const double message = static_cast<double>(cut.last) / 2 * network.wire_per_byte / network.rate;
  const double step = (message + 2 + 2) / 2;
  ASSERT_GT(step, 2 * message);
  const double t = operation_time(shape, {}, network);
  EXPECT_NEAR(t, 126 * step, 0.02 * t);
  EXPECT_GT(t, free * 1.3);
  // A ring of one GPU a node waits for the data longer than for credits.
  shape.communicator = {64, 64};
  network.farthest = 0;
  const double one = operation_time(shape, {}, network);
  network.farthest = 2;
  EXPECT_NEAR(operation_time(shape, {}, network), one + 2, 1e-6);  // the first credits' way
}

TEST(TimeModel, RoundsStepWhereThreadsBeginAnother) {
  // 8 A100 and 24 channels: a slice is one round of 512 threads up to 24 MiB, and two after that.
  OperationShape shape = shape_of(Collective::kAllReduce, {8, 1}, 0);
  shape.channels = 24;
  shape.version = {18};
  Calibration calibration;
  calibration.protocol[index(Protocol::kSimple)] = {1, 0, 5, 0};
  const auto at = [&](uint64_t mib) {
    shape.bytes = mib * kMiB;
    return operation_time(shape, calibration, {});
  };
  EXPECT_NEAR(at(24), 14 * 6 + 1, 1e-9);  // the last step is two slices
  EXPECT_NEAR(at(26), 14 * 7 + 2, 1e-9);
  EXPECT_NEAR(at(32), at(26), 1e-9);
  // 29.5 hunks of 4 KiB: the last half falls to a warp that has had its second turn.
  EXPECT_NEAR(at(44), 14 * 8 + 3, 1e-9);
  EXPECT_NEAR(at(46), at(26), 1e-9);
}

TEST(TimeModel, HundredThousandGpus) {
  // Constant time: nothing depends on the number of ranks.
  OperationShape shape = shape_of(Collective::kAllReduce, {100'000, 12'500}, 1024 * kMiB);
  shape.channels = 16;
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    for (const Algorithm a : {Algorithm::kRing, Algorithm::kTree}) {
      shape.algorithm = a;
      sum += operation_time(shape, {}, network_of(3200, 2));
    }
  }
  EXPECT_GT(sum, 0);
  // The ring waits for 25,000 crossings, the tree for 28.
  shape.bytes = 1024;
  shape.algorithm = Algorithm::kRing;
  EXPECT_GT(operation_time(shape, {}, network_of(3200, 2)), 2.0 * 2 * 12'499);
  shape.algorithm = Algorithm::kTree;
  EXPECT_LT(operation_time(shape, {}, network_of(3200, 2)), 2.0 * 29);
}

TEST(TimeModel, LinksStepsAndPasses) {
  OperationShape shape = shape_of(Collective::kAllReduce, {4, 1}, 64 * kMiB);
  shape.channels = 8;
  shape.version = {20};  // equal parts
  Calibration c;
  c.tail = 0.5;
  ProtocolCost& simple = c.protocol[index(Protocol::kSimple)];
  simple.rate = 20;
  const double bytes = 64.0 * kMiB / 8 / 4;  // of a channel's chunk, one loop
  EXPECT_NEAR(operation_time(shape, c, {}), 6.5 * bytes / 20e3, 1e-6);
  // Where links are the limit the tail does not count; a step's own cost adds to both.
  c.link = 10;
  EXPECT_NEAR(operation_time(shape, c, {}), 6 * bytes / 10e3, 1e-6);
  simple.step = 2;
  EXPECT_NEAR(operation_time(shape, c, {}), 6 * (bytes / 10e3 + 2), 1e-6);
  shape.bridged = true;
  EXPECT_NEAR(operation_time(shape, c, {}), 6 * (bytes * 1.125 / 10e3 + 2), 1e-6);
  // LL128: a pass of 20 warps takes 38,400 bytes; the way to the next GPU hides behind a longer one.
  shape.bridged = false;
  shape.protocol = Protocol::kLL128;
  shape.threads = 640;
  Calibration lines;
  lines.protocol[index(Protocol::kLL128)].rate = 10;
  lines.protocol[index(Protocol::kLL128)].pass = 1;
  lines.protocol[index(Protocol::kLL128)].latency = 5;
  const auto at = [&](uint64_t chunk) {
    shape.bytes = chunk * 4 * 8;
    return operation_time(shape, lines, {});
  };
  EXPECT_NEAR(at(19'200), 5 * 6 + (1.92 + 1) + 5, 1e-6);  // waits for the way
  EXPECT_NEAR(at(96'000), 6 * (9.6 + 3) + 5, 1e-6);       // three passes
}

TEST(TimeModel, TailsOfLaterLoopsAreShorter) {
  OperationShape shape = shape_of(Collective::kAllReduce, {4, 1}, 0);
  shape.channels = 8;
  shape.version = {20};
  Calibration c;
  c.tail = 0.5;
  c.protocol[index(Protocol::kSimple)].rate = 20;
  // Loops of 2 MiB from each rank on each channel; each has 6 steps.
  const auto at = [&](double loops) {
    shape.bytes = static_cast<uint64_t>(loops * 8 * 4 * 2 * kMiB);
    return operation_time(shape, c, {});
  };
  const double step = 2.0 * kMiB / 20e3;
  EXPECT_NEAR(at(3), 3 * 6.5 * step, 1e-6);
  c.drift = 6 / std::log(2);  // half of the tail is left after each loop
  EXPECT_NEAR(at(1), 6.5 * step, 1e-6);
  EXPECT_NEAR(at(3), (3 * 6 + 0.5 + 0.25 + 0.125) * step, 1e-6);
  // The last loop has half of a chunk.
  EXPECT_NEAR(at(2.5), (2.5 * 6 + 0.5 + 0.25 + 0.125 / 2) * step, 1e-6);
  EXPECT_LT(at(3), at(3.5));
}

TEST(TimeModel, WhatOneNumberOfGpusCostsBesides) {
  OperationShape shape = shape_of(Collective::kAllReduce, {8, 1}, 64 * kMiB);
  shape.channels = 24;
  Calibration c;
  c.launch = 20;
  c.protocol[index(Protocol::kSimple)].rate = 10;
  const double common = operation_time(shape, c, {});
  c.own = {{.ranks = 8, .from = 64 * kMiB, .scale = 1.5, .offset = -3}};
  EXPECT_NEAR(operation_time(shape, c, {}), 1.5 * common - 3, 1e-9);
  const auto is_common = [&](auto change) {
    OperationShape other = shape;
    change(other);
    Calibration without = c;
    without.own.clear();
    return operation_time(other, c, {}) == operation_time(other, without, {});
  };
  EXPECT_FALSE(is_common([](OperationShape& o) { o.bytes *= 3; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { --o.bytes; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.communicator.ranks = 4; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.communicator.nodes = 2; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.collective = Collective::kAllGather; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.algorithm = Algorithm::kTree; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.protocol = Protocol::kLL128; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.gpu = GpuGeneration::kHopper; }));
  EXPECT_TRUE(is_common([](OperationShape& o) { o.version = {20}; }));
  c.own[0].offset = -1e9;
  EXPECT_EQ(operation_time(shape, c, {}), 0);
}

TEST(Fit, FindsWhatOneNumberOfGpusCostsBesides) {
  OperationShape shape = shape_of(Collective::kAllReduce, {8, 1}, 0);
  shape.channels = 24;
  Calibration common;
  common.launch = 20;
  common.protocol[index(Protocol::kSimple)].rate = 10;
  const auto rows = [&](double scale, double offset) {
    std::vector<FitRow> out;
    for (const uint64_t mib : {16u, 64u, 256u}) {
      shape.bytes = mib * kMiB;
      out.push_back({shape, {}, scale * operation_time(shape, common, {}) + offset});
    }
    return out;
  };
  const auto none = fit_own(rows(1, 0), common);
  ASSERT_TRUE(none);
  EXPECT_NEAR(none->scale, 1, 1e-12);
  EXPECT_NEAR(none->offset, 0, 1e-9);
  const auto own = fit_own(rows(1.02, -5), common);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->from, 16 * kMiB);
  EXPECT_EQ(own->ranks, 8u);
  EXPECT_NEAR(own->scale, 1.02, 0.003);  // a little nearer to 1
  EXPECT_LT(own->offset, -2);            // of which the largest rows know little
  EXPECT_GT(own->offset, -5);
  Calibration with = common;
  with.own = {*own};
  EXPECT_NEAR(error_of(rows(1.02, -5).back(), with), 0, 0.002);
  for (const FitRow& row : rows(1.1, 0)) {
    const auto tenth = fit_own(rows(1.1, 0), common);
    with.own = {*tenth};
    EXPECT_NEAR(error_of(row, with), 0, 0.01);
    EXPECT_LT(error_of(row, common), -0.09);
  }
  // What it finds does not depend on what was found before.
  EXPECT_EQ(fit_own(rows(1.02, -5), with)->scale, own->scale);
  EXPECT_FALSE(fit_own({}, common));
  const std::vector<FitRow> three = rows(1.02, -5);
  EXPECT_FALSE(fit_own({three[0], three[0]}, common));
  shape.communicator = {16, 2};
  EXPECT_FALSE(fit_own(rows(1.02, -5), common));
}

TEST(Fit, FindsTheConstantsOfItsOwnModel) {
  OperationShape shape = shape_of(Collective::kAllReduce, {8, 1}, 0);
  shape.channels = 24;
  Calibration truth;
  truth.launch = 25;
  truth.tail = 0.3;
  truth.protocol[index(Protocol::kSimple)] = {1.4, 11, 6, 0};
  std::vector<FitRow> all;
  for (uint64_t bytes = kMiB; bytes <= 1024 * kMiB; bytes += kMiB) {
    shape.bytes = bytes;
    all.push_back({shape, {}, operation_time(shape, truth, {})});
  }
  std::vector<FitRow> used;
  for (const size_t i : calibration_rows(all, 8)) used.push_back(all[i]);
  ASSERT_EQ(used.size(), 8u);
  NcclSystem system;
  system.ring = {12, 20, 20};
  system.channels = 24;
  const Fit fit = fit_calibration(used, system, {28});
  double worst = 0;
  for (const FitRow& row : all) worst = std::max(worst, std::abs(error_of(row, fit.calibration)));
  EXPECT_LT(worst, 0.03);
}

TEST(Fit, RowsByTheRule) {
  std::vector<FitRow> rows;
  const auto add = [&](Protocol protocol, uint64_t from, uint64_t to) {
    for (uint64_t bytes = from; bytes <= to; bytes *= 2) {
      FitRow row;
      row.shape.bytes = bytes;
      row.shape.protocol = protocol;
      rows.push_back(row);
    }
  };
  add(Protocol::kLL, 8, 1024);             // positions 0 to 7
  add(Protocol::kLL128, 2048, 16 * kMiB);  // 8 to 21
  add(Protocol::kSimple, 32 * kMiB, 32 * kMiB);
  EXPECT_EQ(calibration_rows(rows, 8), (std::vector<size_t>{0, 3, 7, 8, 12, 17, 21, 22}));
  EXPECT_EQ(calibration_rows(rows, 3).size(), 3u);
  EXPECT_EQ(calibration_rows({}, 8).size(), 0u);
}

}  // namespace
}  // namespace understudy
