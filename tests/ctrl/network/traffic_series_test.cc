// Time series of runs of [[traffic]]: values worked out by hand, sums that must be those of the
// report, and runs that do not notice.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ctrl/config/read/load.h"
#include "ctrl/report/json.h"
#include "ctrl/report/series/series_file.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

// A byte takes 1 ns on every link, a packet 1 us, an acknowledgement 10 ns.
constexpr char kIncast[] =
    "format = 1\n"
    "[[node]]\nname = \"w\"\ncount = 3\nlink = { rate = \"8Gbit/s\", latency = \"1us\" }\n"
    "[flows]\npayload = \"1000B\"\noverhead = \"0B\"\ngap = \"0B\"\nack = \"10B\"\n"
    "[[traffic]]\nname = \"in, \\\"cast\\\"\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\n"
    "to = \"w0\"\nsize = \"10KB\"\n";
constexpr char kStoreAndForward[] = "[fabric]\nswitching = \"store-and-forward\"\n";
constexpr char kRates[] = "[fabric]\nfidelity = \"flow\"\n";

struct Row {
  double us;
  std::optional<uint64_t> queue, throughput, rate, window;
  bool operator==(const Row&) const = default;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Sampled {
  explicit Sampled(const std::string& text, SeriesOptions options = {}) {
    path = ::testing::TempDir() + "/series_XXXXXX";
    const int file = ::mkstemp(path.data());
    EXPECT_GE(file, 0);
    ::close(file);
    const ConfigResult config = load_config_text(text, "t.toml");
    if (!config) {
      ADD_FAILURE() << describe(config.error());
      return;
    }
    SimulateOptions with;
    options.path = path;
    with.series = options;
    auto ran = compile_and_simulate(*config, with);
    if (!ran) {
      ADD_FAILURE() << ran.error().text;
      return;
    }
    report = std::move(*ran);
    csv = text_of(path);
    // Read back as the plot does.
    const auto copy = SeriesFile::create(path + ".copy");
    std::ofstream(path + ".copy") << csv;
    const auto read = copy->read([&](const SeriesRow& row) {
      rows[std::string(row.kind == SeriesKind::kLink ? "link " : "flow ") + std::string(row.name)]
          .push_back({static_cast<double>(row.at.ps()) / 1e6, row.queue, row.throughput, row.rate,
                      row.window});
    });
    EXPECT_TRUE(read) << read.error().text;
    const auto plain = compile_and_simulate(*config);
    EXPECT_EQ(report_json(*plain), report_json(report));
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".copy");
  }
  std::string path, csv;
  RunReport report;
  std::map<std::string, std::vector<Row>> rows;
};

SeriesOptions every(Duration interval) {
  SeriesOptions options;
  options.interval = interval;
  return options;
}

