// SimAI's own results (tests/data/workloads/simai) against this project's estimate of the same files.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "collective_model/simai/estimate.h"
#include "ctrl/simai/compute_times.h"
#include "ctrl/simai/ratio_files.h"
#include "ctrl/simai/simai_file.h"

namespace understudy {
namespace {

const std::string kFolder = UNDERSTUDY_TEST_DATA "/workloads/simai/";

nlohmann::json cases() {
  std::ifstream in(kFolder + "results.json");
  return nlohmann::json::parse(in).at("cases");
}

SimaiFile file_of(const std::string& name, std::optional<uint32_t> gpus = {}) {
  auto file = read_simai(kFolder + name, gpus);
  EXPECT_TRUE(file) << (file ? "" : file.error().text());
  return file ? *std::move(file) : SimaiFile{};
}

SimaiCluster cluster_of(const nlohmann::json& one, bool ratios) {
  SimaiCluster cluster;
  cluster.nvlink = one.at("nvlink_busbw_GBps");
  cluster.nic = one.at("nic_busbw_GBps");
  cluster.gpus_per_node = one.at("gpus_per_server");
  cluster.nics_per_node = one.at("nics_per_server");
  if (ratios) cluster.ratios = read_ratios(kFolder.substr(0, kFolder.size() - 1)).value();
  return cluster;
}

std::map<std::string, double> components(const SimaiEstimate& e) {
  return {{"Expose DP comm", e.dp_us},  {"Expose DP_EP comm", e.dp_ep_us},
          {"Expose TP comm", e.tp_us},  {"Expose_EP_comm", e.ep_us},
          {"Expose_PP_comm", e.pp_us},  {"bubble time", e.bubble_us},
          {"total comp", e.compute_us}, {"total exposed comm", e.exposed_us()},
          {"Total time", e.total_us()}};
}

TEST(SimaiResults, EveryComponentWithinAMicrosecond) {
  size_t seen = 0;
  for (const auto& one : cases()) {
    const std::string name = one.at("workload");
    const SimaiFile file = file_of(name, one.at("gpus").get<uint32_t>());
    const auto estimate = simai_estimate(file.workload, cluster_of(one, true));
    ASSERT_TRUE(estimate) << estimate.error().text;
    for (const auto& [component, us] : components(*estimate)) {
      EXPECT_NEAR(us, one.at("summary").at(component).get<double>(), 1)
          << name << ": " << component;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 4u * 9);
}

TEST(SimaiResults, LayersOfEachFile) {
  for (const auto& one : cases()) {
    const std::string name = one.at("workload");
    const SimaiFile file = file_of(name, one.at("gpus").get<uint32_t>());
    const auto estimate = simai_estimate(file.workload, cluster_of(one, true));
    ASSERT_TRUE(estimate) << estimate.error().text;
    const auto& rows = one.at("first_layers");
    ASSERT_GE(rows.size(), 12u);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto cell = [&](size_t at) { return std::stod(rows[i][at].get<std::string>()); };
      const SimaiLayer& layer = file.workload.layers[i];
      EXPECT_EQ(layer.name, rows[i][0].get<std::string>());
      EXPECT_NEAR(static_cast<double>(layer.forward.compute_ns) / 1000, cell(2), 0.51);
      EXPECT_NEAR(estimate->layers[i].forward / 1000, cell(8), 0.51) << name << i;
      EXPECT_NEAR(estimate->layers[i].weight_gradient / 1000, cell(11), 0.51) << name << i;
      EXPECT_NEAR(estimate->layers[i].input_gradient / 1000, cell(14), 0.51) << name << i;
    }
  }
}

TEST(SimaiResults, WithoutRatiosOnlyWhatHasNoneIsTheSame) {
  for (const auto& one : cases()) {
    const std::string name = one.at("workload");
    const SimaiFile file = file_of(name);
    const auto estimate = simai_estimate(file.workload, cluster_of(one, false));
    ASSERT_TRUE(estimate) << estimate.error().text;
    EXPECT_NEAR(estimate->dp_us, one.at("summary").at("Expose DP comm").get<double>(), 1) << name;
    const double tp = one.at("summary").at("Expose TP comm");
    if (name.find("nosp") != std::string::npos) {
      EXPECT_NEAR(estimate->tp_us, tp, 1) << name;
    } else {
      EXPECT_LT(estimate->tp_us, 0.99 * tp) << name;
    }
  }
}

TEST(SimaiResults, ShippedFilesWithOldHeaders) {
  const SimaiFile zero3 = file_of("shipped_old_header_llama7b_zero3.txt", 64);
  EXPECT_EQ(zero3.workload.layers.size(), 12u);
  SimaiCluster cluster;
  cluster.nvlink = 200;
  cluster.nic = 24.5;
  const auto lone = simai_estimate(zero3.workload, cluster);
  ASSERT_TRUE(lone) << lone.error().text;
  EXPECT_EQ(lone->lone_tensor, 0u);  // its all-gathers are below 1 MiB
  EXPECT_GT(lone->dp_us, 0);
  const SimaiFile gpt = file_of("shipped_old_header_gpt13b_tp8_sp.txt", 64);
  const auto estimate = simai_estimate(gpt.workload, cluster);
  ASSERT_TRUE(estimate) << estimate.error().text;
  EXPECT_EQ(estimate->broadcasts, 1u);
  EXPECT_GT(estimate->tp_us, 0);
  EXPECT_EQ(gpt.notes.size(), 1u);
}

/// AICB writes the times of its table into a list; the table gives them to a list without.
TEST(SimaiResults, ComputeTimesAreThoseThatAicbWrites) {
  const AiobTimes times = read_aiob(kFolder + "aiob_compute_table.txt").value();
  EXPECT_EQ(times.attention, 1'820'000u);
  EXPECT_EQ(times.network, 2'478'000u);
  for (const char* name : {"gpt13b_tp4_nosp_aiob.txt", "mixtral8x7b_tp2_ep8_sp.txt"}) {
    const SimaiWorkload written = file_of(name).workload;
    SimaiWorkload given = written;
    for (SimaiLayer& layer : given.layers) {
      const bool ends =
          layer.name.starts_with("cross_entropy") || layer.name.starts_with("optimizer");
      for (SimaiPass* pass : {&layer.forward, &layer.input_gradient, &layer.weight_gradient}) {
        pass->compute_ns = ends ? 0 : 1;  // as without a table
      }
    }
    ASSERT_TRUE(give_times(times, given));
    for (size_t i = 0; i < written.layers.size(); ++i) {
      const SimaiLayer &want = written.layers[i], &got = given.layers[i];
      ASSERT_EQ(got.forward.compute_ns, want.forward.compute_ns) << name << i << want.name;
      ASSERT_EQ(got.input_gradient.compute_ns, want.input_gradient.compute_ns) << name << i;
      ASSERT_EQ(got.weight_gradient.compute_ns, want.weight_gradient.compute_ns) << name << i;
    }
  }
}

TEST(SimaiResults, ComputeTimesSayWhatTheyLack) {
  const auto lacks = [](const std::string& text) {
    const auto times = parse_aiob(text, "t.txt");
    return times ? "" : times.error().text();
  };
  EXPECT_NE(lacks("").find("no time of attention"), std::string::npos);
  EXPECT_NE(lacks("atten:\n  time_gpu_avg: 5\nmlp:\n  time_gpu_avg: 5\n").find("no time of Emb"),
            std::string::npos);
  EXPECT_EQ(lacks("atten:\n  time_gpu_avg: soon\n").find("t.txt:2: atten.time_gpu_avg: "), 0u);
  const AiobTimes times = read_aiob(kFolder + "aiob_compute_table.txt").value();
  SimaiWorkload workload;
  workload.layers.resize(1);
  workload.layers[0].name = "micro_test";
  EXPECT_FALSE(give_times(times, workload));
  workload.layers[0].name = "attention_q_column";
  EXPECT_NE(give_times(times, workload).error().text.find("attention_q_column"), std::string::npos);
}

}  // namespace
}  // namespace understudy
