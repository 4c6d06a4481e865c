// The lines on how far to trust a run: each appears where it should, and not where not; and what
// they say of seeds is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

using Ids = std::set<std::string>;

std::string nodes(unsigned count, const std::string& more = "") {
  return "[[node]]\nname = \"w\"\ncount = " + std::to_string(count) + "\n" + more +
         "link = { rate = \"100Gbit/s\", latency = \"500ns\" }\n";
}

/// Four nodes behind each leaf.
std::string leaf_spine(unsigned spines, const std::string& uplink = "100Gbit/s",
                       const std::string& more = "") {
  return "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = " +
         std::to_string(spines) + "\n" + more + "uplink = { rate = \"" + uplink +
         "\", latency = \"1us\" }\n";
}

std::string job(const std::string& keys) {
  return "[[job]]\nname = \"j\"\nranks = [\"w*\"]\n" + keys;
}

const std::string kRing = job("collective = \"all_reduce\"\nsizes = [\"1MiB\"]\n");
const std::string kBuffer = "[queues]\nbuffer = \"16MiB\"\n";
const std::string kIncast =
    "[[traffic]]\nname = \"in\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = \"w0\"\n"
    "size = \"1MB\"\n";

RunReport run(const std::string& text, uint64_t seed = 1, const std::string& fabric = "") {
  auto config = load_config_text("format = 1\n[fabric]\nmtu = 4096\n" + fabric + text, "v.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()) + text);
  if (!config) return {};
  config->seed = seed;
  auto report = compile_and_simulate(*config);
  EXPECT_TRUE(report) << (report ? "" : report.error().text + text);
  return report ? std::move(*report) : RunReport{};
}

Ids ids(const RunReport& report) {
  Ids out;
  for (const ValidityLine& line : report.validity) out.emplace(line.id);
  return out;
}
Ids ids(const std::string& text, const std::string& fabric = "") {
  return ids(run(text, 1, fabric));
}

std::string text_of(const RunReport& report, std::string_view id) {
  for (const ValidityLine& line : report.validity) {
    if (line.id == id) return line.text;
  }
  return "";
}

const std::string kFlow = "fidelity = \"flow\"\n";

TEST(RunValidity, GpusThatTakeNoTime) {
  EXPECT_TRUE(ids(nodes(4) + kRing).contains("gpu-costs"));
  EXPECT_FALSE(ids(nodes(4) + kRing + "step_cost = \"1us\"\n").contains("gpu-costs"));
  EXPECT_FALSE(ids(nodes(4) + kIncast).contains("gpu-costs"));
  EXPECT_TRUE(ids(nodes(4) + kRing).contains("nic-costs"));
  EXPECT_FALSE(ids(nodes(4) + kIncast).contains("nic-costs"));
}

TEST(RunValidity, WhatSeveralGpusOfANodeHave) {
  const std::string several = nodes(2, "gpus = 4\n");
  EXPECT_TRUE(ids(several + kRing).contains("nvls"));
  EXPECT_TRUE(ids(several + kRing + "[nccl]\ngpu = \"hopper\"\n").contains("nvls"));
  EXPECT_FALSE(ids(several + kRing + "[nccl]\ngpu = \"ampere\"\n").contains("nvls"));
  EXPECT_FALSE(ids(nodes(2) + kRing).contains("nvls"));
  const std::string pairs = job("collective = \"all_to_all\"\nsizes = [\"1MiB\"]\n");
  EXPECT_TRUE(ids(several + pairs).contains("pxn"));
  EXPECT_FALSE(ids(several + kRing).contains("pxn"));
  EXPECT_FALSE(ids(nodes(2) + pairs).contains("pxn"));
  const std::string inside =
      leaf_spine(1) + "[intra_node]\ngpu_link = { rate = \"2400Gbit/s\", latency = \"1us\" }\n";
  EXPECT_TRUE(ids(several + leaf_spine(1) + kRing).contains("intra-node"));
  EXPECT_FALSE(ids(several + inside + kRing).contains("intra-node"));
  EXPECT_FALSE(ids(nodes(2) + kRing).contains("intra-node"));
}

TEST(RunValidity, NetworksThatAreIdeal) {
  EXPECT_TRUE(ids(nodes(4) + kRing).contains("no-topology"));
  EXPECT_FALSE(ids(nodes(4) + leaf_spine(1) + kRing).contains("no-topology"));
  EXPECT_TRUE(ids(nodes(4) + kRing).contains("buffers"));
  EXPECT_FALSE(ids(nodes(4) + kBuffer + kRing).contains("buffers"));
  const std::string pauses =
      "[queues]\n[[queues.class]]\npfc = { xoff = \"60KB\", xon = \"48KB\", headroom = \"auto\" "
      "}\n";
  EXPECT_FALSE(ids(nodes(4) + pauses + kRing).contains("buffers"));
}

TEST(RunValidity, FlowsAsRates) {
  EXPECT_TRUE(ids(nodes(4) + kRing, kFlow).contains("flow-fidelity"));
  EXPECT_FALSE(ids(nodes(4) + kRing, kFlow).contains("buffers"));
  EXPECT_FALSE(ids(nodes(4) + kRing, kFlow).contains("contention"));
  EXPECT_FALSE(ids(nodes(4) + kRing).contains("flow-fidelity"));
  EXPECT_TRUE(ids(nodes(4) + kIncast, kFlow).contains("contention"));
}

TEST(RunValidity, ContentionThatNoBufferLimits) {
  const RunReport shared = run(nodes(4) + kIncast);
  EXPECT_TRUE(text_of(shared, "contention").starts_with("up to "))
      << validity_text(shared.validity);
  EXPECT_NE(text_of(shared, "contention").find("switch0 -> w0"), std::string::npos);
  EXPECT_FALSE(ids(nodes(4) + kBuffer + kIncast).contains("contention"));
  // One flow on each link.
  EXPECT_FALSE(ids(nodes(8) + leaf_spine(4) + kRing).contains("contention"));
  EXPECT_FALSE(ids(nodes(8) + leaf_spine(1) + kRing).contains("contention"));
}

TEST(RunValidity, SendersWithoutCongestionControl) {
  const std::string control = "[[control]]\nname = \"c\"\nlaw = \"dcqcn\"\n";
  EXPECT_TRUE(ids(nodes(4) + kIncast).contains("congestion-control"));
  EXPECT_FALSE(
      ids(nodes(4) + control + kIncast + "control = \"c\"\n").contains("congestion-control"));
  EXPECT_TRUE(
      ids(nodes(4) + "[[control]]\nname = \"c\"\nlaw = \"none\"\n" + kIncast + "control = \"c\"\n")
          .contains("congestion-control"));
  EXPECT_FALSE(ids(nodes(8) + leaf_spine(1) + kRing).contains("congestion-control"));
}

/// All times of flows and operations.
std::vector<Duration> times(const RunReport& report) {
  std::vector<Duration> out;
  if (!report.traffic) return out;
  for (const RankJobReport& j : report.traffic->jobs) {
    for (const RankOperationReport& o : j.operations) out.push_back(o.mean);
  }
  for (const TrafficGroupReport& g : report.traffic->groups) out.push_back(g.mean);
  return out;
}

/// How much runs of some seeds differ at most, as a share.
double spread(const std::string& text, const std::string& fabric) {
  const std::vector<Duration> first = times(run(text, 1, fabric));
  double most = 0;
  for (uint64_t seed = 2; seed <= 8; ++seed) {
    const std::vector<Duration> other = times(run(text, seed, fabric));
    EXPECT_EQ(other.size(), first.size());
    for (size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
      most = std::max(most, std::abs(other[i].seconds() / first[i].seconds() - 1));
    }
  }
  return most;
}

void expect_drawn(const std::string& what, const std::string& text,
                  const std::string& fabric = "") {
  const RunReport report = run(text, 1, fabric);
  EXPECT_NE(text_of(report, "one-seed").find(what), std::string::npos)
      << text << validity_text(report.validity);
  EXPECT_GT(spread(text, fabric), 0) << text;
}
void expect_not_drawn(const std::string& text, const std::string& fabric = "") {
  const RunReport report = run(text, 1, fabric);
  EXPECT_FALSE(ids(report).contains("one-seed")) << text << validity_text(report.validity);
  EXPECT_LT(spread(text, fabric), 0.005) << text;
}

std::string permutation(const std::string& more = "") {
  return "[[traffic]]\npattern = \"permutation\"\nfrom = [\"w*\"]\nsize = \"200KB\"\n" + more;
}
std::string flows_between(const std::string& from, const std::string& to) {
  return "[[traffic]]\npattern = \"flow\"\nfrom = [" + from + "]\nto = [" + to +
         "]\nsize = \"200KB\"\n";
}

TEST(RunValidity, PathsByHash) {
  const std::string four =
      flows_between("\"w0\", \"w1\", \"w2\", \"w3\"", "\"w4\", \"w5\", \"w6\", \"w7\"");
  expect_drawn("paths by hash", nodes(8) + leaf_spine(4) + four);
  expect_drawn("paths by hash", nodes(8) + leaf_spine(4) + four, kFlow);
  // One spine; all fit on any spine; a single flow; the receiver's link is what is slow; no hash.
  expect_not_drawn(nodes(8) + leaf_spine(1) + four);
  expect_not_drawn(nodes(8) + leaf_spine(4, "400Gbit/s") + four);
  expect_not_drawn(nodes(8) + leaf_spine(4) + flows_between("\"w0\"", "\"w4\""));
  expect_not_drawn(nodes(8) + leaf_spine(4) + kRing);
  expect_not_drawn(nodes(8) + leaf_spine(4, "100Gbit/s", "routing = \"static\"\n") + four);
  expect_not_drawn(nodes(8) + leaf_spine(4) + flows_between("\"w0\", \"w1\"", "\"w4\""), kFlow);
}

TEST(RunValidity, LinksThatAreNotAlike) {
  const std::string one = flows_between("\"w0\"", "\"w4\"");
  expect_drawn("paths by hash", nodes(8) + leaf_spine(4) +
                                    "[[topology.override]]\nlink = \"leaf0 - spine2\"\n"
                                    "latency = \"30us\"\n" +
                                    one);
  expect_drawn("paths by hash", nodes(8) + leaf_spine(4) + one +
                                    "[[event]]\nat = \"1us\"\nlink = \"leaf0 - spine2\"\n"
                                    "rate = \"1Gbit/s\"\n");
}

TEST(RunValidity, OtherDraws) {
  expect_drawn("who sends to whom", nodes(8) + leaf_spine(1) + permutation());
  expect_drawn("losses and faults",
               nodes(4) + kIncast + "[[event]]\nat = \"0us\"\nlink = \"w1\"\nloss = 0.05\n");
  expect_drawn("marks", nodes(4) +
                            "[queues]\n[[queues.class]]\n"
                            "ecn = [ { kmin = \"40KB\", kmax = \"400KB\", pmax = 0.2 } ]\n"
                            "[[control]]\nname = \"c\"\nlaw = \"dcqcn\"\n" +
                            kIncast + "control = \"c\"\n");
  const std::string computes = nodes(4) + kRing + "compute = { before = \"10us\" }\n";
  expect_drawn(
      "jitter",
      computes + "jitter = { distribution = \"uniform\", from = \"0us\", to = \"5us\" }\n");
  expect_not_drawn(computes);
  expect_not_drawn(nodes(4) + kIncast);
}

TEST(RunValidity, InnerTimesBesideARealNode) {
  const std::string real =
      "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[node]]\nname = \"gpu\"\nreal = true\n"
      "link = { rate = \"100Gbit/s\", latency = \"500ns\" }\n[[port]]\nreal = \"gpu\"\n"
      "device = \"virtual\"\n";
  const auto ring = [](const std::string& more) {
    return "[[job]]\nname = \"j\"\nranks = [\"gpu\", \"w*\"]\ncollective = \"all_reduce\"\n"
           "sizes = [\"1MiB\"]\nentry = \"scheduled\"\n" +
           more;
  };
  const std::string all = real + nodes(4);
  EXPECT_FALSE(ids(all + ring("inner = \"times\"\n")).contains("inner-times"));
  EXPECT_TRUE(ids(all + ring("inner = \"times\"\nchannels = 2\n")).contains("inner-times"));
  EXPECT_FALSE(ids(all + ring("inner = \"packets\"\nchannels = 2\n")).contains("inner-times"));
  const Ids plain = ids(all + ring("step_cost = \"1us\"\n"));
  EXPECT_EQ(plain, (Ids{"nic-costs", "no-topology"}));
}

TEST(RunValidity, UnlimitedLinksAndQueuesWithoutSwitches) {
  const auto text = [](const std::string& rate, const std::string& algorithm) {
    const std::string link = "link = { rate = \"" + rate + "\", latency = \"1us\" }\n";
    return "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[node]]\nname = \"gpu\"\nreal = true\n" +
           link + "[[node]]\nname = \"w\"\ncount = 7\n" + link +
           "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n[[job]]\nname = \"j\"\n"
           "ranks = [\"gpu\", \"w*\"]\nsizes = [\"4MiB\"]\nentry = \"scheduled\"\n"
           "inner = \"times\"\n" +
           algorithm;
  };
  const std::string ring = "collective = \"all_reduce\"\n";
  EXPECT_TRUE(ids(text("unlimited", ring)).contains("unlimited-links"));
  EXPECT_FALSE(ids(text("100Gbit/s", ring)).contains("unlimited-links"));
}

TEST(RunValidity, ALineNamesItsJobs) {
  const std::string other =
      "[[job]]\nname = \"k\"\nranks = [\"w*\"]\nstep_cost = \"1us\"\n"
      "collective = \"all_reduce\"\nsizes = [\"1MiB\"]\n";
  EXPECT_TRUE(text_of(run(nodes(4) + kRing + other), "gpu-costs").ends_with(" (job j)"));
  EXPECT_TRUE(text_of(run(nodes(4) + kRing), "gpu-costs").ends_with("is 0"));
}

}  // namespace
}  // namespace understudy
