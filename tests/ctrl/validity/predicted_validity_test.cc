// The lines on how far to trust a prediction, and a calibration.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/predict/calibration_run.h"
#include "ctrl/predict/prediction.h"

namespace understudy {
namespace {

using Ids = std::set<std::string>;

Config config_of(const std::string& text) {
  const ConfigResult config = load_config_text("format = 1\n" + text, "p.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  return config ? *config : Config();
}

std::vector<ValidityLine> lines(const std::string& text) {
  const Config config = config_of(text);
  std::optional<Topology> topology;
  if (config.topology) topology = build_topology(config).value();
  const auto predictions = predict(config, topology ? &*topology : nullptr);
  EXPECT_TRUE(predictions) << (predictions ? "" : describe(predictions.error()));
  return predictions ? prediction_validity(*predictions) : std::vector<ValidityLine>();
}

Ids ids(const std::string& text) {
  Ids out;
  for (const ValidityLine& line : lines(text)) out.emplace(line.id);
  return out;
}

std::string text_of(const std::string& text, std::string_view id) {
  for (const ValidityLine& line : lines(text)) {
    if (line.id == id) return line.text;
  }
  return "";
}

std::string nodes(unsigned count, unsigned gpus = 1, const std::string& rate = "100Gbit/s") {
  return "[[node]]\nname = \"w\"\ncount = " + std::to_string(count) +
         "\ngpus = " + std::to_string(gpus) + "\nlink = { rate = \"" + rate +
         "\", latency = \"1us\" }\n";
}

std::string job(const std::string& keys, const std::string& sizes = "\"1MiB\"") {
  return "[[job]]\nname = \"j\"\nranks = [\"w*\"]\nsizes = [" + sizes + "]\n" + keys;
}

const std::string kReduce = "collective = \"all_reduce\"\n";

std::string leaf_spine(unsigned spines) {
  return "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = " +
         std::to_string(spines) + "\nuplink = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
}

std::string measured(const std::string& more = "") {
  return "[calibration]\nlaunch = \"10us\"\nsimple = { round = \"1us\", rate = \"10GB/s\" }\n" +
         more;
}
/// Of 2 and 4 GPUs of a node.
const std::string kFrom =
    "from = [\n"
    "  { table = \"a.txt\", gpu = \"ampere\", nccl = \"2.28\", ranks = 2, smallest = \"1KiB\", "
    "largest = \"256MiB\" },\n"
    "  { table = \"b.txt\", gpu = \"ampere\", nccl = \"2.28\", ranks = 4, smallest = \"8B\", "
    "largest = \"64MiB\" },\n]\n";

TEST(PredictedValidity, CostsOfGpus) {
  EXPECT_TRUE(ids(nodes(4) + job(kReduce)).contains("gpu-costs"));
  EXPECT_NE(text_of(nodes(4) + job(kReduce + "step_cost = \"1us\"\n"), "gpu-costs")
                .find("step_cost for a step and nothing else"),
            std::string::npos);
  EXPECT_FALSE(ids(nodes(4) + job(kReduce) + measured(kFrom)).contains("gpu-costs"));
}

TEST(PredictedValidity, InsideNodes) {
  const std::string nic = "[[nic]]\nname = \"n\"\npcie = { latency = \"150ns\" }\n";
  std::string named = nodes(4);
  named.replace(named.find("link = "), 0, "nic = \"n\"\n");
  EXPECT_FALSE(ids(nic + named + job(kReduce)).contains("nic-costs"));
  const std::string rates = "[[nic]]\nname = \"n\"\npreset = \"connectx-7\"\nack_every = 4\n";
  EXPECT_TRUE(ids(rates + named + job(kReduce)).contains("nic-costs"));
  EXPECT_FALSE(ids(rates + named + job(kReduce)).contains("acks-first"));
  const std::string queue = "[[nic]]\nname = \"n\"\nacks = \"behind_data\"\n";
  EXPECT_TRUE(ids(queue + named + job(kReduce)).contains("acks-first"));
  EXPECT_FALSE(ids(nodes(4) + job(kReduce) + measured(kFrom)).contains("nic-costs"));
  EXPECT_TRUE(ids(nodes(2, 4) + job(kReduce)).contains("intra-node"));
  EXPECT_FALSE(ids(nodes(2) + job(kReduce)).contains("intra-node"));
  EXPECT_FALSE(ids(nodes(2, 4) + job(kReduce) + measured()).contains("intra-node"));
  EXPECT_TRUE(ids(nodes(2, 4) + job(kReduce)).contains("nvls"));
  EXPECT_TRUE(ids(nodes(2, 4) + job("collective = \"all_to_all\"\n")).contains("pxn"));
}

TEST(PredictedValidity, NvlsWhereItIsModelled) {
  const std::string machine = "[nccl]\ngpu = \"hopper\"\nnvls = true\n";
  const Ids own = ids(nodes(2, 4) + job(kReduce + "algorithm = \"auto\"\n") + machine);
  EXPECT_FALSE(own.contains("nvls"));
  EXPECT_TRUE(own.contains("nvswitch"));
  EXPECT_TRUE(ids(nodes(2, 4) + job(kReduce + "algorithm = \"auto\"\n") + machine + measured())
                  .contains("nvswitch"));
  EXPECT_FALSE(ids(nodes(2, 4) + job(kReduce) + machine).contains("nvswitch"));  // a ring
  const Ids gather = ids(nodes(2, 4) + job("collective = \"all_gather\"\n") + machine);
  EXPECT_TRUE(gather.contains("nvls"));
  EXPECT_FALSE(gather.contains("nvswitch"));
}

TEST(PredictedValidity, PxnWhereItIsModelled) {
  const std::string pairs = job("collective = \"all_to_all\"\n");
  EXPECT_TRUE(ids(nodes(2, 4) + pairs + "[nccl]\npxn = false\n").contains("pxn"));
  EXPECT_FALSE(ids(nodes(2, 4) + pairs + "[nccl]\npxn = true\n").contains("pxn"));
}

TEST(PredictedValidity, TheNetwork) {
  EXPECT_EQ(ids(nodes(4) + job(kReduce)),
            (Ids{"gpu-costs", "nic-costs", "no-topology", "closed-form"}));
  EXPECT_EQ(ids(nodes(4) + leaf_spine(1) + job(kReduce)),
            (Ids{"gpu-costs", "nic-costs", "closed-form"}));
  EXPECT_TRUE(ids(nodes(4, 1, "unlimited") + job(kReduce)).contains("unlimited-links"));
  // One node needs no network.
  EXPECT_EQ(ids(nodes(1, 4) + job(kReduce) + measured(kFrom)), (Ids{"calibration", "nvls"}));
}

TEST(PredictedValidity, Contention) {
  const std::string pairs = "collective = \"all_to_all\"\n";
  EXPECT_NE(
      text_of(nodes(8) + leaf_spine(1) + job(pairs), "contention").find("% of the NICs' rate"),
      std::string::npos);
  EXPECT_FALSE(ids(nodes(8) + leaf_spine(1) + job(kReduce)).contains("contention"));
  EXPECT_TRUE(ids(nodes(8) + job("collective = \"gather\"\n")).contains("contention"));
  EXPECT_FALSE(ids(nodes(8) + job("collective = \"scatter\"\n")).contains("contention"));
}

TEST(PredictedValidity, WhatRunsBeside) {
  const std::string reduce = job(kReduce);
  EXPECT_FALSE(ids(nodes(8) + reduce).contains("alone"));
  EXPECT_TRUE(
      ids(nodes(8) + reduce + "[[event]]\nat = \"1ms\"\nlink = \"w1\"\nrate = \"1Gbit/s\"\n")
          .contains("alone"));
  EXPECT_TRUE(ids(nodes(8) + reduce +
                  "[[traffic]]\npattern = \"incast\"\nfrom = [\"w1\"]\nto = \"w0\"\nsize = "
                  "\"1MB\"\n")
                  .contains("alone"));
}

TEST(PredictedValidity, ManyPairsAreNotCounted) {
  const std::string text = "collective = \"all_to_all\"\n";
  EXPECT_TRUE(
      ids(nodes(1100) + leaf_spine(1) + job(text, "\"1100MB\"")).contains("uncounted-links"));
  EXPECT_FALSE(ids(nodes(8) + leaf_spine(1) + job(text)).contains("uncounted-links"));
}

TEST(PredictedValidity, PathsThatTheSeedChooses) {
  const std::string pairs = job("collective = \"all_to_all\"\n");
  const std::string text = nodes(8) + leaf_spine(4) + pairs;
  EXPECT_TRUE(ids(text).contains("one-seed"));
  const auto time = [&](uint64_t seed, const std::string& of) {
    Config config = config_of(of);
    config.seed = seed;
    const Topology topology = build_topology(config).value();
    return predict(config, &topology).value()[0].rows[0].time;
  };
  const std::string ring = nodes(8) + leaf_spine(4) + job(kReduce);
  EXPECT_FALSE(ids(ring).contains("one-seed"));
  std::set<double> drawn, same;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    drawn.insert(time(seed, text));
    same.insert(time(seed, ring));
  }
  EXPECT_GT(drawn.size(), 1u);
  // Which credits meet data on their way is drawn, too: nanoseconds, as in simulate.
  EXPECT_LT(*same.rbegin(), 1.005 * *same.begin());
}

TEST(PredictedValidity, JitterOfIterations) {
  const std::string text = nodes(4) + job(kReduce + "compute = { before = \"10us\" }\n");
  const std::string jitter =
      "jitter = { distribution = \"uniform\", from = \"0us\", to = \"5us\" }\n";
  const auto time = [&](uint64_t seed) {
    Config config = config_of(text + jitter);
    config.seed = seed;
    return predict(config, nullptr).value()[0].iterations[0].time;
  };
  EXPECT_TRUE(ids(text + jitter).contains("one-seed"));
  EXPECT_NE(time(1), time(2));
  EXPECT_FALSE(ids(text).contains("one-seed"));
  // Without iterations the times are those of collectives alone.
  EXPECT_FALSE(ids(nodes(4) + job(kReduce + jitter)).contains("one-seed"));
}

TEST(PredictedValidity, WhereACalibrationComesFrom) {
  const std::string text = nodes(1, 4) + job(kReduce);
  EXPECT_EQ(
      text_of(text + measured(kFrom), "calibration"),
      "costs of GPUs as measured on 2 and 4 GPUs of 1 node, 8 B to 256 MiB (a.txt and b.txt)");
  EXPECT_FALSE(ids(text + measured(kFrom)).contains("extrapolation"));
  EXPECT_TRUE(ids(text + measured()).contains("unknown-origin"));
  EXPECT_FALSE(ids(text + measured(kFrom)).contains("unknown-origin"));
  EXPECT_FALSE(ids(text).contains("unknown-origin"));
}

TEST(PredictedValidity, HowFarItGoesBeyondWhatWasMeasured) {
  const auto beyond = [](const std::string& text) {
    return text_of(text + measured(kFrom), "extrapolation");
  };
  const std::string start = "beyond what [calibration] was measured on: ";
  EXPECT_EQ(beyond(nodes(1, 3) + job(kReduce)), "");
  EXPECT_EQ(beyond(nodes(1, 8) + job(kReduce)), start + "8 GPUs (measured at 2 and 4)");
  EXPECT_EQ(beyond(nodes(2, 2) + job(kReduce)), start + "2 nodes (measured at 1)");
  EXPECT_EQ(beyond(nodes(1, 4) + job(kReduce, "\"4B\", \"1GiB\"")),
            start + "1 GiB (measured up to 256 MiB), 4 B (measured from 8 B on)");
  EXPECT_EQ(beyond(nodes(1, 4) + job("collective = \"broadcast\"\n")),
            start + "broadcast (measured: all_reduce)");
  EXPECT_EQ(beyond(nodes(1, 4) + job(kReduce + "nccl = \"2.30\"\n")),
            start + "NCCL 2.30 (measured: 2.28)");
  EXPECT_EQ(beyond(nodes(1, 4) + "[nccl]\ngpu = \"hopper\"\n" + job(kReduce)),
            start + "hopper (measured: ampere)");
}

// Nothing that is calibrated is measured by them.
TEST(PredictedValidity, SwitchesThatReduceGoBeyondACalibration) {
  const auto beyond = [](const std::string& keys) {
    return text_of(nodes(1, 4) + job(kReduce + keys, "\"1MiB\", \"64MiB\"") +
                       "[nccl]\ngpu = \"hopper\"\nnvls = true\n" + measured(kFrom),
                   "extrapolation");
  };
  EXPECT_EQ(beyond(""), "beyond what [calibration] was measured on: hopper (measured: ampere)");
  EXPECT_EQ(beyond("algorithm = \"nvls\"\n"),
            "beyond what [calibration] was measured on: hopper (measured: ampere), nvls "
            "(measured as ring, tree or pat)");
}

TEST(PredictedValidity, OneLineForJobsThatAreAlike) {
  const std::string other =
      "[[job]]\nname = \"k\"\nranks = [\"w*\"]\nsizes = [\"1MiB\"]\n"
      "collective = \"all_to_all\"\n";
  const std::string text = nodes(8) + leaf_spine(1) + job(kReduce) + other;
  EXPECT_FALSE(text_of(text, "gpu-costs").ends_with(")") &&
               text_of(text, "gpu-costs").find("(job") != std::string::npos);
  EXPECT_TRUE(text_of(text, "contention").ends_with("(job k)"));
}

CalibrationRun fitted(size_t rows) {
  MeasuredTable table;
  table.path = "folder/\"odd\" name.txt";
  for (size_t i = 0; i < rows; ++i) {
    const uint64_t bytes = uint64_t{1024} << i;
    table.rows.push_back({bytes, 20 + static_cast<double>(bytes) / 10e3, 0});
  }
  MeasuredSetup setup;
  setup.version = {20};
  setup.communicator = {4, 1};
  return calibrate({table}, {setup}, {});
}

TEST(Calibration, SaysWhatItWasFittedTo) {
  const CalibrationRun run = fitted(12);
  const Config config =
      config_of(nodes(1, 4) + job(kReduce + "nccl = \"2.20\"\n") + calibration_toml(run));
  ASSERT_EQ(config.calibration_tables.size(), 1u);
  const CalibrationTable& from = config.calibration_tables[0];
  EXPECT_EQ(from.table, "\"odd\" name.txt");
  EXPECT_EQ(from.collective, Collective::kAllReduce);
  EXPECT_EQ(from.nccl, NcclVersion{20});
  EXPECT_EQ(from.ranks, 4u);
  EXPECT_EQ(from.nodes, 1u);
  EXPECT_EQ(from.smallest, 1024u);
  EXPECT_EQ(from.largest, uint64_t{2} << 20);
}

TEST(Calibration, WithoutARowToJudgeItBy) {
  EXPECT_NE(judgement_text(fitted(8), false).find("# doubt: nothing was judged of folder/"),
            std::string::npos);
  EXPECT_EQ(judgement_text(fitted(9), false).find("nothing was judged"), std::string::npos);
}

// A table of H100 is one of NVLS, unless that was turned off.
TEST(Calibration, NamesTablesThatNvlsMayHaveMade) {
  const auto judged = [](GpuGeneration gpu, const char* enable) {
    MeasuredTable table;
    table.path = "t";
    for (const uint64_t mib : {1u, 64u, 1024u}) {
      table.rows.push_back({mib << 20, 20 + static_cast<double>(mib << 20) / 250e3, 0});
    }
    MeasuredSetup setup;
    setup.version = {28};
    setup.communicator = {8, 1};
    setup.system.gpu = gpu;
    EXPECT_TRUE(setup.environment.set("NCCL_NVLS_ENABLE", enable, setup.version));
    return judgement_text(calibrate({table}, {setup}, {}), false);
  };
  const std::string line = "# limit: NCCL may have taken NVLS in t from ";
  EXPECT_NE(judged(GpuGeneration::kHopper, "1").find(line), std::string::npos);
  EXPECT_EQ(judged(GpuGeneration::kHopper, "0").find(line), std::string::npos);
  EXPECT_EQ(judged(GpuGeneration::kAmpere, "1").find(line), std::string::npos);
}

TEST(Calibration, BadOrigins) {
  const auto error = [](const std::string& from) {
    const ConfigResult config =
        load_config_text("format = 1\n" + nodes(2) + measured(from), "p.toml");
    return config ? "" : describe(config.error());
  };
  const std::string good = "table = \"a\", gpu = \"ampere\", nccl = \"2.28\", ranks = 2, ";
  EXPECT_EQ(error("from = [ { " + good + "smallest = \"8B\", largest = \"8B\" } ]\n"), "");
  EXPECT_NE(
      error("from = [ { " + good + "smallest = \"8B\" } ]\n").find("calibration.from.largest"),
      std::string::npos);
  EXPECT_NE(error("from = [ { " + good + "smallest = \"9B\", largest = \"8B\" } ]\n")
                .find("expected at least smallest"),
            std::string::npos);
  EXPECT_NE(error("from = \"a.txt\"\n").find("calibration.from"), std::string::npos);
  EXPECT_NE(error("from = [ { " + good + "nodes = 3, smallest = \"8B\", largest = \"8B\" } ]\n")
                .find("calibration.from.nodes"),
            std::string::npos);
}

}  // namespace
}  // namespace understudy