TEST(TrafficSeries, AnIncastWorkedOutByHand) {
  const Sampled run(std::string(kIncast) + kStoreAndForward, every(Duration::us(2)));
  EXPECT_TRUE(run.csv.starts_with(
      "time_us,kind,name,queue_bytes,throughput_bit_per_s,rate_bit_per_s,window_bytes\n"));
  const uint64_t line = 8'000'000'000;
  // Two packets come every microsecond from 2 us on, ten times; one leaves.
  std::vector<Row> bottleneck;
  const uint64_t queues[] = {1000, 3000, 5000, 7000, 9000, 9000, 7000, 5000, 3000, 1000, 0, 0};
  for (size_t i = 0; i < std::size(queues); ++i) {
    const bool sends = i > 0 && i + 1 < std::size(queues);
    bottleneck.push_back({2.0 * static_cast<double>(i + 1), queues[i], sends ? line : 0, {}, {}});
  }
  EXPECT_EQ(run.rows.at("link switch0 -> w0"), bottleneck);
  // A sender is busy for 10 us; the row behind says that it is over.
  std::vector<Row> sender;
  for (int i = 1; i <= 5; ++i) sender.push_back({2.0 * i, 0, line, {}, {}});
  sender.push_back({12, 0, 0, {}, {}});
  EXPECT_EQ(run.rows.at("link w1 -> switch0"), sender);
  EXPECT_EQ(run.rows.at("link w2 -> switch0"), sender);
  // Acknowledgements leave at 4, 5 ... 23 us: two every 2 us.
  const auto& acks = run.rows.at("link w0 -> switch0");
  ASSERT_EQ(acks.size(), 11u);
  EXPECT_EQ(acks.front(), (Row{6, 0, 80'000'000, {}, {}}));
  EXPECT_EQ(acks[9], (Row{24, 0, 80'000'000, {}, {}}));
  EXPECT_EQ(acks.back(), (Row{26, 0, 0, {}, {}}));
  // One of the flows ends at 24.02 us, the other at 25.02 us, when the last acknowledgement has
  // come.
  uint64_t delivered = 0;
  double last = 0;
  for (const char* name : {"flow in, \"cast\" 0", "flow in, \"cast\" 1"}) {
    const auto& rows = run.rows.at(name);
    EXPECT_EQ(rows.front(), (Row{2, {}, 0, line, {}}));
    EXPECT_EQ(rows.back().rate, 0u);
    last = std::max(last, rows.back().us);
    for (const Row& row : rows) delivered += *row.throughput * 2 / 8'000'000;
    for (size_t i = 0; i + 1 < rows.size(); ++i) EXPECT_EQ(rows[i].rate, line);
  }
  EXPECT_EQ(last, 26);
  EXPECT_EQ(delivered, 20'000u);
}

// A packet on the wire counts as far as it has gone.
TEST(TrafficSeries, SamplesInsideAPacket) {
  const Sampled run(std::string(kIncast) + kStoreAndForward, every(Duration::ns(300)));
  const auto& sender = run.rows.at("link w1 -> switch0");
  ASSERT_EQ(sender.size(), 35u);  // 10 us and the row behind
  for (size_t i = 0; i < 33; ++i) EXPECT_EQ(sender[i].throughput, 8'000'000'000u) << i;
  EXPECT_EQ(sender[33].throughput, 2'666'666'667u);  // 100 of 300 ns
  EXPECT_EQ(sender[34].throughput, 0u);
}

TEST(TrafficSeries, SumsAreTheReports) {
  const std::string text =
      "format = 1\n"
      "[[node]]\nname = \"w\"\ncount = 16\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
      "uplink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
      "[queues]\nbuffer = \"1MiB\"\n"
      "[[queues.class]]\necn = { kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }\n"
      "pfc = { headroom = \"auto\" }\n"
      "[[control]]\nname = \"c\"\nlaw = \"dctcp\"\n"
      "[[traffic]]\nname = \"ring\"\npattern = \"ring\"\nfrom = \"w*\"\nsize = \"100KB\"\nsteps = "
      "3\n"
      "control = \"c\"\n"
      "[[traffic]]\nname = \"all\"\npattern = \"all_to_all\"\nfrom = \"w*\"\nsize = \"50KB\"\n"
      "control = \"c\"\n";
  const double us = 7.3;
  const Sampled run(text, every(Duration::ns(7300)));
  ASSERT_EQ(run.report.traffic->flows.size(), 48u + 240u);
  for (const FlowReport& flow : run.report.traffic->flows) {
    double bytes = 0;
    for (const Row& row : run.rows.at("flow " + flow.name)) {
      bytes += static_cast<double>(*row.throughput) / 8e6 * us;
      EXPECT_LE(row.rate.value_or(0), 100'000'000'000u);
      EXPECT_EQ(row.window.has_value(), *row.rate != 0);
    }
    EXPECT_NEAR(bytes, static_cast<double>(flow.bytes), 0.01) << flow.name;
  }
  for (const TrafficLinkReport& link : run.report.traffic->links) {
    double bytes = 0;
    uint64_t largest = 0;
    for (const Row& row : run.rows.at("link " + link.name)) {
      bytes += static_cast<double>(*row.throughput) / 8e6 * us;
      EXPECT_LE(*row.throughput, 100'000'000'000u) << link.name << " " << row.us;
      largest = std::max(largest, *row.queue);
    }
    EXPECT_NEAR(bytes, static_cast<double>(link.wire_bytes), 0.1) << link.name;
    for (const auto& [name, count] : link.counters) {
      if (name == "queue_peak_bytes") {
        EXPECT_LE(largest, count);
      }
    }
  }
  EXPECT_EQ(Sampled(text, every(Duration::ns(7300))).csv, run.csv);
}

TEST(TrafficSeries, OnlyWhatIsSelected) {
  SeriesOptions options = every(Duration::us(2));
  options.links = {"* -> w0", "w1 *"};
  options.flows = {"*1"};
  const Sampled run(kIncast, options);
  std::vector<std::string> names;
  for (const auto& [name, rows] : run.rows) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"flow in, \"cast\" 1", "link switch0 -> w0",
                                             "link w1 -> switch0"}));
}

// 10 KB at half of the rate: 20 us, and none of it before the latencies have passed.
TEST(TrafficSeries, FlowsAsRates) {
  const Sampled run(std::string(kIncast) + kRates, every(Duration::us(3)));
  std::vector<Row> flow, bottleneck;
  for (int i = 1; i <= 6; ++i) {
    flow.push_back({3.0 * i, {}, {}, 4'000'000'000, {}});
    bottleneck.push_back({3.0 * i, {}, 8'000'000'000, {}, {}});
  }
  flow.push_back({21, {}, {}, 0, {}});
  bottleneck.push_back({21, {}, 0, {}, {}});
  EXPECT_EQ(run.rows.at("flow in, \"cast\" 0"), flow);
  EXPECT_EQ(run.rows.at("flow in, \"cast\" 1"), flow);
  EXPECT_EQ(run.rows.at("link switch0 -> w0"), bottleneck);
}

}  // namespace
}  // namespace understudy
