// What emulated ranks say to one another beside a real node, packet by packet: the collective takes
// what it takes where all ranks are emulated, on links that the job itself congests.
#include <gtest/gtest.h>

#include "ctrl/compile/capabilities.h"
#include "ctrl/config/read/load.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// Four nodes a leaf over one uplink of 50 Gbit/s; each neighbour of the ring is on another leaf.
std::string text(bool real, const std::string& keys, const std::string& more = "") {
  std::string out = "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n";
  const auto node = [&](const std::string& name, const std::string& rest) {
    out += "[[node]]\nname = \"" + name +
           "\"\nlink = { rate = \"100Gbit/s\", latency = \"500ns\" }\n" + rest;
  };
  node("gpu", real ? "real = true\n" : "");
  node("w", "count = 7\n");
  if (real) out += "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\npfc = true\n";
  out +=
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 1\n"
      "uplink = { rate = \"50Gbit/s\", latency = \"1us\" }\n"
      "[[queues.class]]\npfc = { xoff = \"100KB\", xon = \"60KB\", headroom = \"auto\" }\n" +
      more +
      "[[job]]\nname = \"j\"\nranks = [\"gpu\", \"w3\", \"w0\", \"w4\", \"w1\", \"w5\", \"w2\", "
      "\"w6\"]\n" +
      keys;
  return out;
}

RunReport simulated(const std::string& config_text) {
  const ConfigResult config = load_config_text(config_text, "f");
  EXPECT_TRUE(config) << describe(config.error());
  SimulateOptions options;
  options.timeline = true;
  auto report = compile_and_simulate(*config, options);
  EXPECT_TRUE(report) << report.error().text;
  return *report;
}

double beside_real(const RunReport& report) {
  return report.jobs.at(0).collectives.at(0).node_reported->seconds();
}

/// Of rank 0, where all are emulated.
double all_emulated(const RunReport& report) {
  for (const TimelineTrack& track : report.timeline) {
    if (track.group == "j, rank 0 (gpu)") return track.slices.at(0).length.seconds();
  }
  ADD_FAILURE();
  return 0;
}

constexpr char kRing[] =
    "collective = \"all_reduce\"\nalgorithm = \"ring\"\nchannels = 2\nsizes = [\"8MiB\"]\n";

TEST(SimulateInner, ARealNodeTakesWhatAnEmulatedOneTakes) {
  const RunReport real = simulated(text(true, kRing)), emulated = simulated(text(false, kRing));
  const double expected = all_emulated(emulated);
  EXPECT_NEAR(beside_real(real), expected, expected * 0.01);
  EXPECT_TRUE(real.verdict.faithful);
  ASSERT_EQ(real.traffic->inner_messages.size(), 1u);
  const InnerMessagesReport& inner = real.traffic->inner_messages[0];
  EXPECT_EQ(inner.job, "j");
  // Six of eight hops, both channels.
  EXPECT_EQ(inner.counts.at(0).second, 12u);
  EXPECT_EQ(inner.counts.at(1).second, inner.counts.at(2).second);
  // What the plan's times take for granted is four times as much as the uplinks carry.
  const RunReport times = simulated(text(true, std::string(kRing) + "inner = \"times\"\n"));
  EXPECT_LT(beside_real(times), expected * 0.6);
  EXPECT_TRUE(times.traffic->inner_messages.empty());
  EXPECT_EQ(times.jobs.at(0).model, "plan");
  // The model knows as much as the run does.
  ASSERT_EQ(real.jobs.at(0).model, "packets");
  EXPECT_NEAR(static_cast<double>(real.jobs[0].collectives.at(0).modelled.ps()),
              beside_real(real) * 1e12, 0.01 * expected * 1e12);
}

TEST(SimulateInner, OtherCollectivesToo) {
  for (const char* keys : {"collective = \"all_reduce\"\nalgorithm = \"tree\"\n",
                           "collective = \"all_to_all\"\n", "collective = \"all_gather\"\n"}) {
    const std::string job = std::string(keys) + "sizes = [\"4MiB\"]\n";
    const double expected = all_emulated(simulated(text(false, job)));
    EXPECT_NEAR(beside_real(simulated(text(true, job))), expected, expected * 0.01) << keys;
  }
}

TEST(SimulateInner, OperationsFollowEachOtherUnderCongestionControl) {
  const std::string job =
      std::string(kRing) + "iterations = 6\ntraffic_class = 2\ncontrol = \"dcqcn\"\n";
  const std::string more =
      "ecn = { kmin = \"40KB\", kmax = \"100KB\", pmax = 0.2 }\n"
      "[[control]]\nname = \"dcqcn\"\nlaw = \"dcqcn\"\n";
  const RunReport report = simulated(text(true, job, more));
  ASSERT_EQ(report.jobs.at(0).collectives.size(), 6u);
  EXPECT_FALSE(report.jobs[0].failed);
  const auto& counts = report.traffic->inner_messages.at(0).counts;
  EXPECT_EQ(counts.at(1).second, counts.at(2).second);
  EXPECT_GT(counts.at(5).second, 0u);  // marked
}

