// Jobs of a configuration to predicted rows: against the exact ring, bounds, errors with lines.
#include "ctrl/predict/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "collective_model/nccl/double_tree.h"
#include "ctrl/compile/collective.h"
#include "ctrl/compile/modelled_time.h"
#include "ctrl/predict/ring_network.h"

namespace understudy {
namespace {

constexpr const char* kNodes = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.0.0.0/8"
[[node]]
name = "w"
count = 8
gpus = 4
nics = 2
link = { rate = "100Gbit/s", latency = "1us" }
)";

Config config_of(const std::string& text) {
  const ConfigResult config = load_config_text(text, "p.toml");
  EXPECT_TRUE(config) << describe(config.error());
  return config ? *config : Config();
}

std::vector<Prediction> rows_of(const Config& config, const Topology* topology = nullptr) {
  auto predictions = predict(config, topology);
  EXPECT_TRUE(predictions) << describe(predictions.error());
  return predictions ? *predictions : std::vector<Prediction>();
}

std::string error_of(const std::string& text) {
  const ConfigResult config = load_config_text(text, "p.toml");
  if (!config) return describe(config.error());
  const auto predictions = predict(*config, nullptr);
  return predictions ? "" : describe(predictions.error());
}

std::string job(const std::string& keys) {
  return "[[job]]\nname = \"j\"\nranks = [\"w*\"]\n" + keys;
}

constexpr const char* kAuto = "algorithm = \"auto\"\nprotocol = \"auto\"\n";

TEST(Prediction, RingSimpleIsTheRingThatSimulateModels) {
  std::string nodes = kNodes;
  nodes.replace(nodes.find("count = 8"), 9, "count = 7");
  nodes +=
      "[[node]]\nname = \"gpu\"\nreal = true\ngpus = 4\nnics = 2\nlink = { rate = \"100Gbit/s\", "
      "latency = \"1us\" }\n[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n";
  for (const char* channels : {"1", "2", "8"}) {
    for (const char* size : {"1MiB", "24MiB", "1GiB"}) {
      // Eight channels with short messages take turns on a NIC, which plans do not know.
      if (channels == std::string("8") && size == std::string("1MiB")) continue;
      const Config config = config_of(
          nodes + "[[job]]\nname = \"j\"\nranks = [\"gpu\", \"w*\"]\ncollective = " +
          "\"all_reduce\"\ngpus = 1\nstep_cost = \"1us\"\niterations = 1\nwarmup = 0\nchannels = " +
          channels + "\nsizes = [\"" + size + "\"]\n");
      const auto predictions = rows_of(config);
      ASSERT_EQ(predictions.size(), 1u);
      const auto setup = build_collective(config, config.jobs[0], true);
      ASSERT_TRUE(setup) << setup.error().text;
      const auto times = modelled_times(**setup);
      ASSERT_TRUE(times) << times.error().text;
      ASSERT_EQ(times->size(), 1u);
      const double modelled = times->front().microseconds();
      EXPECT_NEAR(predictions[0].rows[0].time / modelled, 1, 0.005)
          << channels << " channels, " << size;
    }
  }
}

TEST(Prediction, ColumnsOfNcclTests) {
  const Config config = config_of(std::string(kNodes) + job("collective = \"all_gather\"\n"
                                                            "channels = 4\nsizes = [\"32MiB\"]\n"));
  const PredictedRow row = rows_of(config)[0].rows[0];
  EXPECT_EQ(row.count, (32u << 20) / 32 / 4);  // of each of 32 ranks
  EXPECT_NEAR(row.bus_rate / row.algorithm_rate, 31.0 / 32, 1e-9);
  // Two NICs of 100 Gbit/s, which packets of 4096 bytes fill.
  EXPECT_NEAR(row.nic_rate, 100e9, 5e9);
  EXPECT_LE(row.nic_rate, 100e9);
  EXPECT_TRUE(row.beyond.empty());
  const std::string text = prediction_text(config, rows_of(config), true);
  EXPECT_NE(text.find("33554432        262144     float    none      -1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("trees are for all-reduce"), std::string::npos) << text;
}

TEST(Prediction, SharedLinksSlowNeighboursDown) {
  // Two leaves of four nodes each and one spine at the rate of one NIC: the ring crosses it once
  // each way, an all-to-all with everything.
  const std::string text = R"(
[topology]
kind = "leaf_spine"
hosts_per_leaf = 4
spines = 1
uplink = { rate = "100Gbit/s", latency = "1us" }
)";
  const auto time = [&](const std::string& collective, bool leaves) {
    const Config config =
        config_of(std::string(kNodes) + (leaves ? text : "") +
                  job("gpus = 1\ncollective = \"" + collective + "\"\nsizes = [\"64MiB\"]\n"));
    if (!leaves) return rows_of(config)[0].rows[0].time;
    const auto topology = build_topology(config);
    EXPECT_TRUE(topology);
    return rows_of(config, &*topology)[0].rows[0].time;
  };
  EXPECT_NEAR(time("all_reduce", true) / time("all_reduce", false), 1, 0.02);
  // 16 of 56 pairs cross each way: 16 transfers at a time where a NIC has 7.
  EXPECT_NEAR(time("all_to_all", true) / time("all_to_all", false), 16.0 / 7, 0.05);
}

TEST(Prediction, BusiestNodeOfTrees) {
  // What the time model takes from the shape of both trees, for any number of nodes.
  for (uint32_t n = 2; n <= 200; ++n) {
    const DoubleTree trees(n);
    std::vector<double> sends(n);
    for (uint32_t tree = 0; tree < 2; ++tree) {
      for (uint32_t place = 1; place < n; ++place) {
        sends[trees.rank(tree, place)] += 1;
        sends[trees.rank(tree, trees.parent(place))] += 1;
      }
    }
    OperationShape shape;
    shape.algorithm = Algorithm::kTree;
    shape.communicator = {n, n};
    shape.bytes = 1000;
    EXPECT_EQ(bytes_between_nodes(shape), 500 * *std::max_element(sends.begin(), sends.end())) << n;
  }
}

TEST(Prediction, NamesFiguresBeyondTheLinks) {
  const Config config = config_of(std::string(kNodes) + R"(
[topology]
kind = "single_switch"
[intra_node]
gpu_link = { rate = "100Gbit/s", latency = "1us" }
[calibration]
simple = { rate = "1000GB/s" }
)" + "[[job]]\nname = \"j\"\ncollective = \"all_reduce\"\nranks = [\"w0\"]\nsizes = [\"1GiB\"]\n");
  const PredictedRow row = rows_of(config)[0].rows[0];
  ASSERT_EQ(row.beyond.size(), 1u);
  EXPECT_NE(row.beyond[0].find("over a link of 100 Gbit/s"), std::string::npos) << row.beyond[0];
}

TEST(Prediction, HundredThousandGpus) {
  std::string text =
      "format = 1\n[[node]]\nname = \"w\"\ncount = 12500\ngpus = 8\nnics = 8\n"
      "link = { rate = \"400Gbit/s\", latency = \"1us\" }\n"
      "[nccl]\ngpu = \"hopper\"\n";
  for (const char* algorithm : {"ring", "tree", "auto"}) {
    text += "[[job]]\nname = \"" + std::string(algorithm) + "\"\nranks = [\"w*\"]\nalgorithm = \"" +
            algorithm +
            "\"\nprotocol = \"auto\"\ncollective = \"all_reduce\"\n"
            "sizes = { from = \"1KiB\", to = \"16GiB\" }\n";
  }
  const Config config = config_of(text);
  const auto predictions = rows_of(config);
  ASSERT_EQ(predictions.size(), 3u);
  EXPECT_EQ(predictions[0].communicator.ranks, 100'000u);
  for (size_t i = 0; i < predictions[0].rows.size(); ++i) {
    EXPECT_GT(predictions[0].rows[i].time, predictions[1].rows[i].time);
    EXPECT_EQ(predictions[2].rows[i].tuning.algorithm, Algorithm::kTree);
  }
}

TEST(Prediction, ContradictionsHaveLines) {
  const std::string reduce = "collective = \"all_reduce\"\nsizes = [\"1MiB\"]\n";
  const auto at_job = [](const std::string& text) { return text.starts_with("p.toml:11: job: "); };
  const std::string pat = error_of(kNodes + job(reduce + "algorithm = \"pat\"\n"));
  EXPECT_TRUE(at_job(pat)) << pat;
  EXPECT_NE(pat.find("PAT is for all-gather and reduce-scatter"), std::string::npos) << pat;
  const std::string gpus =
      error_of(kNodes + job("collective = \"all_gather\"\nalgorithm = \"pat\"\n"
                            "sizes = [\"1MiB\"]\n"));
  EXPECT_TRUE(at_job(gpus)) << gpus;
  EXPECT_NE(gpus.find("PAT is for one GPU per node"), std::string::npos) << gpus;
  const std::string none =
      error_of(kNodes + job(reduce + kAuto) + "[nccl]\nenvironment = { NCCL_ALGO = \"NVLS\" }\n");
  EXPECT_TRUE(at_job(none)) << none;
  EXPECT_NE(none.find("NCCL_ALGO excludes it"), std::string::npos) << none;
  const std::string crossed = error_of(
      kNodes + job(reduce) +
      "[nccl]\nenvironment = { NCCL_MIN_NCHANNELS = \"8\", NCCL_MAX_NCHANNELS = \"4\" }\n");
  EXPECT_NE(crossed.find("p.toml:16: nccl.environment: "), std::string::npos) << crossed;
  const std::string lists = error_of(kNodes + job(reduce + "nccl = \"2.20\"\n") +
                                     "[nccl]\nenvironment = { NCCL_ALGO = \"allreduce:ring\" }\n");
  EXPECT_NE(lists.find("lists by function came with NCCL 2.24"), std::string::npos) << lists;
}

/// Bus bandwidth of 4 GiB inside one node, in GB/s.
double bus_inside(unsigned gpus, const std::string& algorithm) {
  const Config config = config_of(
      "format = 1\n[[node]]\nname = \"w\"\ngpus = " + std::to_string(gpus) +
      "\nlink = { rate = \"400Gbit/s\", latency = \"1us\" }\n[nccl]\ngpu = \"hopper\"\nnvls = "
      "true\n"
      "[calibration]\nlaunch = \"10us\"\n"
      "simple = { rate = \"16GB/s\", round = \"0.1us\", latency = \"1us\" }\n"
      "[[job]]\nname = \"j\"\nranks = [\"w\"]\ncollective = \"all_reduce\"\nprotocol = \"auto\"\n"
      "sizes = [\"4GiB\"]\nalgorithm = \"" +
      algorithm + "\"\n");
  return rows_of(config)[0].rows[0].bus_rate;
}

// What was fitted to rings of H100 (365 to 370 GB/s) holds for NVLS by its law and efficiency.
TEST(Prediction, NvlsFollowsFromACalibratedRing) {
  EXPECT_NEAR(bus_inside(8, "ring"), 374, 1);
  EXPECT_NEAR(bus_inside(8, "nvls") / bus_inside(8, "ring"), 1.30, .05);
  EXPECT_EQ(bus_inside(8, "auto"), bus_inside(8, "nvls"));
  for (unsigned gpus = 2; gpus <= 4; ++gpus) {
    EXPECT_NEAR(bus_inside(gpus, "auto") / bus_inside(gpus, "ring"), 1.0, .03) << gpus;
  }
}

// A node sends what it has to the network's switches once; a ring would send it nearly twice.
TEST(Prediction, CollnetSendsOnce) {
  const auto time = [](const std::string& algorithm) {
    const Config config = config_of(
        "format = 1\n[[node]]\nname = \"w\"\ncount = 8\ngpus = 8\nnics = 8\n"
        "link = { rate = \"200Gbit/s\", latency = \"1us\" }\n[nccl]\ncollnet = true\n"
        "[[job]]\nname = \"j\"\nranks = [\"w*\"]\ncollective = \"all_reduce\"\n"
        "sizes = [\"1GiB\"]\nalgorithm = \"" +
        algorithm + "\"\n");
    const PredictedRow row = rows_of(config)[0].rows[0];
    EXPECT_EQ(row.source, PredictionSource::kBeyond);
    return row.time;
  };
  const double whole = (1 << 30) / 200e3;  // us, over 8 NICs of 25 GB/s
  EXPECT_NEAR(time("collnet-direct") / whole, 1.02, .02);
  EXPECT_NEAR(time("collnet-chain") / whole, 1.02, .03);
}

// A head gives its result to seven others and its data to the other head: of half the bytes each.
TEST(Prediction, CollnetWithFewHeadsFillsTheirLinks) {
  const Config config = config_of(
      "format = 1\n[[node]]\nname = \"w\"\ncount = 4\ngpus = 8\nnics = 2\n"
      "link = { rate = \"800Gbit/s\", latency = \"1us\" }\n[topology]\nkind = \"single_switch\"\n"
      "[intra_node]\ngpu_link = { rate = \"2400Gbit/s\", latency = \"0ns\" }\n[nccl]\ncollnet = "
      "true\n[[job]]\nname = \"j\"\nranks = [\"w*\"]\ncollective = \"all_reduce\"\n"
      "sizes = [\"1GiB\"]\nalgorithm = \"collnet-direct\"\n");
  const auto topology = build_topology(config);
  ASSERT_TRUE(topology);
  const Prediction predicted = rows_of(config, &*topology)[0];
  const double links = (1 << 30) / 2.0 * (7 + 1) / 300e3;  // us
  EXPECT_NEAR(predicted.rows[0].time / links, 1.01, .02);
  EXPECT_TRUE(predicted.rows[0].beyond.empty());
  std::string doubt;
  for (const ValidityLine& line : predicted.validity) {
    if (line.id == "beyond-closed-form") doubt = line.text;
  }
  EXPECT_EQ(doubt,
            "the closed form is rough, and of what the network's switches reduce there are no "
            "messages to follow: 1 GiB");
}

TEST(Prediction, BadKeys) {
  const auto error = [](const std::string& section) { return error_of(kNodes + section); };
  EXPECT_EQ(error("[nccl]\ngpu = \"pascal\"\n"),
            "p.toml:12: nccl.gpu: found \"pascal\": expected one of volta, ampere, "
            "hopper, blackwell\n");
  EXPECT_EQ(
      error("[nccl]\nring = { channels = 12, intra = \"20Gbit/s\" }\n"),
      "p.toml:12: nccl.ring.intra: found \"20Gbit/s\": expected a positive bandwidth in GB/s, "
      "as in \"20GB/s\"\n");
  EXPECT_EQ(error("[nccl]\nnvls = true\n"),
            "p.toml:12: nccl.nvls: found true: the NVSwitches of ampere GPUs do not reduce: NVLS "
            "needs gpu = \"hopper\" or \"blackwell\"\n");
  EXPECT_EQ(error("[nccl]\ngpu = \"hopper\"\nintra = \"pci\"\nnvls = true\n"),
            "p.toml:14: nccl.nvls: found true: NVSwitches are of NVLink: intra = \"nvlink\"\n");
  EXPECT_EQ(error("[nccl]\nintra = \"pci\"\npxn = true\n"),
            "p.toml:13: nccl.pxn: found true: PXN copies over NVLink: intra = \"nvlink\"\n");
  EXPECT_NE(error("[nccl]\nenvironment = { NCCL_PROTO = \"LL64\" }\n").find("\"LL64\" is unknown"),
            std::string::npos);
  EXPECT_NE(
      error("[calibration]\nsimple = { rounds = \"1us\" }\n").find("calibration.simple.rounds"),
      std::string::npos);
  EXPECT_NE(error("[calibration]\ntail = -1\n").find("expected a share of a step"),
            std::string::npos);
}

TEST(Prediction, ChannelsOfRailsTakeTheirOwnNics) {
  // Each channel leaves by the NIC of its last GPU and comes in by that of its first one.
  std::string text =
      "format = 1\n[[node]]\nname = \"w\"\ncount = 16\ngpus = 4\nnics = 4\n"
      "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
      "[topology]\nkind = \"rail\"\nhosts_per_leaf = 8\nspines = 8\n"
      "uplink = { rate = \"25Gbit/s\", latency = \"500ns\" }\n";
  const Config config =
      config_of(text + job("collective = \"all_reduce\"\nsizes = [\"1MiB\"]\nchannels = 4\n"));
  const Topology topology = build_topology(config).value();
  const RingNetwork ring = ring_network(config, config.jobs[0], 4, &topology, config.seed);
  EXPECT_EQ(ring.sharing, 1u);
  EXPECT_DOUBLE_EQ(ring.farthest, 3);  // from rail to rail, over a spine
  EXPECT_FALSE(ring.collision.empty());
  EXPECT_LE(ring.rate, 25e3 / 8 + 1e-9);
  EXPECT_NEAR(ring.share, ring.rate / (100e3 / 8), 1e-9);
}

TEST(Prediction, ACalibrationKeepsTheNetworkThatItWasFittedWith) {
  // Two NICs a GPU, all of which large rings fill, and no credits besides what was measured.
  const Config config = config_of(
      "format = 1\n[[node]]\nname = \"w\"\ncount = 2\ngpus = 8\nnics = 16\n"
      "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
      "[nccl]\ngpu = \"ampere\"\nring = { channels = 16, intra = \"12GB/s\", inter = \"12GB/s\" }\n"
      "channels = 32\n"
      "[calibration]\nlaunch = \"8us\"\ntail = 0\n"
      "simple = { round = \"100ns\", rate = \"100GB/s\", latency = \"3us\", network_latency = "
      "\"13us\" }\n" +
      job("collective = \"all_gather\"\nalgorithm = \"ring\"\nprotocol = \"simple\"\n"
          "nccl = \"2.20\"\nsizes = [\"64KiB\", \"4GiB\"]\n"));
  const Prediction prediction = rows_of(config)[0];
  // 13 hops inside a node and 2 between, as the fit has them.
  EXPECT_NEAR(prediction.rows[0].time, 8 + 13 * 3 + 2 * (3 + 13 + 2), 15);
  EXPECT_GT(prediction.rows[1].nic_rate, 95e9);
  EXPECT_EQ(prediction.rows[1].source, PredictionSource::kClosedForm);
}

TEST(Prediction, SaysHowItWasFound) {
  const std::string nodes =
      "format = 1\n[[node]]\nname = \"w\"\ncount = 64\nlink = { rate = \"100Gbit/s\", latency = "
      "\"1us\" }\n";
  const auto row = [&](const std::string& keys) {
    return rows_of(config_of(nodes + job("collective = \"all_reduce\"\n" + keys)))[0].rows[0];
  };
  const PredictedRow few = row("sizes = [\"1MiB\"]\n");
  EXPECT_EQ(few.source, PredictionSource::kFlow);
  EXPECT_NEAR(few.time, few.closed_form, few.time / 100);
  const PredictedRow many = row("sizes = [\"16GiB\"]\n");
  EXPECT_EQ(many.source, PredictionSource::kClosedForm);
  EXPECT_TRUE(many.limits.empty());
  const PredictedRow tree = row("sizes = [\"64GiB\"]\nalgorithm = \"tree\"\n");
  EXPECT_EQ(tree.source, PredictionSource::kBeyond);
  EXPECT_FALSE(tree.limits.empty());
  EXPECT_FALSE(tree.error.has_value());
  const Prediction all = rows_of(config_of(
      nodes + job("collective = \"all_reduce\"\nsizes = [\"64GiB\"]\nalgorithm = \"tree\"\n")))[0];
  EXPECT_TRUE(std::ranges::any_of(all.validity, [](const ValidityLine& line) {
    return line.id == "beyond-closed-form" && line.kind == ValidityKind::kDoubt;
  }));
}

TEST(Predictions, TimesByDimensionsThatCannotBeCounted) {
  const auto text = [](const std::string& memory) {
    return std::string(
               "format = 1\n[[node]]\nname = \"w\"\ncount = 4\n"
               "link = { rate = \"10Tbit/s\", latency = \"0ns\" }\n[topology]\n"
               "kind = \"dimensions\"\ndimensions = [ { kind = \"ring\", size = 4, link = { rate = "
               "\"100Gbit/s\", latency = \"0ns\" } } ]\n[dimension_costs]\nmemory = \"") +
           memory +
           "\"\n[[job]]\nname = \"j\"\nranks = [\"w*\"]\ncollective = \"all_reduce\"\n"
           "algorithm = [\"ring\"]\nsizes = [\"1GiB\"]\n";
  };
  EXPECT_EQ(error_of(text("1kbit/s")),
            "p.toml:11: job.sizes: found 1073741824 bytes: at the rates of the [topology] and of "
            "[dimension_costs] this takes more than 106 days\n");
  EXPECT_EQ(error_of(text("4kbit/s")), "");
}

}  // namespace
}  // namespace understudy
