// Measured tables: eight rows of each, chosen by rule, predict the others.
#include "ctrl/predict/calibration_run.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/predict/prediction.h"

namespace understudy {
namespace {

MeasuredTable table_of(const std::string& name) {
  auto table = read_measured(
      std::string(UNDERSTUDY_TEST_DATA) + "/oracle/measured/" + name + "_allreduce.csv", false);
  EXPECT_TRUE(table) << table.error().text();
  return table ? *table : MeasuredTable();
}

MeasuredSetup one_node(GpuGeneration gpu, uint32_t release, uint32_t ranks) {
  MeasuredSetup setup;
  setup.system.gpu = gpu;
  setup.version = {release};
  setup.communicator = {ranks, 1};
  return setup;
}

MeasuredSetup two_nodes() {
  MeasuredSetup setup = one_node(GpuGeneration::kAmpere, 20, 16);
  setup.system.cpu = CpuVendor::kAmd;
  setup.communicator.nodes = 2;
  setup.nics = 16;
  setup.nic_rate = 100e9;
  setup.network = {200e3, 2, 4178.0 / 4096};
  return setup;
}

void expect_within(const JudgedTable& table, double mean, double worst) {
  const std::string text = judgement_text({{}, {table}}, false);
  EXPECT_LE(table.rows.size() - table.others.rows, kCalibrationRows) << text;
  EXPECT_LT(table.others.mean, mean) << text;
  EXPECT_LT(table.others.worst_above_4mib, worst) << text;
  EXPECT_TRUE(table.beyond.empty()) << text;
}

TEST(Calibration, NvlinkTables) {
  for (const auto& [name, gpu, release] :
       {std::tuple{"a100", GpuGeneration::kAmpere, 18u}, {"v100", GpuGeneration::kVolta, 12u}}) {
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      const std::string file = "vtrain_" + std::string(name) + "_" + std::to_string(ranks) + "gpu";
      const CalibrationRun run = calibrate({table_of(file)}, {one_node(gpu, release, ranks)}, {});
      ASSERT_EQ(run.tables.size(), 1u);
      EXPECT_EQ(run.tables[0].rows.size(), 512u);
      expect_within(run.tables[0], 0.03, 0.10);
    }
  }
}

// NCCL does not choose it there, but it can be forced.
TEST(Calibration, Ll128WithoutNvlinkIsFittedToo) {
  MeasuredSetup setup = one_node(GpuGeneration::kAmpere, 18, 8);
  setup.system.intra = IntraLink::kPci;
  setup.protocol = Protocol::kLL128;
  setup.ring = NcclGraph{12, 20, 20};
  const CalibrationRun run = calibrate({table_of("vtrain_a100_8gpu")}, {setup}, {});
  EXPECT_GT(run.calibration.of(Protocol::kLL128).rate, 0);
  EXPECT_LT(run.tables[0].others.mean, 0.1);
}

// So that nobody takes them for measured.
TEST(Calibration, ProtocolsOfNoRowAreMarked) {
  MeasuredSetup setup = one_node(GpuGeneration::kAmpere, 18, 8);
  setup.protocol = Protocol::kSimple;
  const std::string toml = calibration_toml(calibrate({table_of("vtrain_a100_8gpu")}, {setup}, {}));
  const auto line_of = [&](const std::string& key) {
    const size_t at = toml.find("\n" + key + " = {");
    EXPECT_NE(at, std::string::npos) << toml;
    return toml.substr(at + 1, toml.find('\n', at + 1) - at - 1);
  };
  EXPECT_EQ(line_of("simple").find('#'), std::string::npos);
  EXPECT_NE(line_of("ll").find("}  # no row: as usual"), std::string::npos);
  EXPECT_NE(line_of("ll128").find("}  # no row: as usual"), std::string::npos);
}

TEST(Calibration, OtherRowsOfTheTablesDoAsWell) {
  // What is found must not hang on which rows a table happens to have: every third row only.
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    for (size_t first = 0; first < 3; ++first) {
      MeasuredTable table = table_of("vtrain_a100_" + std::to_string(ranks) + "gpu");
      std::vector<MeasuredRow> rows;
      for (size_t i = first; i < table.rows.size(); i += 3) rows.push_back(table.rows[i]);
      table.rows = rows;
      const CalibrationRun run =
          calibrate({table}, {one_node(GpuGeneration::kAmpere, 18, ranks)}, {});
      expect_within(run.tables[0], 0.03, 0.10);
    }
  }
}

