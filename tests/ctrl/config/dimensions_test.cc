// A job's algorithm for each dimension of a stack, and [dimension_costs].
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

std::string text(const std::string& algorithm, const std::string& more = "",
                 const std::string& collective = "all_reduce",
                 const std::string& kind = "fully_connected") {
  return "format = 1\n[[node]]\nname = \"w\"\ncount = 24\n"
         "link = { rate = \"10Tbit/s\", latency = \"0ns\" }\n"
         "[topology]\nkind = \"dimensions\"\ndimensions = [\n"
         "{ kind = \"ring\", size = 4, link = { rate = \"400Gbit/s\", latency = \"50ns\" } },\n"
         "{ kind = \"" +
         kind +
         "\", size = 6, link = { rate = \"100Gbit/s\", latency = \"1us\" } } ]\n"
         "[[job]]\nname = \"j\"\nranks = [\"w*\"]\nsizes = [\"96KiB\"]\n"
         "collective = \"" +
         collective + "\"\nalgorithm = " + algorithm + "\n" + more;
}

std::string errors_of(const std::string& config) {
  const ConfigResult result = load_config_text(config, "f");
  return result ? "" : describe(result.error());
}

TEST(ConfigDimensions, ListOfAlgorithms) {
  const ConfigResult config = load_config_text(
      text("[\"ring\", \"direct\"]",
           "splits = 4\n[dimension_costs]\nendpoint = \"10ns\"\nmemory = \"12800Gbit/s\"\n"
           "store_and_forward = true\nshared_links = false\nrounding = \"1ns\"\n"),
      "f");
  ASSERT_TRUE(config) << describe(config.error());
  const JobConfig& job = config->jobs.at(0);
  ASSERT_EQ(job.dimensions.size(), 2u);
  EXPECT_EQ(job.dimensions[0].kind, DimensionKind::kRing);
  EXPECT_EQ(job.dimensions[0].algorithm, DimensionAlgorithm::kRing);
  EXPECT_EQ(job.dimensions[1].kind, DimensionKind::kFullyConnected);
  EXPECT_EQ(job.dimensions[1].size, 6u);
  EXPECT_EQ(job.dimensions[1].latency, Duration::us(1));
  EXPECT_EQ(job.dimensions[1].algorithm, DimensionAlgorithm::kDirect);
  EXPECT_EQ(job.splits, 4u);
  EXPECT_EQ(config->dimension_costs.endpoint, Duration::ns(10));
  EXPECT_EQ(config->dimension_costs.memory.bps(), 12'800'000'000'000u);
  EXPECT_TRUE(config->dimension_costs.store_and_forward);
  EXPECT_FALSE(config->dimension_costs.shared_links);
  EXPECT_EQ(config->dimension_costs.rounding, Duration::ns(1));
}

TEST(ConfigDimensions, SizesThatRanksDoNotDivide) {
  for (const std::string collective : {"reduce_scatter", "all_to_all", "all_reduce"}) {
    std::string odd = text("[\"ring\", \"ring\"]", "type = \"uint8\"\n", collective);
    odd.replace(odd.find("96KiB"), 5, "1001B");
    EXPECT_EQ(errors_of(odd), "") << collective;
  }
  // An all-gather has a part of each rank; and by NCCL's schedules every rank gets a part.
  std::string parts = text("[\"ring\", \"ring\"]", "type = \"uint8\"\n", "all_gather");
  parts.replace(parts.find("96KiB"), 5, "1001B");
  EXPECT_NE(errors_of(parts).find("a size must be a multiple of 24 bytes"), std::string::npos);
  std::string nccl = text("\"ring\"", "type = \"uint8\"\n", "reduce_scatter");
  nccl.replace(nccl.find("96KiB"), 5, "1001B");
  EXPECT_NE(errors_of(nccl).find("a size must be a multiple of 24 bytes"), std::string::npos);
}

TEST(ConfigDimensions, MemoryIsFasterThanLinks) {
  const auto memory = [](const std::string& rate) {
    return text("[\"ring\", \"ring\"]", "[dimension_costs]\nmemory = \"" + rate + "\"\n");
  };
  const ConfigResult config = load_config_text(memory("4000Tbit/s"), "f");
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_EQ(config->dimension_costs.memory.bps(), 4'000'000'000'000'000u);
  EXPECT_EQ(errors_of(memory("1000000Tbit/s")), "");
  EXPECT_EQ(errors_of(memory("unlimited")), "");
  EXPECT_NE(errors_of(memory("1000001Tbit/s")).find("the most is 1000000Tbit/s"),
            std::string::npos);
  // Links stay what they were.
  std::string link = memory("4000Tbit/s");
  link.replace(link.find("10Tbit/s"), 8, "4000Tbit/s");
  EXPECT_NE(errors_of(link).find("the most is 1000Tbit/s"), std::string::npos);
}

TEST(ConfigDimensions, WhatIsWrongIsNamed) {
  EXPECT_EQ(errors_of(text("[\"ring\"]")),
            "f:16: job.algorithm: found 1 texts: expected one for each of the 2 dimensions of the "
            "[topology], the innermost first\n");
  EXPECT_EQ(errors_of(text("[\"direct\", \"ring\"]")),
            "f:16: job.algorithm: found \"direct\": on a ring only \"ring\" has neighbours alone; "
            "dimension 0 has 4 ranks\n");
  EXPECT_EQ(
      errors_of(text("[\"ring\", \"halving_doubling\"]")),
      "f:16: job.algorithm: found \"halving_doubling\": \"halving_doubling\" needs a power of "
      "two of ranks; dimension 1 has 6 ranks\n");
  EXPECT_NE(errors_of(text("[\"ring\", \"rign\"]")).find("did you mean \"ring\""),
            std::string::npos);
  EXPECT_NE(errors_of(text("[\"ring\", \"ring\"]", "", "broadcast")).find("broadcast does not"),
            std::string::npos);
  EXPECT_EQ(errors_of(text("\"ring\"", "splits = 2\n")),
            "f:17: job.splits: found 2: chunks go through dimensions: it needs a list as "
            "algorithm\n");
  EXPECT_NE(errors_of(text("[\"ring\", \"ring\"]", "[dimension_costs]\nrounding = \"0ns\"\n"))
                .find("f:18: dimension_costs.rounding"),
            std::string::npos);
  std::string some = text("[\"ring\", \"ring\"]");
  some.replace(some.find("\"w*\""), 4, "\"w0\", \"w1\"");
  EXPECT_NE(errors_of(some).find("job.ranks: found 2 nodes: by dimensions go all 24 nodes"),
            std::string::npos);
  std::string torus = text("[\"ring\", \"ring\"]");
  torus.replace(torus.find("[topology]"), torus.find("[[job]]") - torus.find("[topology]"),
                "[topology]\nkind = \"single_switch\"\n");
  EXPECT_NE(errors_of(torus).find("is for [topology] kind = \"dimensions\""), std::string::npos);
}

}  // namespace
}  // namespace understudy
