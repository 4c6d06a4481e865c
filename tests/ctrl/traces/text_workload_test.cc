// Text workloads become the graphs of Chakra's converter, and what is wrong is named with its line.
#include "ctrl/traces/text_workload.h"

#include <gtest/gtest.h>

#include <string>

#include "ctrl/traces/et_file.h"
#include "ctrl/traces/trace_files.h"

namespace understudy {
namespace {

/// The converter's own files lie beside the texts.
TEST(TextWorkload, GraphsAreTheConverters) {
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  const std::string folder = UNDERSTUDY_TEST_DATA "/workloads/et_cases/text_";
  for (const auto& [name, passes] : {std::pair("DLRM_HybridParallel_n4_p1", 1),
                                     {"MLP_HybridParallel_Data_Model_n8_p1", 1},
                                     {"MLP_ModelParallel_n8_p2", 2},
                                     {"Resnet50_DataParallel_n8_p1", 1},
                                     {"microAllReduce_n8_p1", 1}}) {
    SCOPED_TRACE(name);
    const auto text =
        read_traces(folder + name + "/workload.txt", {1, static_cast<uint32_t>(passes)});
    const auto file = read_traces(folder + name + "/et", {});
    ASSERT_TRUE(text && file);
    EXPECT_EQ(text->id_step, file->ranks[1]->nodes()[0].id);
    const TraceGraph& here = *text->ranks[0];
    const TraceGraph& there = *file->ranks[0];
    EXPECT_EQ(here.data().first, there.data().first);
    EXPECT_EQ(here.data().parents, there.data().parents);
    ASSERT_EQ(here.nodes().size(), there.nodes().size());
    for (size_t i = 0; i < here.nodes().size(); ++i) {
      EXPECT_EQ(here.nodes()[i].id, there.nodes()[i].id);
      EXPECT_EQ(here.nodes()[i].kind, there.nodes()[i].kind);
      EXPECT_EQ(here.nodes()[i].duration_us, there.nodes()[i].duration_us);
      EXPECT_EQ(here.nodes()[i].collective, there.nodes()[i].collective);
      EXPECT_EQ(here.nodes()[i].bytes, there.nodes()[i].bytes);
    }
  }
}

TEST(TextWorkload, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& text) {
    const auto graph = read_text_workload(text, "job.txt", 1);
    return graph ? "" : graph.error().text;
  };
  const std::string layer = "a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 64 1\n";
  EXPECT_EQ(error("DATA\n1\n" + layer), "");
  EXPECT_EQ(error("DATA\n\n 1 \n\t" + layer), "");
  EXPECT_EQ(
      error("HYBRID_TRANSFORMER\n1\n" + layer),
      "job.txt:1: the strategy 'HYBRID_TRANSFORMER' is not one that Chakra's converter knows");
  EXPECT_EQ(error("DATA\n2\n" + layer), "job.txt:3: the file ends after 1 of 2 layers");
  EXPECT_EQ(error("DATA\n1\n" + layer + layer),
            "job.txt:4: there are more layers than the second line says (1)");
  EXPECT_EQ(error("DATA\n1\na -1 1 NONE\n"), "job.txt:3: a layer has 12 columns, and this one 4");
  EXPECT_EQ(error("DATA\n1\na -1 1.5 NONE 0 1 NONE 0 1 NONE 0 1\n"),
            "job.txt:3: forward time '1.5' is not a whole number");
  EXPECT_EQ(error("DATA\n1\na -1 1 BROADCAST 0 1 NONE 0 1 NONE 0 1\n"),
            "job.txt:3: the collective 'BROADCAST' is not known");
  EXPECT_EQ(error("DATA\nmany\n"), "job.txt:2: the number of layers 'many' is not a whole number");
  EXPECT_EQ(error("DATA\n0\n"), "job.txt:2: there are no layers");
  EXPECT_EQ(error("HYBRID_DLRM\n1\n" + layer),
            "job.txt:1: HYBRID_DLRM needs the number of its last bottom layer");
  EXPECT_EQ(error("HYBRID_DLRM 0\n1\n" + layer),
            "job.txt:3: HYBRID_DLRM needs an ALLTOALL after the forward of its first layer");
  EXPECT_EQ(error("DATA\n"), "job.txt:1: the number of layers is missing");
}

}  // namespace
}  // namespace understudy