TEST(Calibration, OneForTwoFourAndEightGpus) {
  std::vector<MeasuredTable> tables;
  std::vector<MeasuredSetup> setups;
  for (const uint32_t ranks : {2u, 8u}) {
    tables.push_back(table_of("vtrain_a100_" + std::to_string(ranks) + "gpu"));
    setups.push_back(one_node(GpuGeneration::kAmpere, 18, ranks));
  }
  const CalibrationRun run = calibrate(tables, setups, {});
  for (const JudgedTable& table : run.tables) expect_within(table, 0.04, 0.10);
  // A number of GPUs that it has not seen: no row is used, every row is judged.
  const CalibrationRun four = calibrate({table_of("vtrain_a100_4gpu")},
                                        {one_node(GpuGeneration::kAmpere, 18, 4)}, run.calibration);
  EXPECT_EQ(four.tables[0].others.rows, 512u);
  EXPECT_LT(four.tables[0].others.mean, 0.05) << judgement_text(four, false);
  EXPECT_LT(four.tables[0].others.worst_above_4mib, 0.15) << judgement_text(four, false);
}

struct Machine {
  const char* name;
  GpuGeneration gpu;
  uint32_t release;
};
constexpr Machine kMachines[] = {{"a100", GpuGeneration::kAmpere, 18},
                                 {"v100", GpuGeneration::kVolta, 12}};

MeasuredTable table_of(const Machine& machine, uint32_t ranks) {
  return table_of("vtrain_" + std::string(machine.name) + "_" + std::to_string(ranks) + "gpu");
}

TEST(Calibration, FromOneNumberOfGpusToOthers) {
  for (const Machine& machine : kMachines) {
    for (const uint32_t from : {2u, 4u, 8u}) {
      const CalibrationRun run =
          calibrate({table_of(machine, from)}, {one_node(machine.gpu, machine.release, from)}, {});
      for (const uint32_t to : {2u, 4u, 8u}) {
        const CalibrationRun other = calibrate(
            {table_of(machine, to)}, {one_node(machine.gpu, machine.release, to)}, run.calibration);
        const RowErrors& errors = other.tables[0].others;
        EXPECT_EQ(errors.rows, 512u);  // the rows that calibrated are judged as well
        const std::string text = std::string(machine.name) + " from " + std::to_string(from) +
                                 "\n" + judgement_text(other, false);
        EXPECT_LT(errors.mean, from == to ? 0.03 : 0.05) << text;
        EXPECT_LT(errors.worst_above_4mib, from == to ? 0.10 : 0.12) << text;
      }
    }
  }
}

TEST(Calibration, TablesFittedTogetherKeepTheirRings) {
  for (const Machine& machine : kMachines) {
    std::vector<MeasuredTable> tables;
    std::vector<MeasuredSetup> setups;
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      tables.push_back(table_of(machine, ranks));
      setups.push_back(one_node(machine.gpu, machine.release, ranks));
    }
    const CalibrationRun run = calibrate(tables, setups, {});
    const bool mesh = machine.gpu == GpuGeneration::kVolta;
    const uint32_t rings[] = {mesh ? 1u : 12u, mesh ? 4u : 12u, mesh ? 6u : 12u};
    const std::string text = judgement_text(run, false);
    for (size_t i = 0; i < run.tables.size(); ++i) {
      const JudgedTable& table = run.tables[i];
      EXPECT_EQ(table.setup.system.ring.channels, rings[i]);
      EXPECT_EQ(table.used.rows, kCalibrationRows);
      EXPECT_EQ(table.used.rows + table.others.rows, 512u);
      EXPECT_LT(table.others.mean, 0.04) << text;
      EXPECT_LT(table.others.worst_above_4mib, 0.10) << text;
      EXPECT_LT(table.used.mean, 0.05) << text;
      // By the other two tables alone, none of whose rows are its own.
      EXPECT_EQ(table.from_others.rows, 512u);
      EXPECT_LT(table.from_others.mean, 0.05) << text;
      EXPECT_LT(table.from_others.worst_above_4mib, 0.12) << text;
    }
    // What is printed leaves the rings to predict's own search.
    const std::string toml = calibration_toml(run);
    EXPECT_EQ(toml.find("ring = "), std::string::npos) << toml;
    EXPECT_EQ(toml.find("link = ") != std::string::npos, mesh) << toml;
  }
}

