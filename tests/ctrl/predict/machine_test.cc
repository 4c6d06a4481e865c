// Machine types: a file that names one gives the answers of the file with its figures written out.
#include "ctrl/config/presets/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ctrl/config/read/load.h"
#include "ctrl/predict/prediction.h"
#include "ctrl/report/table.h"
#include "ctrl/topology/topology.h"
#include "tests/ctrl/config/topo_sample.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// The one file that configurations name: eight H100.
tl::expected<std::string, ConfigError> file_of_h100(const std::string& path, size_t) {
  EXPECT_EQ(path, "topo.xml");
  return server(90, 18);
}

Config config_of(const std::string& text) {
  const ConfigResult config = load_config_text(text, "m.toml", file_of_h100);
  EXPECT_TRUE(config) << describe(config.error());
  return config ? *config : Config();
}

std::string errors_of(const std::string& text) {
  const ConfigResult config = load_config_text(text, "m.toml");
  return config ? "" : describe(config.error());
}

std::string predicted(const std::string& text) {
  const Config config = config_of(text);
  const auto topology = build_topology(config);
  EXPECT_TRUE(topology);
  const auto predictions = predict(config, config.topology ? &*topology : nullptr);
  EXPECT_TRUE(predictions);
  return prediction_text(config, *predictions, true);
}

std::string simulated(const std::string& text) {
  const auto report = compile_and_simulate(config_of(text));
  EXPECT_TRUE(report) << report.error().text;
  return report ? report_table(*report) : "";
}

std::string node(const std::string& keys) {
  return "format = 1\n[[node]]\nname = \"w\"\ncount = 2\n" + keys;
}

const std::string kRest =
    "[topology]\nkind = \"single_switch\"\n[[job]]\nname = \"j\"\nranks = [\"w*\"]\n"
    "collective = \"all_reduce\"\nalgorithm = \"auto\"\nprotocol = \"auto\"\n"
    "sizes = [\"64KiB\", \"16MiB\"]\niterations = 1\nwarmup = 0\n";

struct Written {
  const char* machine;
  const char* keys;    ///< of the node
  const char* inside;  ///< gpu_link's rate
  const char* nccl;
};

TEST(Machine, GivesTheAnswersOfItsFiguresWrittenOut) {
  const Written machines[] = {
      {"dgx-a100", "gpus = 8\nnics = 8\nlink = { rate = \"200Gbit/s\", latency = \"1us\" }\n",
       "2400Gbit/s", "gpu = \"ampere\"\ncpu = \"amd\"\n"},
      {"dgx-h100", "gpus = 8\nnics = 8\nlink = { rate = \"400Gbit/s\", latency = \"1us\" }\n",
       "3600Gbit/s", "gpu = \"hopper\"\ncpu = \"intel\"\nnvls = true\n"},
      {"dgx-b200", "gpus = 8\nnics = 8\nlink = { rate = \"400Gbit/s\", latency = \"1us\" }\n",
       "7200Gbit/s", "gpu = \"blackwell\"\ncpu = \"intel\"\nnvls = true\n"},
  };
  for (const Written& m : machines) {
    SCOPED_TRACE(m.machine);
    const std::string named =
        node("machine = \"" + std::string(m.machine) + "\"\nlink = { latency = \"1us\" }\n");
    const auto written = [&](const char* latency) {
      return node(m.keys) + "[intra_node]\ngpu_link = { rate = \"" + m.inside + "\", latency = \"" +
             latency + "\" }\n[nccl]\n" + m.nccl + kRest;
    };
    const std::string with = named + "[intra_node]\ngpu_link = { latency = \"250ns\" }\n" + kRest;
    EXPECT_EQ(predicted(with), predicted(written("250ns")));
    EXPECT_EQ(predicted(named + kRest), predicted(written("0ns")));
    EXPECT_EQ(simulated(with), simulated(written("250ns")));
    EXPECT_NE(predicted(with), predicted(named + kRest));
  }
}

TEST(Machine, AnswersAreThoseOfItsTopologyFile) {
  const std::string rest = "link = { latency = \"1us\" }\n" + kRest;
  const std::string named = node("machine = \"dgx-h100\"\n" + rest);
  const std::string file = node("topo_file = \"topo.xml\"\n" + rest);
  EXPECT_EQ(predicted(file), predicted(named));
  EXPECT_EQ(simulated(file), simulated(named));
  // Boards of which only NICs are left open.
  EXPECT_EQ(predicted(node("machine = \"hgx-h100\"\ntopo_file = \"topo.xml\"\n" + rest)),
            predicted(named));
}

