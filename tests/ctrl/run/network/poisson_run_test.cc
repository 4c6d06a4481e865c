// Runs of Poisson traffic: the same as of its flows in a file, and what queueing theory says.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/traffic/poisson.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

RunReport run(const Config& config) {
  auto report = compile_and_simulate(config);
  if (!report) {
    ADD_FAILURE() << report.error().text;
    return {};
  }
  return std::move(*report);
}

Config load(const std::string& text, const std::string& file = "") {
  const FileReader reader = [&file](const std::string&, size_t) { return file; };
  ConfigResult config = load_config_text(text, "p.toml", reader);
  if (!config) {
    ADD_FAILURE() << describe(config.error());
    return {};
  }
  return std::move(*config);
}

constexpr char kNodes[] =
    "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n[[node]]\nname = \"w\"\ncount = 6\n"
    "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n";
constexpr char kPoisson[] =
    "[[traffic]]\nname = \"t\"\npattern = \"poisson\"\nfrom = \"w*\"\nload = 0.4\n"
    "sizes = \"fb-hadoop\"\nflows = 200\n";
constexpr char kFile[] =
    "[[traffic]]\nname = \"t\"\npattern = \"file\"\nfile = \"f.csv\"\nslowdown = true\n";
/// A real node whose job shares the network.
constexpr char kJob[] =
    "[[node]]\nname = \"gpu\"\nreal = true\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
    "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
    "[[job]]\nname = \"j\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nranks = [\"gpu\", "
    "\"w0\", "
    "\"w5\"]\n"
    "sizes = [\"1MB\"]\n";

std::string listed(const Config& config) {
  std::string text = "id,from,to,bytes,start\n";
  size_t id = 0;
  for (const Arrival& a : poisson_arrivals(config, config.traffic[0], 1)) {
    text += std::to_string(id++) + "," + config.nodes[a.from].name + "," + config.nodes[a.to].name +
            "," + std::to_string(a.bytes) + "," + std::to_string(a.at.ps()) + "ps\n";
  }
  return text;
}

TEST(PoissonRun, IsTheRunOfItsFlowsInAFile) {
  for (const std::string& more :
       {std::string(), std::string("[fabric]\nfidelity = \"flow\"\n"), std::string(kJob)}) {
    SCOPED_TRACE(more);
    const Config drawn = load(kNodes + more + kPoisson);
    const RunReport poisson = run(drawn), file = run(load(kNodes + more + kFile, listed(drawn)));
    ASSERT_TRUE(poisson.traffic && file.traffic);
    ASSERT_EQ(poisson.traffic->flows.size(), 200u);
    ASSERT_EQ(file.traffic->flows.size(), 200u);
    for (size_t i = 0; i < 200; ++i) {
      const FlowReport &a = poisson.traffic->flows[i], &b = file.traffic->flows[i];
      EXPECT_EQ(a.start, b.start);
      EXPECT_TRUE(a.received);
      EXPECT_EQ(a.received, b.received);
      EXPECT_EQ(a.ideal, b.ideal);
    }
  }
}

/// Flows that share one link evenly are customers of a processor-sharing server: whatever their
/// sizes, they take 1 / (1 - load) times as long as alone on average (Kleinrock, Queueing Systems II).
TEST(PoissonRun, ProcessorSharingHasItsMeanSlowdown) {
  const std::string text =
      "format = 1\n[fabric]\nfidelity = \"flow\"\n[flows]\noverhead = \"0B\"\ngap = \"0B\"\n"
      "[[node]]\nname = \"w\"\ncount = 20\nlink = { rate = \"10Gbit/s\", latency = \"0us\" }\n"
      "[[node]]\nname = \"sink\"\nlink = { rate = \"10Gbit/s\", latency = \"0us\" }\n"
      "[[traffic]]\npattern = \"poisson\"\nfrom = \"w*\"\nto = \"sink\"\nload = 0.03\n"
      "flows = 40000\nsizes = ";
  for (const char* sizes : {"\"ali-storage\"", "\"equal.csv\""}) {
    SCOPED_TRACE(sizes);
    const RunReport report = run(load(text + sizes + "\n", "10000,1\n"));
    ASSERT_TRUE(report.traffic && report.traffic->groups[0].slowdowns);
    double sum = 0;
    for (const FlowSlowdown& flow : *report.traffic->groups[0].slowdowns) sum += flow.slowdown;
    EXPECT_NEAR(sum / 40'000, 1 / (1 - 20 * 0.03), 0.125);
  }
}

}  // namespace
}  // namespace understudy