TEST(Calibration, RingsThatAreGivenStandInTheSection) {
  MeasuredSetup setup = one_node(GpuGeneration::kAmpere, 18, 8);
  setup.ring = NcclGraph{12, 20, 20};
  const std::string toml = calibration_toml(calibrate({table_of(kMachines[0], 8)}, {setup}, {}));
  EXPECT_NE(toml.find("ring = { channels = 12, intra = \"20GB/s\""), std::string::npos) << toml;
}

TEST(Calibration, BeatsALineBetweenNumbersOfGpus) {
  for (const Machine& machine : kMachines) {
    const MeasuredTable two = table_of(machine, 2), four = table_of(machine, 4),
                        eight = table_of(machine, 8);
    const CalibrationRun run = calibrate(
        {two, eight},
        {one_node(machine.gpu, machine.release, 2), one_node(machine.gpu, machine.release, 8)}, {});
    const CalibrationRun judged =
        calibrate({four}, {one_node(machine.gpu, machine.release, 4)}, run.calibration);
    double line = 0;
    for (size_t i = 0; i < four.rows.size(); ++i) {
      ASSERT_EQ(four.rows[i].bytes, two.rows[i].bytes);
      ASSERT_EQ(four.rows[i].bytes, eight.rows[i].bytes);
      const double time = two.rows[i].time + (eight.rows[i].time - two.rows[i].time) / 3;
      line += std::abs(time / four.rows[i].time - 1) / 512;
    }
    EXPECT_LT(judged.tables[0].others.mean, 0.05);
    EXPECT_GT(line, 2 * judged.tables[0].others.mean) << machine.name << " " << line;
  }
}

/// Mean errors of the rows above 64 MiB, where those up to there calibrate: of the model, and of a
/// line through the two largest rows that were used.
std::pair<double, double> beyond_64mib(const Machine& machine, uint32_t ranks) {
  const auto beyond = [](const MeasuredRow& row) { return row.bytes > 64u << 20; };
  const MeasuredTable all = table_of(machine, ranks);
  MeasuredTable known = all;
  std::erase_if(known.rows, beyond);
  const MeasuredSetup setup = one_node(machine.gpu, machine.release, ranks);
  const CalibrationRun run = calibrate({known}, {setup}, {});
  const CalibrationRun judged = calibrate({all}, {setup}, run.calibration);
  std::vector<MeasuredRow> used;
  for (const JudgedRow& row : run.tables[0].rows) {
    if (row.used) used.push_back(row.measured);
  }
  const MeasuredRow &a = used[used.size() - 2], &b = used.back();
  double line = 0, model = 0;
  size_t rows = 0;
  for (const JudgedRow& row : judged.tables[0].rows) {
    if (!beyond(row.measured)) continue;
    const double share =
        static_cast<double>(row.measured.bytes - a.bytes) / static_cast<double>(b.bytes - a.bytes);
    line += std::abs((a.time + share * (b.time - a.time)) / row.measured.time - 1);
    model += std::abs(row.error);
    ++rows;
  }
  return {model / static_cast<double>(rows), line / static_cast<double>(rows)};
}