/// What a feed tells is carried as what was told before: rings and trees over uplinks that are
/// shared, several operations one behind the other, with and without congestion control.
TEST(SimulateInner, OperationsThatAreFedTakeTheSameTime) {
  const std::string dcqcn =
      "ecn = { kmin = \"40KB\", kmax = \"100KB\", pmax = 0.2 }\n"
      "[[control]]\nname = \"dcqcn\"\nlaw = \"dcqcn\"\n";
  struct Case {
    std::string keys, more;
    /// Who meets whom on the uplinks follows from when each rank began, so that operations drift
    /// apart one by one; together they take the same.
    bool apart = false;
  };
  for (const Case& c :
       {Case{kRing, ""},
        Case{std::string(kRing) + "traffic_class = 2\ncontrol = \"dcqcn\"\n", dcqcn},
        Case{"collective = \"all_reduce\"\nalgorithm = \"tree\"\nchannels = 2\nsizes = "
             "[\"256KiB\", \"4MiB\"]\n",
             ""},
        Case{"collective = \"all_to_all\"\nsizes = [\"4MiB\"]\n", ""},
        Case{"collective = \"all_gather\"\nalgorithm = \"pat\"\nsizes = [\"4MiB\"]\n", "", true}}) {
    SCOPED_TRACE(c.keys);
    const std::string job = c.keys + "iterations = 3\nentry = \"first_credit\"\n";
    const RunReport told = simulated(text(true, job, c.more));
    const RunReport fed = simulated(text(true, job + "operations = \"fed\"\n", c.more));
    ASSERT_TRUE(fed.jobs.at(0).inferred);
    EXPECT_EQ(fed.jobs[0].inferred->lost, "");
    const auto& a = told.jobs.at(0).collectives;
    const auto& b = fed.jobs[0].collectives;
    ASSERT_EQ(a.size(), b.size());
    double told_all = 0, fed_all = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(fed.jobs[0].inferred->operations.at(i).right, true) << i;
      const double expected = a[i].node_reported->seconds(), seen = b[i].node_reported->seconds();
      told_all += expected;
      fed_all += seen;
      if (!c.apart) EXPECT_NEAR(seen, expected, 0.02 * expected) << i;
    }
    EXPECT_NEAR(fed_all, told_all, 0.02 * told_all);
    const auto& messages = fed.traffic->inner_messages.at(0).counts;
    EXPECT_EQ(messages.at(1).second, told.traffic->inner_messages.at(0).counts.at(1).second);
    EXPECT_EQ(messages.at(1).second, messages.at(2).second);
  }
}

/// Four nodes in a ring, each with NICs that NCCL merged; those of emulated nodes carry as much
/// together as the real node's two.
std::string merged_text(unsigned emulated_nics, const std::string& job,
                        const std::string& network) {
  std::string out = "format = 1\n";
  for (unsigned nic = 0; nic < std::max(2U, emulated_nics); ++nic) {
    const std::string number = std::to_string(nic);
    out += "[[prefix]]\nnic = " + number + "\nv4 = \"10." + std::to_string(9 + nic) + ".0.0/16\"\n";
  }
  out +=
      "[[node]]\nname = \"gpu\"\nreal = true\nnics = 2\n"
      "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
      "[[node]]\nname = \"w\"\ncount = 3\nnics = " +
      std::to_string(emulated_nics) + "\nlink = { rate = \"" + std::to_string(200 / emulated_nics) +
      "Gbit/s\", latency = \"1us\" }\n";
  for (const char* nic : {"0", "1"}) {
    out += std::string("[[port]]\nreal = \"gpu\"\nnic = ") + nic + "\ndevice = \"virtual\"\n";
  }
  return out +
         "[[job]]\nname = \"j\"\ncollective = \"all_reduce\"\nranks = [\"gpu\", \"w*\"]\n"
         "algorithm = \"ring\"\nsizes = [\"64KiB\", \"8MB\"]\nmerged_nics = " +
         std::to_string(std::max(2U, emulated_nics)) + "\n" + job + network;
}

/// Messages of merged NICs go over all of them, on links and through switches, by times and as
/// packets: all take the same time.
TEST(SimulateInner, MergedNicsTakeTheSameTimeInANetwork) {
  const std::string leaves = "[topology]\nkind = \"single_switch\"\n";
  for (const unsigned nics : {1U, 2U, 4U}) {
    SCOPED_TRACE(nics);
    const RunReport direct = simulated(merged_text(nics, "inner = \"times\"\n", ""));
    for (const std::string inner : {"times", "packets"}) {
      for (const std::string& network : {std::string("[queues]\n"), leaves}) {
        SCOPED_TRACE(inner + network);
        const RunReport report =
            simulated(merged_text(nics, "inner = \"" + inner + "\"\n", network));
        ASSERT_EQ(report.jobs.at(0).collectives.size(), 2U);
        EXPECT_TRUE(report.verdict.faithful);
        EXPECT_EQ(report.jobs[0].violations, 0U);
        for (size_t i = 0; i < 2; ++i) {
          const double expected = direct.jobs.at(0).collectives.at(i).node_reported->seconds();
          EXPECT_NEAR(report.jobs[0].collectives[i].node_reported->seconds(), expected,
                      0.02 * expected)
              << i;
        }
        if (inner == "times") continue;
        const auto& counts = report.traffic->inner_messages.at(0).counts;
        EXPECT_GT(counts.at(1).second, 0U);
        EXPECT_EQ(counts.at(1).second, counts.at(2).second);
      }
    }
  }
}

TEST(SimulateInner, WhatCannotBeIsNamed) {
  const auto refusal = [](const std::string& config_text) {
    const ConfigResult config = load_config_text(config_text, "f");
    return config ? why_not({*config}, RunClock::kVirtual) : describe(config.error());
  };
  const std::string asked = std::string(kRing) + "inner = \"packets\"\n";
  EXPECT_EQ(refusal(text(true, asked)), "");
  const std::string flow = refusal(text(true, asked, "[fabric]\nfidelity = \"flow\"\n"));
  EXPECT_NE(flow.find("job.inner"), std::string::npos) << flow;
  EXPECT_NE(flow.find("fabric.fidelity"), std::string::npos) << flow;
}

}  // namespace
}  // namespace understudy
