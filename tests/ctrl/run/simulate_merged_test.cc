// Jobs over merged NICs none of whose nodes is real: as fast as one NIC of all their rate, and as the
// slowest of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ctrl/predict/prediction.h"
#include "ctrl/report/json.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

struct Shape {
  unsigned nodes = 8, nics = 2, merged = 2, gpus = 1;
  unsigned gigabits = 100;  ///< of each NIC
  std::string sizes = "\"16MB\"";
  std::string fabric = {};
};

std::string prefixes(unsigned nics) {
  std::string out;
  for (unsigned nic = 0; nic < nics; ++nic) {
    out += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(9 + nic) +
           ".0.0/16\"\n";
  }
  return out;
}

std::string node(const std::string& name, unsigned count, unsigned nics, unsigned gpus,
                 unsigned gigabits) {
  return "[[node]]\nname = \"" + name + "\"\ncount = " + std::to_string(count) +
         "\nnics = " + std::to_string(nics) + "\ngpus = " + std::to_string(gpus) +
         "\nlink = { rate = \"" + std::to_string(gigabits) + "Gbit/s\", latency = \"1us\" }\n";
}

std::string job(const Shape& s, const std::string& keys, const std::string& name = "j") {
  return "[[job]]\nname = \"" + name + "\"\nranks = [\"w*\"]\nsizes = [" + s.sizes +
         "]\nmerged_nics = " + std::to_string(s.merged) + "\n" + keys;
}

std::string text_of(const Shape& s, const std::string& keys, const std::string& more = "") {
  return "format = 1\n[fabric]\nmtu = 4096\n" + s.fabric + prefixes(s.nics) +
         node("w", s.nodes, s.nics, s.gpus, s.gigabits) + job(s, keys) + more;
}

RunReport simulated_with(const std::string& text, bool timeline = false) {
  SimulateOptions options;
  options.timeline = timeline;
  auto report = compile_and_simulate(config_of(text), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().text) << text;
  return report ? std::move(*report) : RunReport{};
}

double took(const RunReport& report, size_t job = 0, size_t operation = 0) {
  if (!report.traffic || report.traffic->jobs.size() <= job) return 0;
  return report.traffic->jobs[job].operations.at(operation).longest.seconds();
}

constexpr char kRing[] = "collective = \"all_reduce\"\nalgorithm = \"ring\"\n";
constexpr char kTree[] = "collective = \"all_reduce\"\nalgorithm = \"tree\"\n";
constexpr char kPat[] = "collective = \"all_gather\"\nalgorithm = \"pat\"\n";
constexpr char kAllToAll[] = "collective = \"all_to_all\"\n";
constexpr char kSendRecv[] = "collective = \"send_recv\"\n";
constexpr const char* kKinds[] = {kRing, kTree, kPat, kAllToAll, kSendRecv};