TEST(Calibration, BeyondTheSizesThatWereUsed) {
  int better = 0;
  for (const Machine& machine : kMachines) {
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      const auto [model, line] = beyond_64mib(machine, ranks);
      EXPECT_LT(model, 0.08) << machine.name << ranks << ": line " << line;
      better += model <= line ? 1 : 0;
      // calibrate finds the same by itself: 64 MiB is a sixteenth of the largest size.
      const CalibrationRun run = calibrate({table_of(machine, ranks)},
                                           {one_node(machine.gpu, machine.release, ranks)}, {});
      const auto& beyond = run.tables[0].beyond_sizes;
      ASSERT_TRUE(beyond);
      EXPECT_EQ(beyond->from, 64u << 20);
      EXPECT_EQ(beyond->model.rows, 480u);
      EXPECT_NEAR(beyond->model.mean, model, 1e-12);
      EXPECT_NEAR(beyond->line.mean, line, 1e-12);
      const std::string text = judgement_text(run, false);
      EXPECT_NE(text.find("rows above 64 MiB by those up to there: 480"), std::string::npos)
          << text;
      EXPECT_EQ(text.find("beyond the sizes of this table the model") != std::string::npos,
                model <= line)
          << text;
    }
  }
  EXPECT_GE(better, 4);  // of 6
  const auto [model, line] = beyond_64mib(kMachines[0], 4);
  EXPECT_LT(model, line);
  // Of 8 rows up to there none would be left.
  MeasuredTable few = table_of(kMachines[0], 4);
  few.rows.resize(100);
  EXPECT_FALSE(
      calibrate({few}, {one_node(GpuGeneration::kAmpere, 18, 4)}, {}).tables[0].beyond_sizes);
}

/// And the number of its GPUs.
const std::string kNode =
    "format = 1\n[[node]]\nname = \"w\"\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
    "gpus = ";

TEST(Calibration, PredictSaysWhatCalibrateSays) {
  for (const Machine& machine : kMachines) {
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      const CalibrationRun run = calibrate({table_of(machine, ranks)},
                                           {one_node(machine.gpu, machine.release, ranks)}, {});
      const std::string section = calibration_toml(run);
      EXPECT_NE(section.find("own = ["), std::string::npos);
      std::string sizes;
      std::vector<const JudgedRow*> rows;
      for (size_t r = 0; r < run.tables[0].rows.size(); r += 17) {
        rows.push_back(&run.tables[0].rows[r]);
        sizes += "\"" + std::to_string(rows.back()->measured.bytes) + "B\", ";
      }
      const ConfigResult config = load_config_text(
          kNode + std::to_string(ranks) + "\n" + section +
              "[[job]]\nname = \"j\"\nranks = [\"w\"]\ncollective = \"all_reduce\"\n"
              "algorithm = \"auto\"\nprotocol = \"auto\"\nnccl = \"2." +
              std::to_string(machine.release) + "\"\nsizes = [" + sizes + "]\n",
          "p.toml");
      ASSERT_TRUE(config) << describe(config.error()) << section;
      const auto predictions = predict(*config, nullptr);
      ASSERT_TRUE(predictions) << describe(predictions.error());
      ASSERT_EQ(predictions->front().rows.size(), rows.size());
      for (size_t r = 0; r < rows.size(); ++r) {
        const PredictedRow& row = predictions->front().rows[r];
        ASSERT_EQ(row.bytes, rows[r]->measured.bytes);
        const double time = rows[r]->measured.time * (1 + rows[r]->error);
        EXPECT_NEAR(row.time / time, 1, 2e-5) << machine.name << ranks << " " << row.bytes;
      }
    }
  }
}

TEST(Calibration, BadOwnCosts) {
  const auto error = [](const std::string& keys) {
    const ConfigResult config = load_config_text(kNode + "2\n[calibration]\n" + keys, "p.toml");
    return config ? "" : describe(config.error());
  };
  const std::string kind =
      "own = [ { algorithm = \"ring\", protocol = \"simple\", gpu = \"volta\", nccl = \"2.12\", ";
  EXPECT_EQ(error(kind + "ranks = 2, smallest = \"1MiB\", scale = 0.9, offset_us = -2.5 } ]\n"),
            "");
  EXPECT_EQ(error("drift = 0\n"), "");
  for (const auto& [keys, text] : std::vector<std::pair<std::string, std::string>>{
           {"drift = -1\n", "expected a number of steps, 0 or more"},
           {kind + "scale = 1.1 } ]\n", "calibration.own.ranks"},
           {kind + "ranks = 1 } ]\n", "calibration.own.ranks"},
           {kind + "ranks = 2, scale = 0 } ]\n", "expected a share of the time"},
           {kind + "ranks = 2, offset_us = 2e9 } ]\n", "expected microseconds, at most 1e9"},
           {kind + "ranks = 2, offset = 2 } ]\n", "calibration.own.offset"},
           {"own = [ { algorithm = \"auto\", protocol = \"ll\", gpu = \"volta\", nccl = \"2.12\", "
            "ranks = 2 } ]\n",
            "calibration.own.algorithm"},
           {"own = [ { algorithm = \"ring\", gpu = \"volta\", nccl = \"2.12\", ranks = 2 } ]\n",
            "calibration.own.protocol"}}) {
    EXPECT_NE(error(keys).find(text), std::string::npos) << keys << error(keys);
  }
}

