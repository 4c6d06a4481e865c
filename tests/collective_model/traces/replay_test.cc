// Traces are carried out by the rules, and what cannot be is named. That the times are ASTRA-sim's is
// held in tests/ctrl/traces/et_cases_test.cc.
#include "collective_model/traces/replay.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "collective_model/predict/dimension_time.h"
#include "tests/collective_model/traces/trace_builder.h"

namespace understudy {
namespace {

using enum TraceCollective;
using Kind = TraceNodeKind;

TraceJob equal_ranks(size_t ranks, const TraceBuilder& trace) {
  TraceJob job;
  job.ranks.assign(ranks, trace.graph());
  return job;
}

TraceJob job_of(std::vector<TraceBuilder> traces) {
  TraceJob job;
  for (const TraceBuilder& trace : traces) job.ranks.push_back(trace.graph());
  return job;
}

std::string error_of(const TraceJob& job, const ReplaySettings& settings) {
  const auto ranks = replay(job, settings);
  return ranks ? "" : ranks.error().text;
}

TEST(Replay, AllReduceOfFourRanks) {
  for (const auto congestion : {TraceCongestion::kAware, TraceCongestion::kUnaware}) {
    const auto ranks = replay(equal_ranks(4, TraceBuilder().collective(0, kAllReduce, 1 << 20)),
                              settings_of(4, congestion));
    EXPECT_EQ(finish_ns(ranks), std::vector<int64_t>(4, 43'000));
    // A byte more is a chunk more.
    EXPECT_EQ(
        finish_ns(replay(equal_ranks(4, TraceBuilder().collective(0, kAllReduce, (1 << 20) + 1)),
                         settings_of(4, congestion))),
        std::vector<int64_t>(4, 53'750));
  }
}

/// ASTRA-sim's smallest chunk has a byte for each rank.
TEST(Replay, SmallSizesAreOneSize) {
  for (const uint64_t bytes : {0u, 3u, 8u, 100u}) {
    EXPECT_EQ(finish_ns(replay(equal_ranks(4, TraceBuilder().collective(0, kAllReduce, bytes)),
                               settings_of(4, TraceCongestion::kUnaware))),
              std::vector<int64_t>(4, 12'280))
        << bytes;
  }
  EXPECT_NE(error_of(equal_ranks(4, TraceBuilder().collective(0, kAllGather, 3)),
                     settings_of(4, TraceCongestion::kUnaware))
                .find("empty parts"),
            std::string::npos);
}

/// Ranks compute for drawn times and meet in collectives. Where a message of another job part passes
/// several links, messages are sent one by one; ranks' times must not depend on which way is taken.
TEST(Replay, MessagesOneByOneGiveTheTimesOfWholeCollectives) {
  std::mt19937_64 random(7);
  const auto draw = [&random](uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  };
  constexpr uint32_t kRanks = 5;
  constexpr uint64_t kCollectives = 4;
  for (int i = 0; i < 50; ++i) {
    std::vector<std::pair<TraceCollective, uint64_t>> operations;
    for (uint64_t c = 0; c < kCollectives; ++c) {
      constexpr TraceCollective kAll[] = {kAllReduce, kAllGather, kReduceScatter, kAllToAll};
      operations.emplace_back(kAll[draw(0, 3)], draw(1000, 3'000'000));
    }
    const uint64_t skew = draw(0, 1) == 0 ? 0 : draw(1, 60);
    std::vector<TraceBuilder> apart(kRanks);
    for (TraceBuilder& trace : apart) {
      for (uint64_t c = 0; c < kCollectives; ++c) {
        trace.compute(2 * c, 1 + draw(0, skew),
                      c == 0 ? TraceBuilder::Ids{} : TraceBuilder::Ids{2 * c - 1});
        trace.collective(2 * c + 1, operations[c].first, operations[c].second, {2 * c});
      }
    }
    std::vector<TraceBuilder> together = apart;
    for (TraceBuilder& trace : together) trace.compute(1000, 10'000'000, {2 * kCollectives - 1});
    together[0].send(1001, 2, 1000, 1, {1000});
    together[2].receive(1001, 0, 1000, 1, {1000});
    const ReplaySettings settings = settings_of(kRanks, TraceCongestion::kAware);
    const auto whole = replay(job_of(apart), settings);
    const auto single = replay(job_of(together), settings);
    ASSERT_TRUE(whole && single);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (size_t node = 0; node < 2 * kCollectives; ++node) {
        EXPECT_EQ(ns_of((*whole)[rank].nodes[node].end), ns_of((*single)[rank].nodes[node].end))
            << "case " << i << ", rank " << rank << ", node " << node;
      }
    }
  }
}

/// Rank 0's message to rank 2 crosses the link from rank 1 behind rank 1's own.
TEST(Replay, MessagesShareLinks) {
  const auto job = [] {
    return job_of({TraceBuilder().send(0, 2, 1 << 20, 1),
                   TraceBuilder().compute(0, 19).send(1, 2, 1 << 20, 2, {0}),
                   TraceBuilder().receive(0, 0, 1 << 20, 1).receive(1, 1, 1 << 20, 2),
                   TraceBuilder().compute(0, 1), TraceBuilder().compute(0, 1)});
  };
  // One link: 500 ns and 19,531 ns of bytes. Rank 1's leaves at 19,000; rank 0's is there at 20,031.
  const auto aware = replay(job(), settings_of(5, TraceCongestion::kAware));
  EXPECT_EQ(finish_ns(aware),
            (std::vector<int64_t>{19'000 + 19'531 + 20'031, 39'031, 58'562, 1000, 1000}));
  const auto unaware = replay(job(), settings_of(5, TraceCongestion::kUnaware));
  EXPECT_EQ(finish_ns(unaware), (std::vector<int64_t>{20'531, 39'031, 39'031, 1000, 1000}));
}

TEST(Replay, NodesOfEqualRanksMayShareAGraph) {
  const TraceBuilder trace = TraceBuilder().compute(3, 5).collective(4, kAllReduce, 4096, {3});
  const auto settings = settings_of(8, TraceCongestion::kAware);
  std::vector<TraceBuilder> copies(8, trace);
  EXPECT_EQ(finish_ns(replay(equal_ranks(8, trace), settings)),
            finish_ns(replay(job_of(copies), settings)));
}

TEST(Replay, RulesDifferInControlDependenciesAndEmptyNodes) {
  TraceBuilder trace;
  trace.compute(0, 0).compute(1, 4, {0});
  TraceNode last;
  last.duration_us = 2;
  last.on_cpu = true;
  trace.add(2, last, {}, {1});
  auto settings = settings_of(4, TraceCongestion::kUnaware);
  settings.rules = TraceRules::kFeeder1;
  EXPECT_EQ(finish_ns(replay(equal_ranks(4, trace), settings)), std::vector<int64_t>(4, 4000));
  settings.rules = TraceRules::kFeeder3;
  EXPECT_EQ(finish_ns(replay(equal_ranks(4, trace), settings)), std::vector<int64_t>(4, 6001));
}

TEST(Replay, FirstFeederTakesTheLastGroupOfARank) {
  TraceBuilder trace;
  trace.collective(0, kAllReduce, 1 << 20);
  trace.last().group = "1";
  TraceJob job = equal_ranks(4, trace);
  job.groups = {{1, {0, 1, 2, 3}}, {2, {0, 1}}, {3, {2, 3}}};
  auto settings = settings_of(4, TraceCongestion::kUnaware);
  EXPECT_EQ(finish_ns(replay(job, settings)), std::vector<int64_t>(4, 43'000));
  settings.rules = TraceRules::kFeeder1;
  // Two ranks: 2 steps of 131,072 bytes.
  const int64_t two = 4 * (2 * (10 + 500 + 2441) + 3 * 81 + 10);
  EXPECT_EQ(finish_ns(replay(job, settings)), std::vector<int64_t>(4, two));
}

/// Rings of groups use ASTRA-sim's own 10 ns, whatever the system file says (MemBus.cc).
TEST(Replay, GroupsHaveEndpointsOfTheirOwn) {
  TraceBuilder trace;
  trace.collective(0, kAllGather, 4096);
  auto settings = settings_of(4, TraceCongestion::kUnaware);
  settings.system.endpoint_ns = 100;
  EXPECT_EQ(finish_ns(replay(equal_ranks(4, trace), settings)),
            std::vector<int64_t>(4, 4 * (3 * (100 + 519) + 100)));
  trace.last().group = "1";
  TraceJob job = equal_ranks(4, trace);
  job.groups = {{1, {0, 1}}};
  job.ranks[2] = job.ranks[3] = TraceBuilder().compute(0, 1).graph();
  EXPECT_EQ(finish_ns(replay(job, settings)).front(), 4 * (1 * (10 + 519) + 10));
}

TEST(Replay, ReplayOnlyTakesWhatWasRecorded) {
  TraceBuilder trace;
  trace.collective(0, kAllReduce, 1 << 20);
  trace.last().duration_us = 12;
  trace.receive(1, 3, 10, 1, {0});
  auto settings = settings_of(4, TraceCongestion::kAware);
  settings.system.replay = true;
  const auto ranks = replay(equal_ranks(4, trace), settings);
  EXPECT_EQ(finish_ns(ranks), std::vector<int64_t>(4, 12'001));
  ASSERT_TRUE(ranks);
  EXPECT_EQ(ranks->front().exposed, Duration());
}

/// Chunks through dimensions, as another implementation of that simulator's closed forms has them,
/// which is held against 528 of its results (dimension_time.h).
TEST(Replay, CollectivesOverSeveralDimensionsTakeTheirClosedForms) {
  const std::map<TraceCollective, Collective> names = {{kAllReduce, Collective::kAllReduce},
                                                       {kAllGather, Collective::kAllGather},
                                                       {kReduceScatter, Collective::kReduceScatter},
                                                       {kAllToAll, Collective::kAllToAll}};
  std::mt19937_64 random(3);
  const auto draw = [&random](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  for (int i = 0; i < 200; ++i) {
    std::vector<TraceDimension> dimensions;
    std::vector<Dimension> others;
    uint32_t ranks = 1;
    for (uint32_t d = 0, count = draw(2, 3); d < count; ++d) {
      const TraceDimension one{
          draw(0, 1) == 0 ? TraceDimension::Kind::kRing : TraceDimension::Kind::kFullyConnected,
          draw(2, 4), static_cast<double>(draw(10, 400)), static_cast<double>(draw(0, 2000))};
      dimensions.push_back(one);
      const auto bytes_a_second = static_cast<uint64_t>(one.bandwidth) << 30;
      others.push_back({one.kind == TraceDimension::Kind::kRing ? DimensionKind::kRing
                                                                : DimensionKind::kFullyConnected,
                        one.ranks, Rate::bits_per_second(8 * bytes_a_second),
                        Duration::ns(static_cast<int64_t>(one.latency)),
                        DimensionAlgorithm::kRing});
      ranks *= one.ranks;
    }
    auto settings = settings_of(4, TraceCongestion::kUnaware);
    settings.network = *TraceNetwork::make(dimensions, TraceCongestion::kUnaware);
    settings.system.splits = draw(1, 16);
    settings.system.reduces_by_parts = true;
    for (auto& [collective, algorithms] : settings.system.algorithms) {
      algorithms.assign(dimensions.size(), "ring");
    }
    DimensionCosts costs;
    costs.endpoint = Duration::ns(settings.system.endpoint_ns);
    costs.memory = Rate::bits_per_second(12'800'000'000'000);
    costs.rounding = Duration::ns(1);
    for (const auto& [collective, name] : names) {
      const uint64_t bytes = settings.system.splits * ranks * draw(1, 20'000);
      const Duration expected =
          dimensions_time(others, name, collective == kAllGather ? bytes * ranks : bytes,
                          static_cast<uint32_t>(settings.system.splits), costs);
      const auto took =
          replay(equal_ranks(ranks, TraceBuilder().collective(0, collective, bytes)), settings);
      EXPECT_EQ(finish_ns(took), std::vector<int64_t>(ranks, expected.ps() / 1000))
          << "case " << i << ", " << name_of(collective) << " of " << bytes << " bytes";
    }
  }
}

TEST(Replay, CollectivesOverSeveralDimensionsBeginTogether) {
  auto settings = settings_of(4, TraceCongestion::kUnaware);
  const TraceDimension ring{TraceDimension::Kind::kRing, 2, 50, 500};
  settings.network = *TraceNetwork::make({ring, ring}, TraceCongestion::kUnaware);
  for (auto& [collective, algorithms] : settings.system.algorithms) algorithms = {"ring", "ring"};
  const TraceBuilder trace = TraceBuilder().compute(0, 1).collective(1, kAllReduce, 4096, {0});
  EXPECT_NE(error_of(equal_ranks(4, trace), settings).find("'localBWAware' only"),
            std::string::npos);
  settings.system.reduces_by_parts = true;
  EXPECT_EQ(error_of(equal_ranks(4, trace), settings), "");
  TraceJob job = equal_ranks(4, trace);
  job.ranks[2] = TraceBuilder().compute(0, 2).collective(1, kAllReduce, 4096, {0}).graph();
  EXPECT_NE(
      error_of(job, settings)
          .find("whose ranks begin it at different times is not covered (rank 0 began at 1000 "
                "ns, the last one at 2000 ns)"),
      std::string::npos);
}

struct Refused {
  const char* name;
  TraceJob job;
  const char* words;
};

TEST(Replay, WhatIsWrongIsNamed) {
  const auto four = [](const TraceBuilder& trace) { return equal_ranks(4, trace); };
  const auto group = [&four](const char* name, std::map<uint32_t, std::vector<uint32_t>> groups) {
    TraceBuilder trace;
    trace.collective(7, kAllReduce, 4096);
    trace.last().group = name;
    TraceJob job = four(trace);
    job.groups = std::move(groups);
    return job;
  };
  TraceBuilder on_cpu, no_bytes, memory, metadata, one_dimension;
  on_cpu.collective(7, kAllReduce, 4096).last().on_cpu = true;
  no_bytes.collective(7, kAllReduce, 4096).last().bytes.reset();
  TraceNode load;
  load.kind = Kind::kMemoryLoad;
  memory.add(7, load, {});
  load.kind = Kind::kMetadata;
  metadata.add(7, load, {});
  one_dimension.collective(7, kAllReduce, 4096).last().dimensions = {false};
  const TraceBuilder idle = TraceBuilder().compute(0, 1);
  const std::vector<Refused> all = {
      {"ranks", equal_ranks(3, idle), "traces of 3 ranks, and the network has 4"},
      {"empty", four(TraceBuilder()), "rank 0 has no nodes"},
      {"dangling", four(TraceBuilder().compute(7, 1, {8})),
       "rank 0: node 7 waits for node 8, which is not there"},
      {"cycle", four(TraceBuilder().compute(7, 1, {8}).compute(8, 1, {7})),
       "which waits for the first"},
      {"self", four(TraceBuilder().compute(7, 1, {7})), "node 7 waits for itself"},
      {"kind", four(TraceBuilder().collective(7, kBarrier, 1)),
       "rank 0, node 7: the collective barrier is not covered"},
      {"on CPU", four(on_cpu), "node 7: communication on the CPU is an error"},
      {"no bytes", four(no_bytes), "node 7: comm_size is missing"},
      {"memory", four(memory), "node 7: there is no memory beyond the devices"},
      {"metadata", four(metadata), "node 7: ASTRA-sim cannot carry out metadata"},
      {"dimension", four(one_dimension), "node 7: no dimension of the network takes part"},
      {"no group", group("5", {{1, {0, 1}}}), "its group 5 is in no file of groups"},
      {"group's name", group("tp", {}), "its group 'tp' is not a number"},
      {"not in group", group("1", {{1, {0, 1}}}), "rank 2, node 7: group 1 has not rank 2"},
      {"group of one", group("1", {{1, {0}}}), "group 1 has one rank"},
      {"rank of group", group("1", {{1, {0, 9}}}), "group 1 has rank 9, the network has 4 ranks"},
      {"rank twice", group("1", {{1, {0, 0}}}), "group 1 has rank 0 twice"},
      {"no receive", job_of({TraceBuilder().send(7, 1, 64, 3), idle, idle, idle}),
       "rank 0, node 7: no rank receives this message (1 sent, 0 received"},
      {"no send", job_of({TraceBuilder().receive(7, 1, 64, 3), idle, idle, idle}),
       "rank 0, node 7: no rank sends this message"},
      {"no such rank", job_of({TraceBuilder().send(7, 4, 64, 3), idle, idle, idle}),
       "there is no rank 4"},
      {"itself", job_of({TraceBuilder().send(7, 0, 64, 3), idle, idle, idle}),
       "a message of a rank to itself"},
      {"fewer", job_of({TraceBuilder().collective(7, kAllReduce, 64), idle, idle, idle}),
       "all ranks: rank 0 has 1 collectives, rank 1 0"},
      {"other size",
       job_of({TraceBuilder().collective(7, kAllReduce, 64),
               TraceBuilder().collective(7, kAllReduce, 65),
               TraceBuilder().collective(7, kAllReduce, 64),
               TraceBuilder().collective(7, kAllReduce, 64)}),
       "rank 1 has a collective (all-reduce of 65 bytes) that rank 0 has not"},
  };
  for (const Refused& one : all) {
    const std::string error = error_of(one.job, settings_of(4, TraceCongestion::kAware));
    EXPECT_NE(error.find(one.words), std::string::npos) << one.name << ": " << error;
  }
}

TEST(Replay, WaitingForEachOtherIsNamed) {
  const auto settings = settings_of(4, TraceCongestion::kAware);
  // Each waits for the other's message before it sends its own.
  const TraceBuilder idle = TraceBuilder().compute(0, 1);
  const auto crossed = [](uint32_t other) {
    return TraceBuilder().receive(0, other, 64, 1).send(1, other, 64, 1, {0});
  };
  EXPECT_EQ(error_of(job_of({crossed(1), crossed(0), idle, idle}), settings),
            "rank 0, node 0: never ends: rank 1 never sends the message");
  // Equal collectives in another order.
  const auto two = [](uint64_t first, uint64_t second) {
    return TraceBuilder().collective(0, kAllReduce, first).collective(1, kAllReduce, second, {0});
  };
  const std::string other_order =
      error_of(job_of({two(64, 6400), two(6400, 64), two(64, 6400), two(64, 6400)}), settings);
  EXPECT_NE(other_order.find("rank 1, node 0: all ranks begins all-reduce of 6400 bytes here"),
            std::string::npos)
      << other_order;
  // A collective whose other ranks wait for its end.
  const std::string stuck =
      error_of(job_of({TraceBuilder().collective(0, kAllReduce, 64).send(1, 1, 64, 1, {0}),
                       TraceBuilder().receive(0, 0, 64, 1).collective(1, kAllReduce, 64, {0}),
                       TraceBuilder().collective(0, kAllReduce, 64),
                       TraceBuilder().collective(0, kAllReduce, 64)}),
               settings);
  EXPECT_EQ(stuck, "rank 0, node 0: never ends: it waits for rank 1, which never begins it");
}

/// A node without work frees others only for the next event, by the third rules.
TEST(Replay, NothingAfterANodeWithoutWorkIsNamed) {
  auto settings = settings_of(4, TraceCongestion::kAware);
  settings.system.roofline = true;
  settings.system.peak_tflops = 312;
  TraceNode work;
  work.operations = 1'000'000;
  work.tensor_bytes = 1'000'000;
  const TraceBuilder stuck = TraceBuilder().compute(0, 5).add(1, work, {0});
  EXPECT_NE(error_of(equal_ranks(4, stuck), settings)
                .find("node 1: never begins: a node without work freed it"),
            std::string::npos);
  // Another rank node that ends later lets it begin.
  TraceBuilder freed = stuck;
  freed.compute(2, 5, {}, true);
  EXPECT_EQ(finish_ns(replay(equal_ranks(4, freed), settings)), std::vector<int64_t>(4, 5625));
}

TEST(Replay, NetworksThatAreNotCoveredAreNamed) {
  const auto error = [](std::vector<TraceDimension> dimensions, TraceCongestion congestion) {
    const auto made = TraceNetwork::make(std::move(dimensions), congestion);
    return made ? std::string() : made.error().text;
  };
  using DimensionKind = TraceDimension::Kind;
  const TraceDimension ring{DimensionKind::kRing, 4, 50, 500};
  EXPECT_EQ(error({{DimensionKind::kSwitch, 4, 50, 500}}, TraceCongestion::kUnaware),
            "the topology Switch is not covered");
  EXPECT_NE(error({ring, ring}, TraceCongestion::kAware).find("several dimensions"),
            std::string::npos);
  EXPECT_EQ(error({ring, ring}, TraceCongestion::kUnaware), "");
  EXPECT_NE(error({{DimensionKind::kRing, 2, 50, 500}}, TraceCongestion::kAware).find("two ranks"),
            std::string::npos);
  EXPECT_NE(error({{DimensionKind::kRing, 1, 50, 500}}, TraceCongestion::kUnaware), "");
  EXPECT_NE(error({{DimensionKind::kRing, 4, 0, 500}}, TraceCongestion::kUnaware), "");
  EXPECT_NE(error({{DimensionKind::kRing, 4, 50, -1}}, TraceCongestion::kUnaware), "");
}

/// 40,000 nodes of each of 16 ranks.
TEST(Replay, ManyNodesTakeLittleTime) {
  TraceBuilder trace;
  constexpr uint64_t kNodes = 20'000;
  for (uint64_t i = 0; i < kNodes; ++i) {
    trace.compute(2 * i, 2, i == 0 ? TraceBuilder::Ids{} : TraceBuilder::Ids{2 * i - 2});
    trace.collective(2 * i + 1, kAllReduce, 64, {2 * i});
  }
  const auto ranks = replay(equal_ranks(16, trace), settings_of(16, TraceCongestion::kAware));
  // All-reduces take longer than what is computed beside them, and follow one another.
  const int64_t one = 4 * (30 * (10 + 500) + 10);
  EXPECT_EQ(finish_ns(ranks), std::vector<int64_t>(16, 2000 + static_cast<int64_t>(kNodes) * one));
}

}  // namespace
}  // namespace understudy