// 14 steps of an eighth of 16 MB, that is 28 MB, over 200 Gbit/s with 82 bytes of headers for
// 4,096: 1,142.4 us; and the first message's way.
TEST(SimulateMerged, ARingTakesItsLinksTimeOfBothNics) {
  const RunReport report = simulated_with(text_of({}, kRing));
  EXPECT_NEAR(took(report) * 1e6, 1'145, 4);
  EXPECT_TRUE(report.verdict.faithful);
}

/// k NICs of R take what one of k R does: a message's last packet has as long a way on its link as
/// with R, and the parts round up to packets of their own.
TEST(SimulateMerged, TakesWhatOneNicOfAllTheirRateTakes) {
  for (const char* keys : kKinds) {
    for (const unsigned merged : {2U, 4U}) {
      for (const char* fidelity : {"", "fidelity = \"flow\"\n"}) {
        SCOPED_TRACE(std::string(keys) + std::to_string(merged) + " NICs " + fidelity);
        const Shape several{.nics = merged, .merged = merged, .fabric = fidelity};
        const Shape one{.nics = 1, .merged = 1, .gigabits = 100 * merged, .fabric = fidelity};
        const double expected = took(simulated_with(text_of(one, keys)));
        EXPECT_NEAR(took(simulated_with(text_of(several, keys))), expected, 0.02 * expected);
      }
    }
  }
}

/// The closed form knows neither the congestion of trees nor of all-to-all.
TEST(SimulateMerged, PredictAgrees) {
  for (const char* keys : {kRing, kSendRecv}) {
    SCOPED_TRACE(keys);
    const std::string text = text_of({}, keys);
    const Config config = config_of(text);
    const auto predictions = predict(config, nullptr);
    ASSERT_TRUE(predictions);
    const double expected = predictions->at(0).rows.at(0).time * 1e-6;
    EXPECT_NEAR(took(simulated_with(text)), expected, 0.02 * expected);
  }
}

TEST(SimulateMerged, AsRatesItTakesTheSameTime) {
  for (const char* keys : kKinds) {
    for (const unsigned gpus : {1U, 2U}) {
      if (gpus > 1 && keys == kPat) continue;  // goes with one rank a node
      SCOPED_TRACE(keys + std::to_string(gpus) + " GPUs");
      const Shape packets{.nics = 2 * gpus, .gpus = gpus, .sizes = "\"4MB\""};
      Shape rates = packets;
      rates.fabric = "fidelity = \"flow\"\n";
      const double expected = took(simulated_with(text_of(packets, keys)));
      EXPECT_NEAR(took(simulated_with(text_of(rates, keys))), expected, 0.02 * expected);
    }
  }
}

/// Each GPU has the merged NIC next to it: as fast as NICs of twice the rate, one a GPU.
TEST(SimulateMerged, SeveralGpusTakeAMergedNicEach) {
  for (const char* keys : {kRing, kTree, kAllToAll}) {
    SCOPED_TRACE(keys);
    const std::string two = std::string(keys) + "channels = 2\n";
    const Shape merged{.nics = 4, .gpus = 2};
    const Shape one{.nics = 2, .merged = 1, .gpus = 2, .gigabits = 200};
    const Shape shared{.nics = 2, .gpus = 2};
    const double expected = took(simulated_with(text_of(one, two)));
    EXPECT_NEAR(took(simulated_with(text_of(merged, two))), expected, 0.02 * expected);
    EXPECT_GT(took(simulated_with(text_of(shared, two))), 1.5 * expected)
        << "both GPUs at one merged NIC";
  }
}

/// Nodes with fewer NICs take part with all that they have.
TEST(SimulateMerged, NodesMayHaveOtherNumbersOfNics) {
  const auto mixed = [](unsigned nics) {
    const Shape s{.merged = 4};
    return "format = 1\n[fabric]\nmtu = 4096\n" + prefixes(4) + node("w", 4, 4, 1, 100) +
           node("v", 4, nics, 1, 400 / nics) +
           "[[job]]\nname = \"j\"\nranks = [\"w0\", \"v0\", \"w1\", \"v1\", \"w2\", \"v2\", "
           "\"w3\", \"v3\"]\nsizes = [\"16MB\"]\nmerged_nics = 4\n" +
           kRing;
  };
  const double expected = took(simulated_with(mixed(4)));
  for (const unsigned nics : {1U, 2U}) {
    EXPECT_NEAR(took(simulated_with(mixed(nics))), expected, 0.01 * expected) << nics;
  }
}

/// Halves are equal, so that the slower NIC's half counts.
TEST(SimulateMerged, TheSlowerNicCounts) {
  for (const char* fabric : {"", "fidelity = \"flow\"\n"}) {
    SCOPED_TRACE(fabric);
    const Shape shape{.fabric = fabric};
    const double plain = took(simulated_with(text_of(shape, kRing)));
    const std::string slow =
        "[[event]]\nat = \"0s\"\nlink = \"w3:1 - switch0\"\nrate = \"25Gbit/s\"\n";
    EXPECT_NEAR(took(simulated_with(text_of(shape, kRing, slow))) / plain, 4, 0.1);
  }
}

/// One NIC's link is down for a while: everything waits for its halves, as for the whole messages
/// of one NIC.
TEST(SimulateMerged, AnOutageOfOneNicDelaysTheWholeMessage) {
  const auto event = [](const char* at, const std::string& link, const char* action) {
    return std::string("[[event]]\nat = \"") + at + "\"\nlink = \"" + link + "\"\naction = \"" +
           action + "\"\n";
  };
  const std::string timeout = "[queues]\n[flows]\ntimeout = \"100us\"\n";
  for (const char* fabric : {"", "fidelity = \"flow\"\n"}) {
    SCOPED_TRACE(fabric);
    const Shape shape{.fabric = fabric};
    const Shape one{.nics = 1, .merged = 1, .gigabits = 200, .fabric = fabric};
    const auto outage = [&](const std::string& link) {
      return event("300us", link, "down") + event("5300us", link, "up") + timeout;
    };
    const double expected = took(simulated_with(text_of(one, kRing, outage("w3"))));
    EXPECT_GT(expected, 0.006);
    const std::string second = "w3:1 - switch0";
    const double seen = took(simulated_with(text_of(shape, kRing, outage(second))));
    EXPECT_NEAR(seen, expected, 0.01 * expected);
  }
}

/// Or for ever: what is said names that NIC's link, and no other.
TEST(SimulateMerged, AnOutageForEverIsNamed) {
  for (const char* fabric : {"", "fidelity = \"flow\"\n"}) {
    SCOPED_TRACE(fabric);
    const std::string down =
        "[[event]]\nat = \"300us\"\nlink = \"w3:1 - switch0\"\naction = \"down\"\n"
        "[queues]\n[flows]\ntimeout = \"0s\"\n";
    const Shape shape{.fabric = fabric};
    const auto never = compile_and_simulate(config_of(text_of(shape, kRing, down)));
    ASSERT_FALSE(never);
    EXPECT_NE(never.error().text.find("w3:1 -> switch0"), std::string::npos) << never.error().text;
    EXPECT_EQ(never.error().text.find("w3 -> switch0"), std::string::npos) << never.error().text;
  }
}

/// Routers in a ring, through which everybody sends two places on: the cycle that holds all up is
/// named, which one NIC a node does not bring about.
TEST(SimulateMerged, ADeadlockIsNamed) {
  std::string network =
      "[topology]\nkind = \"torus\"\ndims = [4]\n"
      "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
      "[queues]\nbuffer = \"16MB\"\n[[queues.class]]\n"
      "pfc = { xoff = \"20KB\", xon = \"15KB\", headroom = \"auto\" }\n";
  const auto name = [](unsigned k) { return "w" + std::to_string(k % 4); };
  for (unsigned k = 0; k < 4; ++k) {
    network += "[[topology.route]]\nfrom = \"" + name(k) + "\"\nto = \"" + name(k + 2) +
               "\"\nvia = [\"" + name(k) + "/router\", \"" + name(k + 1) + "/router\", \"" +
               name(k + 2) + "/router\"]\n";
  }
  const auto run = [&](unsigned nics) {
    const Shape shape{
        .nodes = 4, .nics = nics, .merged = nics, .gigabits = 10, .sizes = "\"32MiB\""};
    return compile_and_simulate(
        config_of(text_of(shape, std::string(kAllToAll) + "channels = 4\n", network)));
  };
  EXPECT_TRUE(run(1));
  const auto stuck = run(2);
  ASSERT_FALSE(stuck);
  for (unsigned k = 0; k < 4; ++k) {
    const std::string link = name(k) + "/router -> " + name(k + 1) + "/router";
    EXPECT_NE(stuck.error().text.find(link), std::string::npos) << stuck.error().text;
  }
}

/// Each NIC's link has its half of the bytes, and each message a slice for each of its parts.
TEST(SimulateMerged, ReportsAndTimelinesCountParts) {
  const Shape shape{.nodes = 4, .sizes = "\"1MiB\""};
  const RunReport report = simulated_with(text_of(shape, kRing), true);
  ASSERT_TRUE(report.traffic);
  EXPECT_EQ(report.traffic->jobs.at(0).messages, 4U * 3 * 2 * 2);  // messages, not parts
  uint64_t first = 0, second = 0;
  for (const TrafficLinkReport& link : report.traffic->links) {
    if (link.name == "w0 -> switch0") first = link.wire_bytes;
    if (link.name == "w0:1 -> switch0") second = link.wire_bytes;
  }
  EXPECT_GT(first, 6U << 17);  // half of 2 (n - 1) / n of a MiB
  EXPECT_NEAR(static_cast<double>(first), static_cast<double>(second),
              0.001 * static_cast<double>(first));
  uint64_t bytes = 0;
  size_t tracks = 0;
  for (const TimelineTrack& track : report.timeline) {
    if (track.group.find("rank 0 ") == std::string::npos) continue;
    if (track.name.find("on their way, part") == std::string::npos) continue;
    ++tracks;
    EXPECT_EQ(track.slices.size(), 12U);
    Time last;
    for (const TimelineSlice& slice : track.slices) {
      EXPECT_GE(slice.from, last);
      last = slice.from + slice.length;
      bytes += slice.numbers.at(0).second;
    }
  }
  EXPECT_EQ(tracks, 2U);
  EXPECT_EQ(bytes, 6U << 18);
}

/// As rates too, whose flows have no counters of their own.
TEST(SimulateMerged, TimelinesOfRatesHaveTheBytesOfEachPart) {
  const Shape shape{.nodes = 4, .sizes = "\"1MiB\"", .fabric = "fidelity = \"flow\"\n"};
  const RunReport report = simulated_with(text_of(shape, kRing), true);
  uint64_t bytes = 0;
  for (const TimelineTrack& track : report.timeline) {
    if (track.name.find("on their way, part") == std::string::npos) continue;
    for (const TimelineSlice& slice : track.slices) bytes += slice.numbers.at(0).second;
  }
  EXPECT_EQ(bytes, 4U * (6U << 18));
}

TEST(SimulateMerged, WhateverAJobCanDoGoesWithIt) {
  const Shape s{.nodes = 4, .sizes = "\"256KiB\", \"1MiB\""};
  const std::string second =
      job(s, std::string(kTree) + "after = \"j\"\nperiod = \"2ms\"\niterations = 3\n", "k");
  const std::string iteration = job(s,
                                    std::string(kRing) +
                                        "iterations = 2\nstep_cost = \"1us\"\n"
                                        "compute = { before = \"10us\", after = \"3us\" }\n",
                                    "i");
  const std::string leaves =
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 2\nspines = 2\n"
      "uplink = { rate = \"100Gbit/s\", latency = \"2us\" }\n";
  const std::string keys = std::string(kRing) +
                           "channels = 2\nprotocol = \"ll128\"\nstart = \"1ms\"\nwarmup = 1\n"
                           "iterations = 2\ninner = \"packets\"\n";
  for (const char* fidelity : {"", "fidelity = \"flow\"\n"}) {
    SCOPED_TRACE(fidelity);
    Shape shape = s;
    shape.fabric = fidelity;
    const std::string network = *fidelity == 0 ? leaves : "[queues]\n";
    std::string text = text_of(shape, keys, second + iteration + network);
    if (*fidelity != 0) text.erase(text.find("inner = \"packets\"\n"), 18);
    const RunReport a = simulated_with(text, true), b = simulated_with(text);
    EXPECT_EQ(report_json(a), report_json(b));
    ASSERT_TRUE(a.traffic);
    ASSERT_EQ(a.traffic->jobs.size(), 3U);
    EXPECT_TRUE(a.verdict.faithful);
    for (const RankJobReport& job : a.traffic->jobs) {
      for (const auto& operation : job.operations) EXPECT_GT(operation.longest, Duration());
    }
    EXPECT_GE(a.traffic->jobs[0].operations.at(0).start, Time::zero() + Duration::ms(1));
    EXPECT_GT(a.traffic->jobs[1].operations.at(0).start,
              a.traffic->jobs[0].operations.back().start);
  }
}

TEST(SimulateMerged, NicsThatMakeNoWholeDevicesAreRefused) {
  const auto config = load_config_text(text_of({.nics = 3, .gpus = 2}, kRing), "m.toml");
  ASSERT_FALSE(config);
  const std::string errors = describe(config.error());
  EXPECT_NE(errors.find("merged_nics"), std::string::npos) << errors;
  EXPECT_NE(errors.find("has 3 NICs"), std::string::npos) << errors;
}

}  // namespace
}  // namespace understudy