TEST(Calibration, SaysWhenInterpolationIsBetter) {
  const auto judged = [](uint32_t ranks) {
    return calibrate({table_of(kMachines[1], ranks)}, {one_node(GpuGeneration::kVolta, 12, ranks)},
                     {});
  };
  const std::string better = "interpolation is the better answer";
  const CalibrationRun run = judged(2);
  const JudgedTable& table = run.tables[0];
  EXPECT_EQ(table.interpolated.rows, table.others.rows);
  EXPECT_GT(table.interpolated.mean, 0);
  EXPECT_LT(table.interpolated.mean, table.others.mean);
  EXPECT_NE(judgement_text(run, false).find(better), std::string::npos);
  // A curve that jumps between two used rows is better known to the model.
  const CalibrationRun eight = judged(8);
  EXPECT_LT(eight.tables[0].others.mean, eight.tables[0].interpolated.mean);
  EXPECT_EQ(judgement_text(eight, false).find(better), std::string::npos);
  CalibrationRun other = run;
  other.tables[0].interpolated.mean = 2 * other.tables[0].others.mean;
  EXPECT_NE(judgement_text(other, false).find("the model is the better answer"), std::string::npos);
  // By hand: 20 where a line from 10 to 20 says 15.
  MeasuredTable three;
  three.rows = {{8, 10, 1}, {16, 20, 2}, {24, 20, 3}};
  EXPECT_EQ(
      calibrate({three}, {one_node(GpuGeneration::kAmpere, 18, 2)}, {}).tables[0].interpolated.rows,
      0u);  // all are used: nothing is judged
}

TEST(Calibration, V100RowsBeyondTheMeshAreNamed) {
  // As behind NVSwitches: two GPUs with six links between them.
  MeasuredTable fast = table_of(kMachines[1], 2);
  for (MeasuredRow& row : fast.rows) row.time /= 5;
  const CalibrationRun run = calibrate({fast}, {one_node(GpuGeneration::kVolta, 12, 2)}, {});
  ASSERT_EQ(run.tables[0].beyond.size(), 1u);
  EXPECT_NE(run.tables[0].beyond[0].find("give --ring"), std::string::npos);
}

TEST(Calibration, TwoNodesOverRoce) {
  const CalibrationRun run = calibrate({table_of("oci_a100_2x8_roce")}, {two_nodes()}, {});
  const JudgedTable& table = run.tables[0];
  EXPECT_EQ(table.rows.size(), 18u);
  expect_within(table, 0.08, 0.20);
  EXPECT_LT(table.others.worst, 0.20);
  std::set<std::pair<Algorithm, Protocol>> ways;
  for (const JudgedRow& row : table.rows) {
    ways.insert({row.row.shape.algorithm, row.row.shape.protocol});
  }
  EXPECT_EQ(ways.size(), 3u);  // switches of protocol are part of it
}

TEST(Calibration, NamesMeasuredRowsBeyondTheLinks) {
  MeasuredSetup ring = two_nodes();
  ring.algorithm = Algorithm::kRing;
  const CalibrationRun run = calibrate({table_of("oci_a100_2x8_roce")}, {ring}, {});
  EXPECT_FALSE(run.tables[0].beyond.empty());
  EXPECT_NE(judgement_text(run, false).find("8589934592 bytes in this time would be"),
            std::string::npos);
}

