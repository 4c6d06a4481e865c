// Samples of a run in real time: its shard is polled by hand here, as the packet loop does, and
// control's turns come between.
#include "ctrl/run/run_sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ctrl/compile/scenario.h"
#include "ctrl/config/read/load.h"
#include "ctrl/report/series/series_file.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// Nothing leaves: the real node is silent.
class NoFrames final : public TxSink {
 public:
  uint8_t* reserve(uint32_t) override { return nullptr; }
  void commit(uint32_t, Time) override {}
};

std::string text(const std::string& fabric, unsigned nodes = 3) {
  return "format = 1\n[fabric]\n" + fabric +
         "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
         "[[node]]\nname = \"gpu\"\nreal = true\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n"
         "[[node]]\nname = \"w\"\ncount = " +
         std::to_string(nodes) +
         "\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n"
         "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
         "[[traffic]]\nname = \"in\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = \"w0\"\n"
         "size = \"500KB\"\n";
}

struct Row {
  Time at;
  std::optional<uint64_t> queue, throughput, rate;
};

/// Eight milliseconds' traffic, sampled every millisecond until 12.
struct Sampled {
  explicit Sampled(const Config& config) {
    const auto scenario = compile_scenario({config}, RunClock::kReal);
    EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().text);
    auto emulator = Emulator::create(*scenario);
    EXPECT_TRUE(emulator) << (emulator ? "" : emulator.error().text);
    ShardSide& side = *(*emulator)->sides().front();
    const ScratchFile csv("live.csv");
    SeriesOptions options;
    options.path = csv.path();
    options.interval = Duration::ms(1);
    auto sampler = RunSampler::create(options, **emulator);
    EXPECT_TRUE(sampler) << (sampler ? "" : sampler.error().text);
    NoFrames sink;
    Time now;
    for (; now < Time::zero() + Duration::ms(12); now += Duration::us(20)) {
      (*sampler)->turn(now);
      side.shard.poll(now, sink);
      side.control.poll();
    }
    EXPECT_TRUE((*sampler)->finish("live", now));
    const std::string written = csv.bytes();
    const auto copy = SeriesFile::create(csv.path());
    std::ofstream(csv.path()) << written;
    EXPECT_TRUE(copy->read([&](const SeriesRow& row) {
      rows[std::string(row.name)].push_back({row.at, row.queue, row.throughput, row.rate});
    }));
  }
  /// What the throughput of a name comes to, from one sample to the next.
  double bytes(const std::string& name) const {
    double sum = 0;
    Time before;
    for (const Row& row : rows.at(name)) {
      sum += static_cast<double>(row.throughput.value_or(0)) / 8 * (row.at - before).seconds();
      before = row.at;
    }
    return sum;
  }
  std::map<std::string, std::vector<Row>> rows;
};

TEST(RunSampler, AShardCopiesQueuesAndThroughputAndFlows) {
  const Sampled run(config_of(text("")));
  // 123 packets each, with 82 bytes on top.
  EXPECT_NEAR(run.bytes("switch0 -> w0"), 2 * (500'000 + 123 * 82), 100);
  for (const char* flow : {"in 0", "in 1"}) EXPECT_NEAR(run.bytes(flow), 500'000, 100) << flow;
  const std::vector<Row>& link = run.rows.at("switch0 -> w0");
  EXPECT_GT(*link.at(3).queue, 100'000u);
  EXPECT_NEAR(static_cast<double>(*link.at(3).throughput), 1e9, 1e6);
  // Once zero, no more rows; the first sample comes at the beginning, and shows nothing.
  EXPECT_EQ(link.back().queue, 0u);
  EXPECT_EQ(link.back().throughput, 0u);
  EXPECT_LT(link.size(), 11u);
  EXPECT_FALSE(run.rows.contains("gpu -> switch0"));
}

TEST(RunSampler, FlowsAsRatesHaveTheirShare) {
  const Sampled run(config_of(text("fidelity = \"flow\"\n")));
  for (const char* flow : {"in 0", "in 1"}) {
    const std::vector<Row>& rows = run.rows.at(flow);
    EXPECT_NEAR(static_cast<double>(*rows.at(3).rate), 0.5e9, 1e3) << flow;
    EXPECT_EQ(*rows.back().rate, 0u);
    EXPECT_LT(rows.size(), 11u);
  }
  EXPECT_NEAR(static_cast<double>(*run.rows.at("switch0 -> w0").at(3).throughput), 1e9, 1e4);
}

TEST(RunSampler, ALargeNetworkIsLookedAtInPieces) {
  const Sampled run(config_of(text("", 100)));
  std::set<Time> times;
  for (const auto& [name, rows] : run.rows) {
    for (const Row& row : rows) times.insert(row.at);
  }
  EXPECT_GT(times.size(), 11u);
  EXPECT_NEAR(run.bytes("switch0 -> w0"), 2 * (500'000 + 123 * 82), 100);
}

TEST(RunSampler, TooManyLinksAreRefused) {
  const Config config = config_of(text("", 1100));
  const auto scenario = compile_scenario({config}, RunClock::kReal);
  ASSERT_TRUE(scenario);
  auto emulator = Emulator::create(*scenario);
  ASSERT_TRUE(emulator) << emulator.error().text;
  const ScratchFile csv("live.csv");
  SeriesOptions options;
  options.path = csv.path();
  const auto refused = RunSampler::create(options, **emulator);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("--series-links"), std::string::npos);
  options.links = {"* -> w0"};
  EXPECT_TRUE(RunSampler::create(options, **emulator));
}

}  // namespace
}  // namespace understudy
