// Execution traces in virtual time: packet by packet, as rates and by closed forms, side by side; what
// is refused. The traces are text workloads and the feeder's JSON, written here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/predict/trace_prediction.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// A folder with traces, which goes with it.
class Folder {
 public:
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            ("understudy_traces_" + std::string(test->name()) + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

struct Nodes {
  unsigned count = 4, gpus = 2, nics = 2;
  std::string more = {};
};

std::string text_of(const std::string& workload, const Nodes& nodes) {
  return "format = 1\n[workload]\n" + workload +
         "\n[[node]]\nname = \"n\"\ncount = " + std::to_string(nodes.count) +
         "\ngpus = " + std::to_string(nodes.gpus) + "\nnics = " + std::to_string(nodes.nics) +
         "\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
         "[intra_node]\ngpu_link = { rate = \"2400Gbit/s\", latency = \"500ns\" }\n"
         "[topology]\nkind = \"single_switch\"\n" +
         nodes.more;
}

Config config_of(const std::string& workload, const Nodes& nodes, FabricFidelity fidelity) {
  auto config = load_config_text(text_of(workload, nodes), "job.toml");
  EXPECT_TRUE(config) << describe(config.error());
  config->fabric.fidelity = fidelity;
  return std::move(*config);
}

TraceReport simulated(const std::string& workload, const Nodes& nodes, FabricFidelity fidelity) {
  const auto report = compile_and_simulate(config_of(workload, nodes, fidelity));
  EXPECT_TRUE(report) << report.error().text;
  if (!report) return {};
  EXPECT_TRUE(report->traffic && report->traffic->traces);
  return *report->traffic->traces;
}

TracePrediction predicted(const std::string& workload, const Nodes& nodes) {
  const Config config = config_of(workload, nodes, FabricFidelity::kPacket);
  const auto topology = build_topology(config);
  EXPECT_TRUE(topology);
  const auto prediction = predict_traces(config, *topology);
  EXPECT_TRUE(prediction) << prediction.error().text;
  return prediction ? *prediction : TracePrediction();
}

double ms(const TraceReport& report) { return (report.finish() - Time::zero()).seconds() * 1e3; }

std::string layers(const std::string& strategy, const std::string& collective, unsigned bytes) {
  std::string text = strategy + "\n3\n";
  for (int layer = 0; layer < 3; ++layer) {
    const std::string operation = "\t" + collective + "\t" + std::to_string(bytes) + "\t";
    text += "layer" + std::to_string(layer) + "\t-1\t100" + operation + "100" + operation + "100" +
            operation + "10\n";
  }
  return text;
}

/// Every rank the same: rings of all GPUs, and all pairs.
TEST(TracesOnNetworks, PacketsRatesAndClosedFormsAgree) {
  const Folder folder;
  for (const Nodes& nodes : {Nodes{4, 2, 2}, Nodes{8, 1, 1}, Nodes{2, 4, 2}}) {
    for (const char* collective : {"ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL"}) {
      for (const char* rules : {"streams", "feeder1", "feeder3"}) {
        SCOPED_TRACE(std::string(collective) + " " + rules + " " + std::to_string(nodes.count));
        const std::string file = folder.write("work.txt", layers("MODEL", collective, 4'000'000));
        const std::string workload = "traces = \"" + file + "\"\nrules = \"" + rules + "\"\n";
        const TraceReport packets = simulated(workload, nodes, FabricFidelity::kPacket);
        const TraceReport rates = simulated(workload, nodes, FabricFidelity::kFlow);
        const TracePrediction closed = predicted(workload, nodes);
        EXPECT_EQ(packets.source, "packet");
        EXPECT_EQ(rates.source, "flow");
        EXPECT_EQ(closed.report.source, "closed form");
        ASSERT_EQ(packets.ranks.size(), 8U);
        EXPECT_EQ(packets.ranks[7].computed, closed.report.ranks[7].computed);
        EXPECT_GT(ms(packets), 0.9);
        EXPECT_NEAR(ms(rates) / ms(packets), 1, 0.03);
        EXPECT_NEAR(ms(closed.report) / ms(packets), 1, 0.06);
        ASSERT_EQ(packets.operations.size(), rates.operations.size());
        EXPECT_EQ(packets.operations[0].count, closed.report.operations[0].count);
      }
    }
  }
}

std::string node(int id, const std::string& what, const std::string& after, int us = 0,
                 const std::string& more = "") {
  return std::string(id > 0 ? ",\n" : "") + "{\"Id\": " + std::to_string(id) +
         ", \"Name\": \"n\", \"NodeType\": " + what +
         ", \"is_cpu_op\": false, \"runtime\": " + std::to_string(us) + ", \"data_deps\": [" +
         after + "], \"ctrlDeps\": []" + more + "}";
}

/// Two groups whose rings cross the same NICs at one time: closed forms do not know of each other, and say
/// so; rates and packets do.
TEST(TracesOnNetworks, ClosedFormsSayThatOperationsContend) {
  const Folder folder;
  const auto collective = [](const std::string& bytes) {
    return ", \"comm_type\": 0, \"comm_size\": " + bytes;
  };
  // Feeder's JSON has no group: all ranks. The text of one rank sends to its neighbour meanwhile.
  const auto rank = [&](int self) {
    const int peer = self ^ 1;
    const std::string message = ", \"comm_size\": 20000000, \"comm_tag\": 1, ";
    return "{\"workload_graph\": [" + node(0, "7", "", 0, collective("20000000")) +
           node(1, "5", "", 0, message + "\"comm_dst\": " + std::to_string(peer)) +
           node(2, "6", "", 0, message + "\"comm_src\": " + std::to_string(peer)) +
           node(3, "4", "0, 1, 2", 50) + "]}";
  };
  std::string prefix;
  for (int i = 0; i < 4; ++i) {
    prefix = folder.write("et." + std::to_string(i) + ".json", rank(i));
  }
  prefix = prefix.substr(0, prefix.size() - 7);
  const std::string workload = "traces = \"" + prefix + "\"\n";
  const Nodes nodes{4, 1, 1};
  const TraceReport packets = simulated(workload, nodes, FabricFidelity::kPacket);
  const TraceReport rates = simulated(workload, nodes, FabricFidelity::kFlow);
  const TracePrediction closed = predicted(workload, nodes);
  EXPECT_NEAR(ms(rates) / ms(packets), 1, 0.03);
  EXPECT_LT(ms(closed.report), ms(packets) * 0.8);
  EXPECT_GT(closed.contended, 0.4);
  const Config config = config_of(workload, nodes, FabricFidelity::kPacket);
  const auto lines = trace_validity(config, *build_topology(config), closed);
  EXPECT_TRUE(std::ranges::any_of(lines, [](const ValidityLine& line) {
    return line.id == "contention" && line.kind == ValidityKind::kDoubt;
  }));
  ASSERT_EQ(packets.operations.size(), 2U);
  EXPECT_EQ(packets.operations[0].what, "message");
  EXPECT_EQ(packets.operations[0].count, 4U);
  EXPECT_EQ(packets.operations[1].what, "all-reduce");
}

/// Which GPU is slow shows in who waits.
TEST(TracesOnNetworks, SlowNodesComputeLonger) {
  const Folder folder;
  const std::string file = folder.write("work.txt", layers("MODEL", "ALLREDUCE", 1000));
  const std::string workload = "traces = \"" + file + "\"\n";
  const Nodes nodes{4, 2, 2};
  const TraceReport even = simulated(workload, nodes, FabricFidelity::kFlow);
  const TraceReport slow =
      simulated(workload + "slow = { n1 = 2 }\n", nodes, FabricFidelity::kFlow);
  EXPECT_EQ(slow.ranks[3].computed, even.ranks[3].computed * 2);
  EXPECT_EQ(slow.ranks[4].computed, even.ranks[4].computed);
  EXPECT_NEAR(ms(slow) / ms(even), 2, 0.1);
}

TEST(TracesOnNetworks, WithinOneNodeNothingCrossesTheNetwork) {
  const Folder folder;
  const std::string file = folder.write("work.txt", layers("MODEL", "ALLREDUCE", 1000));
  const std::string workload = "traces = \"" + file + "\"\n";
  const Nodes nodes{1, 8, 8};
  const TraceReport packets = simulated(workload, nodes, FabricFidelity::kPacket);
  EXPECT_EQ(packets.source, "closed form");
  EXPECT_EQ(ms(packets), ms(predicted(workload, nodes).report));
}

TEST(TracesOnNetworks, WhatCannotBeIsSaid) {
  const Folder folder;
  const std::string file = folder.write("work.txt", layers("MODEL", "ALLREDUCE", 1000));
  const std::string traces = "traces = \"" + file + "\"\n";
  const auto error_of = [](const std::string& workload, const Nodes& nodes = {}) {
    const auto config = load_config_text(text_of(workload, nodes), "job.toml");
    if (!config) return describe(config.error());
    const auto report = compile_and_simulate(*config);
    return report ? std::string() : report.error().text;
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(error_of(traces), "");
  expect(error_of("rules = \"feeder3\"\n"), "job.toml:2: workload.traces");
  expect(error_of("traces = \"nothing/here\"\n"), "nothing/here: there is no such file");
  expect(error_of(traces + "ranks = 9\n"),
         "job.toml:2: workload: 9 ranks need 5 nodes of 2 GPUs; there are 4");
  expect(error_of(traces + "dimensions = [2, 3]\n"),
         "job.toml:2: workload.dimensions: together they have 6 ranks; there are 8");
  expect(error_of(traces + "dimensions = [2, 0]\n"), "job.toml:4: workload.dimensions");
  expect(error_of(traces + "rules = \"feeder2\"\n"), "feeder1");
  expect(error_of(traces + "slow = { n9 = 2 }\n"), "n9");
  expect(error_of(traces + "ranks = 4\nslow = { n3 = 2 }\n"),
         "workload.slow: node \"n3\" has no rank: there are 4");
  expect(error_of(traces + "ranks = 3\n"),
         "job.toml:2: workload: all ranks has 2 of its ranks on the first of its nodes and 1 on "
         "another one");
  expect(error_of(traces, {4, 2, 2,
                           "[model]\nlayers = 2\nhidden = 64\nheads = 2\nvocabulary = 128\n"
                           "sequence = 16\n[parallel]\ndp = 2\n[gpu]\npreset = \"a100\"\n"}),
         "job.toml:2: workload: with [model]");
  const std::string cycle = folder.write(
      "cycle.json", "{\"workload_graph\": [" + node(0, "4", "1", 5) + node(1, "4", "0", 5) + "]}");
  expect(error_of("traces = \"" + cycle + "\"\n"), "nodes wait for each other");
}

}  // namespace
}  // namespace understudy
