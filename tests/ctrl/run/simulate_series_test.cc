// Time series of runs with a real node in virtual time: runs that do not notice, sums that are the
// report's, and rates of its queue pairs.
#include <gtest/gtest.h>

#include <map>

#include "ctrl/report/json.h"
#include "ctrl/report/series/series_file.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

constexpr const char* kLeafSpine =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n"
    "[queues]\nbuffer = \"4MB\"\n[[queues.class]]\necn = { kmin = \"20KB\", kmax = \"80KB\", pmax "
    "= 1 }\n"
    "[[control]]\nname = \"dcqcn\"\nlaw = \"dcqcn\"\n";
constexpr const char* kIncast =
    "[[traffic]]\nname = \"in\"\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = [\"gpu\"]\n"
    "size = \"2MB\"\n";
constexpr const char* kSteered = "traffic_class = 2\ncontrol = \"dcqcn\"\n";

struct Row {
  double us;
  SeriesKind kind;
  std::optional<uint64_t> queue, throughput, rate;
};

struct Sampled {
  /// Also runs without samples, and compares report and capture.
  explicit Sampled(const Config& config, Duration interval = Duration::us(10)) {
    const ScratchFile csv("series.csv"), with("with.pcapng"), without("without.pcapng");
    SimulateOptions options;
    options.capture_path = with.path();
    options.series.path = csv.path();
    options.series.interval = interval;
    const auto ran = compile_and_simulate(config, options);
    if (!ran) {
      ADD_FAILURE() << ran.error().text;
      return;
    }
    report = *ran;
    text = csv.bytes();
    EXPECT_EQ(report_json(simulated(config, without.path())), report_json(report));
    EXPECT_FALSE(with.bytes().empty());
    EXPECT_TRUE(with.bytes() == without.bytes());
    const auto copy = SeriesFile::create(csv.path());
    std::ofstream(csv.path()) << text;
    const auto read = copy->read([&](const SeriesRow& row) {
      rows[std::string(row.name)].push_back(
          {static_cast<double>(row.at.ps()) / 1e6, row.kind, row.queue, row.throughput, row.rate});
    });
    EXPECT_TRUE(read);
  }

  const TrafficLinkReport& link(const std::string& name) const {
    for (const TrafficLinkReport& l : report.traffic->links) {
      if (l.name == name) return l;
    }
    ADD_FAILURE() << name;
    return report.traffic->links.front();
  }
  double bytes(const std::string& name, double interval_us) const {
    double sum = 0;
    for (const Row& row : rows.at(name)) {
      sum += static_cast<double>(*row.throughput) / 8e6 * interval_us;
    }
    return sum;
  }

  RunReport report;
  std::string text;
  std::map<std::string, std::vector<Row>> rows;
};

TEST(SimulateSeries, LinksAndFlowsBesideARealNode) {
  const RingText ring{.ranks = 8, .sizes = "\"1MiB\"", .more = std::string(kLeafSpine) + kIncast};
  const Sampled run(config_of(ring.text()));
  for (const char* name : {"leaf0 -> gpu", "gpu -> leaf0", "leaf1 -> spine0", "w1 -> leaf0"}) {
    // The last ACKs may come when all operations are over.
    EXPECT_NEAR(run.bytes(name, 10), static_cast<double>(run.link(name).wire_bytes), 500) << name;
  }
  for (const char* name : {"in 0", "in 1"}) EXPECT_NEAR(run.bytes(name, 10), 2e6, 0.1) << name;
  uint64_t largest = 0;
  for (const Row& row : run.rows.at("leaf0 -> gpu")) largest = std::max(largest, *row.queue);
  EXPECT_GT(largest, 500'000u);
  // Nothing here is under congestion control.
  for (const auto& [name, rows] : run.rows) EXPECT_NE(rows[0].kind, SeriesKind::kQueuePair);
}

TEST(SimulateSeries, QueuePairsUnderCongestionControl) {
  const RingText ring{.ranks = 8,
                      .sizes = "\"1MiB\"",
                      .job = std::string(kSteered) + "channels = 2\n",
                      .more = std::string(kLeafSpine) + kIncast};
  const Sampled run(config_of(ring.text()));
  std::vector<std::string> names;
  for (const auto& [name, rows] : run.rows) {
    if (rows[0].kind == SeriesKind::kQueuePair) names.push_back(name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"ring gpu -> w0 0", "ring gpu -> w0 1",
                                             "ring w6 -> gpu 0", "ring w6 -> gpu 1"}));
  // Those that the incast meets are cut, as low as the report says, but for what was between two
  // samples.
  uint64_t lowest = UINT64_MAX;
  for (const char* name : {"ring w6 -> gpu 0", "ring w6 -> gpu 1"}) {
    const std::vector<Row>& rows = run.rows.at(name);
    for (size_t i = 0; i < rows.size(); ++i) {
      lowest = std::min(lowest, *rows[i].rate);
      if (i > 0) {
        EXPECT_NEAR(rows[i].us - rows[i - 1].us, 10, 1e-6);
      }
    }
  }
  for (const SenderReport& sender : run.report.ports.at(0).senders) {
    if (sender.reference) continue;
    EXPECT_GT(sender.rate_cuts, 0u);
    EXPECT_GE(lowest, sender.lowest.bps());
    EXPECT_LT(static_cast<double>(lowest), static_cast<double>(sender.lowest.bps()) * 1.2);
  }
  EXPECT_EQ(Sampled(config_of(ring.text())).text, run.text);
}

TEST(SimulateSeries, FlowsAsRatesLoadTheLinksToo) {
  const RingText ring{.ranks = 8,
                      .sizes = "\"4MiB\"",
                      .fabric = "fidelity = \"flow\"\n",
                      .more = std::string(kLeafSpine) +
                              "[[traffic]]\nname = \"f\"\npattern = \"flow\"\nfrom = \"w1\"\n"
                              "to = \"gpu\"\nsize = \"2MB\"\n"};
  const Sampled run(config_of(ring.text()));
  EXPECT_EQ(run.rows.at("f 0").front().rate, 10'000'000'000u);
  EXPECT_EQ(run.rows.at("f 0").back().rate, 0u);
  EXPECT_EQ(run.rows.at("w1 -> leaf0").front().throughput, 10'000'000'000u);
  // Beside it the ring's packets get half of the link to the real node, and it does not notice.
  uint64_t most = 0;
  for (const Row& row : run.rows.at("leaf0 -> gpu")) most = std::max(most, *row.throughput);
  EXPECT_NEAR(static_cast<double>(most), 15e9, 0.1e9);
}

// A change of a link falls between two samples, and is in the capture where it was.
TEST(SimulateSeries, ChangesOfLinksAndNoTraffic) {
  const RingText ring{.ranks = 4,
                      .sizes = "\"1MiB\"",
                      .job = "iterations = 2\n",
                      .more =
                          "[queues]\nbuffer = \"4MB\"\n"
                          "[[event]]\nat = \"1234us\"\nlink = \"w0\"\nrate = \"1Gbit/s\"\n"};
  const Sampled run(config_of(ring.text()), Duration::us(100));
  EXPECT_NEAR(run.bytes("switch0 -> w0", 100),
              static_cast<double>(run.link("switch0 -> w0").wire_bytes), 500);
  for (const Row& row : run.rows.at("switch0 -> w0")) {
    if (row.us > 1300) {
      EXPECT_LE(row.throughput, 1'000'000'000u);
    }
  }
}

}  // namespace
}  // namespace understudy