TEST(Machine, AreCompleteButForTheNicsOfBoards) {
  EXPECT_GE(known_machines().size(), 8u);
  for (const Machine& machine : known_machines()) {
    SCOPED_TRACE(machine.name);
    EXPECT_FALSE(machine.source.empty());
    EXPECT_TRUE(machine.gpus && machine.gpu && machine.nvlink && machine.nvls && machine.intra);
    const bool board = machine.name.starts_with("hgx-");
    EXPECT_EQ(machine.nics.has_value(), !board);
    EXPECT_EQ(machine.nic_rate.has_value(), !board);
    const std::string keys = "machine = \"" + machine.name + "\"\n";
    if (!board) {
      EXPECT_EQ(errors_of(node(keys + "link = { latency = \"1us\" }\n")), "");
      continue;
    }
    EXPECT_EQ(
        errors_of(node(keys + "nics = 4\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n")),
        "");
    const std::string errors = errors_of(node(keys + "link = { latency = \"1us\" }\n"));
    EXPECT_NE(errors.find("node.nics"), std::string::npos) << errors;
    EXPECT_NE(errors.find("node.link.rate"), std::string::npos) << errors;
  }
}

TEST(Machine, WhatTheFileSaysHoldsAndIsNoted) {
  const Config config = config_of(node("machine = \"dgx-h100\"\ngpus = 4\nnics = 2\n"
                                       "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n") +
                                  "[nccl]\ngpu = \"ampere\"\n[intra_node]\ngpu_link = { rate = "
                                  "\"1Tbit/s\", latency = \"0ns\" }\n" +
                                  kRest);
  ASSERT_EQ(config.nodes.size(), 2u);
  EXPECT_EQ(config.nodes[0].gpus, 4u);
  EXPECT_EQ(config.nodes[1].nics.size(), 2u);
  EXPECT_EQ(config.nodes[1].nics[1].link_rate, Rate::bits_per_second(100'000'000'000));
  ASSERT_TRUE(config.nccl && config.intra_node && config.intra_node->gpu_link);
  EXPECT_EQ(config.nccl->system.gpu, GpuGeneration::kAmpere);
  EXPECT_FALSE(config.nccl->system.nvls);  // of other GPUs
  EXPECT_EQ(config.intra_node->gpu_link->rate, Rate::bits_per_second(1'000'000'000'000));
  EXPECT_EQ(config.machine_notes.size(), 5u);
  const auto topology = build_topology(config);
  ASSERT_TRUE(topology);
  const auto predictions = predict(config, &*topology);
  ASSERT_TRUE(predictions);
  const std::string text = prediction_text(config, *predictions, false);
  EXPECT_NE(text.find("nics is not dgx-h100's, but as given in the configuration [machine]"),
            std::string::npos)
      << text;
}

TEST(Machine, SameFiguresAreNoNote) {
  const Config config = config_of(node("machine = \"dgx-h100\"\ngpus = 8\nlink = { rate = "
                                       "\"400Gbit/s\", latency = \"1us\" }\n") +
                                  "[nccl]\ngpu = \"hopper\"\nnvls = true\n");
  EXPECT_TRUE(config.machine_notes.empty());
  EXPECT_TRUE(config.nccl->system.nvls);
  EXPECT_FALSE(config.intra_node);  // there is no [topology]
}

TEST(Machine, ThoseThatDifferNeedTheKeyOfAllNodes) {
  const std::string other =
      "[[node]]\nname = \"b\"\nmachine = \"dgx-b200\"\nlink = { latency = \"1us\" }\n";
  const std::string both = node("machine = \"dgx-h100\"\nlink = { latency = \"1us\" }\n") + other;
  EXPECT_EQ(errors_of(both),
            "m.toml:9: node.machine: found \"dgx-b200\": differs from \"dgx-h100\" in line 5, and "
            "[nccl] gpu holds of all nodes: give it\n");
  EXPECT_EQ(errors_of(both + "[nccl]\ngpu = \"hopper\"\n"), "");
  const std::string switched =
      errors_of(both + "[nccl]\ngpu = \"hopper\"\n[topology]\nkind = \"single_switch\"\n");
  EXPECT_NE(switched.find("[intra_node] gpu_link.rate holds of all nodes"), std::string::npos)
      << switched;
  EXPECT_EQ(
      errors_of(both + "[nccl]\ngpu = \"hopper\"\n[topology]\nkind = \"single_switch\"\n"
                       "[intra_node]\ngpu_link = { rate = \"3600Gbit/s\", latency = \"0ns\" }\n"),
      "");
  // Other CPUs are nothing to choose; NVLS wants all NVSwitches to reduce.
  const Config mixed = config_of(node("machine = \"dgx-h100\"\nlink = { latency = \"1us\" }\n") +
                                 "[[node]]\nname = \"a\"\nmachine = \"dgx-a100\"\n"
                                 "link = { latency = \"1us\" }\n[nccl]\ngpu = \"hopper\"\n");
  EXPECT_EQ(mixed.nccl->system.cpu, CpuVendor::kMixed);
  EXPECT_FALSE(mixed.nccl->system.nvls);
}

TEST(Machine, WhatFollowsFromAnUnknownOneIsNotReported) {
  const std::string errors = errors_of(
      node("machine = \"dgx\"\nlink = { latency = \"1us\" }\n") +
      "[topology]\nkind = \"single_switch\"\n[intra_node]\ngpu_link = { latency = \"1us\" }\n");
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  EXPECT_NE(errors.find("node.machine"), std::string::npos) << errors;
}

// Nor what would follow from one GPU on one NIC of unlimited rate, or from another generation of GPUs.
TEST(Machine, WhatUsesAnUnknownOneIsNotReported) {
  const auto lines_of = [](const std::string& rest) {
    const std::string errors = errors_of(
        "format = 1\n[[node]]\nname = \"w\"\nmachine = \"dgx\"\nlink = { latency = "
        "\"1us\" }\n" +
        rest);
    EXPECT_NE(errors.find("node.machine"), std::string::npos) << errors;
    return std::ranges::count(errors, '\n');
  };
  const std::string other = "[[node]]\nname = \"b\"\nmachine = \"dgx-b200\"\n";
  const std::string flow =
      "[[traffic]]\npattern = \"on_off\"\nfrom = \"w\"\nto = \"b\"\non = "
      "\"1us\"\noff = \"1us\"\nrepeat = 2\nnic = 3\n";
  EXPECT_EQ(lines_of("[nccl]\nnvls = true\n"), 1);
  EXPECT_EQ(lines_of("[[job]]\nname = \"j\"\nranks = [\"w\"]\ncollective = \"all_reduce\"\n"
                     "sizes = [\"1MiB\"]\n"),
            1);
  EXPECT_EQ(lines_of(other + "link = { latency = \"1us\" }\n" + flow), 1);
  // What is wrong of other nodes is.
  EXPECT_EQ(lines_of("[[node]]\nname = \"b\"\nlink = { latency = \"1us\" }\n"), 2);
  EXPECT_EQ(lines_of("[[node]]\nname = \"b\"\nmachine = \"hgx-h100\"\nlink = { rate = "
                     "\"1Gbit/s\", latency = \"1us\" }\n"),
            2);
}

TEST(Machine, GpusOfOtherKindsNeedNoSecondErrorOfNvls) {
  const std::string link = "link = { latency = \"1us\" }\n";
  const std::string errors = errors_of(node("machine = \"dgx-h100\"\n" + link) +
                                       "[[node]]\nname = \"b\"\nmachine = \"dgx-b200\"\n" + link +
                                       "[nccl]\nnvls = true\n");
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
}

// Of NVLinks that the file says are not there no rate is taken.
TEST(Machine, WithoutNvlinkItsRateIsNotTaken) {
  const std::string pci = node("machine = \"dgx-h100\"\nlink = { latency = \"1us\" }\n") +
                          "[nccl]\nintra = \"pci\"\n[topology]\nkind = \"single_switch\"\n";
  EXPECT_FALSE(config_of(pci).intra_node);
  const std::string errors = errors_of(pci + "[intra_node]\ngpu_link = { latency = \"1us\" }\n");
  EXPECT_NE(errors.find("m.toml:12: intra_node.gpu_link.rate: found nothing"), std::string::npos)
      << errors;
}

TEST(Machine, UnknownOnesAreSuggested) {
  const std::string errors =
      errors_of(node("machine = \"dgx-h1OO\"\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n"));
  EXPECT_NE(errors.find("m.toml:5: node.machine: found \"dgx-h1OO\""), std::string::npos) << errors;
  EXPECT_NE(errors.find("did you mean \"dgx-h100\""), std::string::npos) << errors;
}

}  // namespace
}  // namespace understudy