TEST(MeasuredTable, NcclTestsOutput) {
  const std::string text =
      R"(# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  27 on   node1 device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid  28 on   node2 device  0 [0x15] NVIDIA A100-SXM4-40GB
node1:27:27 [0] NCCL INFO cudaDriverVersion 12020
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          64            16     float     sum      -1    12.50    0.01    0.01      0    11.25    0.01    0.01      0
           8             2     float     sum      -1    12.25    0.00    0.00    N/A    11.00    0.00    0.00    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
)";
  const auto table = parse_measured(text, "out.txt", false);
  ASSERT_TRUE(table) << table.error().text();
  EXPECT_EQ(table->ranks, 2u);
  EXPECT_EQ(table->nodes, 2u);
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].bytes, 8u);
  EXPECT_EQ(table->rows[0].time, 12.25);
  EXPECT_EQ(table->rows[0].line, 12u);
  EXPECT_EQ(parse_measured(text, "out.txt", true)->rows[1].time, 11.25);
}

TEST(MeasuredTable, LinesThatMpirunTagged) {
  const std::string text =
      "[1,0]<stdout>:#  Rank  0 Group  0 Pid  27 on   node1 device  0 [0x0f] NVIDIA A100\n"
      "[1,0]<stdout>: #  Rank  1 Group  0 Pid  28 on   node2 device  0 [0x15] NVIDIA A100\n"
      "[1,1]<stderr>:node2: some warning\n"
      "[1,0]<stdout>:           8             2     float     sum      -1    12.25    0.00    0.00"
      "    N/A    11.00    0.00    0.00    N/A\n";
  const auto table = parse_measured(text, "out.txt", false);
  ASSERT_TRUE(table) << table.error().text();
  EXPECT_EQ(table->ranks, 2u);
  EXPECT_EQ(table->nodes, 2u);
  ASSERT_EQ(table->rows.size(), 1u);
  EXPECT_EQ(table->rows[0].time, 12.25);
  // A log's time stamp in brackets is no such tag.
  EXPECT_FALSE(parse_measured("[1,0]<stdout>\n[12:00] 8 2\n", "out.txt", false));
}

TEST(MeasuredTable, OfRepeatedSizesTheMedianCounts) {
  const auto table = parse_measured(
      "size_bytes,time_out_of_place_us\n8,12\n16,20\n8,90\n8,14\n16,22\n32,5\n", "t.csv", false);
  ASSERT_TRUE(table);
  ASSERT_EQ(table->rows.size(), 3u);
  EXPECT_EQ(table->rows[0].time, 14);
  EXPECT_EQ(table->rows[1].time, 21);
  EXPECT_EQ(table->rows[2].time, 5);
  EXPECT_EQ(table->repeated, 2u);
  MeasuredSetup setup = one_node(GpuGeneration::kAmpere, 20, 2);
  EXPECT_NE(judgement_text(calibrate({*table}, {setup}, {}), false)
                .find("2 sizes were measured more than once: their medians count"),
            std::string::npos);
  EXPECT_EQ(parse_measured("size_bytes,time_out_of_place_us\n8,12\n", "t.csv", false)->repeated,
            0u);
}

TEST(MeasuredTable, BadInput) {
  const auto error = [](const char* text) {
    const auto table = parse_measured(text, "t", false);
    return table ? std::string() : table.error().text();
  };
  EXPECT_EQ(error(""),
            "t: found no row: expected nccl-tests' output, or CSV with a column size_bytes");
  EXPECT_EQ(error("size_bytes,time\n"),
            "t:1: found no column time_out_of_place_us or _ns: expected measured times");
  EXPECT_EQ(error("size_bytes,time_out_of_place_us\n8\n"),
            "t:2: found 1 field(s): expected at least 2");
  EXPECT_EQ(error("size_bytes,time_out_of_place_us\n8,-1\n"),
            "t:2: time: found \"-1\": expected a positive time");
  EXPECT_EQ(error("size_bytes,time_out_of_place_us\nx,1\n"),
            "t:2: size: found \"x\": expected bytes");
  EXPECT_NE(error("8 2 float sum 1.0\n"), "");
}

}  // namespace
}  // namespace understudy
