// AICB's text: variants of the header, and what is wrong with a file.
#include "ctrl/simai/simai_file.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

const std::string kHeader =
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 3 vpp: 5 ga: 6 "
    "all_gpus: 48 checkpoints: 0 checkpoint_initiates: 0 ";
const std::string kLayer =
    "mlp_moelayer\t-1\t 11\tALLTOALL_EP\t22   33\tALLGATHER 44\t 55\tREDUCESCATTER_DP_EP\t66\t7\n";

SimaiFile good(const std::string& text, std::optional<uint32_t> gpus = {}) {
  auto file = parse_simai(text, "f.txt", gpus);
  EXPECT_TRUE(file) << (file ? "" : file.error().text());
  return file ? *std::move(file) : SimaiFile{};
}

std::string bad(const std::string& text) {
  const auto file = parse_simai(text, "f.txt");
  EXPECT_FALSE(file);
  return file ? "" : file.error().text();
}

TEST(SimaiFile, HeaderAndLayer) {
  for (const char* message : {"pp_comm: 6291456", "pp_comm 6291456.0", "pp_comm: 6291456.9"}) {
    const SimaiFile file = good(kHeader + message + "\r\n1\r\n\n" + kLayer);
    const SimaiParallel& p = file.workload.parallel;
    EXPECT_EQ(p.tp, 2u);
    EXPECT_EQ(p.ep, 4u);
    EXPECT_EQ(p.pp, 3u);
    EXPECT_EQ(p.vpp, 5u);
    EXPECT_EQ(p.ga, 6u);
    EXPECT_EQ(p.gpus, 48u);
    EXPECT_EQ(p.dp(), 8u);
    EXPECT_EQ(p.pp_bytes, 6291456u);
    EXPECT_TRUE(file.notes.empty());
    ASSERT_EQ(file.workload.layers.size(), 1u);
    const SimaiLayer& layer = file.workload.layers[0];
    EXPECT_EQ(layer.name, "mlp_moelayer");
    EXPECT_EQ(layer.forward.compute_ns, 11u);
    EXPECT_EQ(layer.forward.collective, SimaiCollective::kAllToAll);
    EXPECT_EQ(layer.forward.group, SimaiGroup::kExpert);
    EXPECT_EQ(layer.forward.bytes, 22u);
    EXPECT_EQ(layer.input_gradient.compute_ns, 33u);
    EXPECT_EQ(layer.input_gradient.group, SimaiGroup::kTensor);
    EXPECT_EQ(layer.weight_gradient.collective, SimaiCollective::kReduceScatter);
    EXPECT_EQ(layer.weight_gradient.group, SimaiGroup::kExpertData);
    EXPECT_EQ(layer.weight_gradient.bytes, 66u);
  }
  EXPECT_EQ(good(kHeader + "\n1\n" + kLayer, 96).workload.parallel.gpus, 96u);
}

TEST(SimaiFile, WeightGradientsWithoutASuffixAreOfDataParallelism) {
  const SimaiFile file =
      good(kHeader + "\n1\nl -1 0 ALLREDUCE 1e3 0 NONE 0 0 ALLREDUCE 16777216.0 1\n");
  EXPECT_EQ(file.workload.layers[0].forward.group, SimaiGroup::kTensor);
  EXPECT_EQ(file.workload.layers[0].forward.bytes, 1000u);
  EXPECT_EQ(file.workload.layers[0].weight_gradient.group, SimaiGroup::kData);
  EXPECT_EQ(file.workload.layers[0].weight_gradient.bytes, 16777216u);
}

TEST(SimaiFile, OldHeadersNeedTheirGpusAndAreSaid) {
  const std::string old =
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 8 checkpoints: 0\n1\n" + kLayer;
  EXPECT_EQ(bad(old).find("f.txt:1: all_gpus: "), 0u) << bad(old);
  EXPECT_NE(bad(old).find("lacks ep, pp, vpp, ga, all_gpus"), std::string::npos) << bad(old);
  const SimaiFile file = good(old, 32);
  EXPECT_EQ(file.workload.parallel.dp(), 4u);
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_NE(file.notes[0].find("SimAI's result of such a file is empty"), std::string::npos);
}

TEST(SimaiFile, WhatIsLeftOutIsSaid) {
  const SimaiFile file = good(kHeader + "etp: 2\n1\n" + kLayer + "\n" + kLayer, 50);
  EXPECT_EQ(file.workload.layers.size(), 1u);
  ASSERT_EQ(file.notes.size(), 3u);
  EXPECT_NE(file.notes[0].find("etp is not known"), std::string::npos);
  EXPECT_NE(file.notes[1].find("6 does not divide 50 GPUs"), std::string::npos);
  EXPECT_NE(file.notes[2].find("1 line(s) behind the 1 layers"), std::string::npos);
}

TEST(SimaiFile, BadInputNamesLineAndField) {
  const auto expect = [](const std::string& text, const std::string& start) {
    EXPECT_EQ(bad(text).find("f.txt:" + start), 0u) << bad(text);
  };
  expect("", "1: ");
  expect("MICRO\n1\n" + kLayer, "1: ");
  expect("HYBRID_TRANSFORMER_FWD_IN_BCKWD\n1\n" + kLayer, "1: model_parallel_NPU_group: ");
  expect("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group:\n1\n",
         "1: model_parallel_NPU_group: ");
  expect("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 0\n1\n",
         "1: model_parallel_NPU_group: ");
  expect(kHeader + "pp_comm: -1\n1\n" + kLayer, "1: pp_comm: ");
  expect(kHeader + "pp: 99\n1\n" + kLayer, "1: all_gpus: ");
  expect(kHeader + "checkpoints: 2\n1\n" + kLayer, "1: checkpoints: ");
  expect(kHeader, "2: layers: ");
  expect(kHeader + "\nmany\n" + kLayer, "2: layers: ");
  expect(kHeader + "\n0\n" + kLayer, "2: layers: ");
  expect(kHeader + "\n2\n" + kLayer, "2: layers: ");
  expect(kHeader + "\n1\nname -1 1 NONE 0\n", "3: ");
  const auto with = [](const std::string& from, const std::string& to) {
    std::string layer = kLayer;
    layer.replace(layer.find(from), from.size(), to);
    return kHeader + "\n2\n" + kLayer + layer;
  };
  expect(with("-1", "x"), "4: dependency: ");
  expect(with(" 11", " 11x"), "4: fwd_time: ");
  expect(with("ALLTOALL_EP", "ALLTOALL_TP"), "4: fwd_coll: ");
  expect(with("22", "-22"), "4: fwd_bytes: ");
  expect(with("33", "nan"), "4: ig_time: ");
  expect(with("ALLGATHER", "GATHER"), "4: ig_coll: ");
  expect(with("44", "1e40"), "4: ig_bytes: ");
  expect(with("\t7", "\tseven"), "4: update_time: ");
}

TEST(SimaiFile, UnreadableFiles) {
  EXPECT_EQ(read_simai("/no/such/file").error().text().find("/no/such/file: cannot open"), 0u)
      << read_simai("/no/such/file").error().text();
  EXPECT_FALSE(read_simai("/"));
}

}  // namespace
}  // namespace understudy
