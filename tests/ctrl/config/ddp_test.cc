// [job.ddp]: what it stands for, and what is refused with file and line.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kTimes[] = "forward = \"8ms\"\nbackward = \"16ms\"\noptimizer = \"3ms\"\n";
/// From the last tensor on: a quarter of the work, nothing, and the rest.
constexpr char kTensors[] = "# of a network\nparameters,work\n1000,12\n2000,0\n300,4\n";

std::string job(const std::string& keys) {
  return "format = 1\n[[node]]\nname = \"w\"\ncount = 3\n"
         "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
         "[[job]]\nname = \"step\"\nranks = [\"w*\"]\niterations = 2\n" +
         keys;
}

ConfigResult load(const std::string& text, const std::string& tensors = kTensors) {
  const FileReader reader = [tensors](const std::string& path,
                                      size_t) -> tl::expected<std::string, ConfigError> {
    if (path == "dir/t.csv") return tensors;
    return tl::unexpected(ConfigError{path, 0, "", "", "cannot open"});
  };
  return load_config_text(text, "dir/f.toml", reader);
}

/// With these keys of [job.ddp] and of [[job]].
JobConfig read(const std::string& ddp, const std::string& keys = "") {
  const auto config =
      load(job("collective = \"all_reduce\"\n" + keys + "[job.ddp]\n" + ddp + kTimes));
  if (!config) {
    ADD_FAILURE() << describe(config.error());
    return {};
  }
  return config->jobs.at(0);
}

constexpr char kSmall[] = "tensors = \"t.csv\"\nfirst_bucket = \"1200B\"\nbucket = \"8000B\"\n";

TEST(ConfigDdp, BucketsAreReducedWhenBackwardHasFilledThem) {
  const JobConfig found = read(kSmall);
  EXPECT_EQ(found.sizes, (std::vector<uint64_t>{1200, 8000, 4000}));
  EXPECT_TRUE(found.iteration.whole);
  EXPECT_TRUE(found.iteration.overlap);
  // After forward and 4/16 of backward; the second one needs nothing more.
  EXPECT_EQ(found.iteration.compute,
            (std::vector<Duration>{Duration::ms(12), Duration(), Duration::ms(12)}));
  EXPECT_EQ(found.iteration.beside, Duration());
  EXPECT_EQ(found.iteration.after, Duration::ms(3));
}

TEST(ConfigDdp, TheMapOfUsedParametersFollowsTheLastBucket) {
  const JobConfig found = read(std::string(kSmall) + "find_unused_parameters = true\n");
  ASSERT_EQ(found.sizes.size(), 4u);
  EXPECT_EQ(found.sizes[3], 12u);
  EXPECT_EQ(found.iteration.compute[3], Duration());
}

TEST(ConfigDdp, GradientsOfAnotherTypeTakeTheirOwnBytes) {
  EXPECT_EQ(read("tensors = \"t.csv\"\nfirst_bucket = \"600B\"\nbucket = \"4000B\"\n",
                 "type = \"bfloat16\"\n")
                .sizes,
            (std::vector<uint64_t>{600, 4000, 2000}));
}

TEST(ConfigDdp, AScaleDividesWhatIsReducedAndNothingElse) {
  const JobConfig whole = read(kSmall), scaled = read(std::string(kSmall) + "scale = 7\n");
  EXPECT_EQ(scaled.sizes, (std::vector<uint64_t>{172, 1144, 572}));  // whole elements
  EXPECT_EQ(scaled.iteration.compute, whole.iteration.compute);
}

TEST(ConfigDdp, BucketsOfAPresetAreThoseOfPyTorchsDefaults) {
  const JobConfig found = read("model = \"bert-large\"\nfind_unused_parameters = true\n");
  ASSERT_EQ(found.sizes.size(), 39u);
  EXPECT_EQ(found.sizes[0], 4'206'600u);
  EXPECT_EQ(found.sizes[37], 131'354'624u);
  EXPECT_EQ(found.sizes[38], 393u * 4);
  const auto& compute = found.iteration.compute;
  EXPECT_EQ(std::accumulate(compute.begin(), compute.end(), Duration()), Duration::ms(24));
}

TEST(ConfigDdp, SomeRanksMayTakeLonger) {
  const JobConfig found =
      read(kSmall, "compute = { slow = [ { node = \"w1\", factor = 1.5 } ] }\n");
  EXPECT_EQ(found.iteration.factor, (std::vector<double>{1, 1.5, 1}));
  EXPECT_EQ(found.iteration.compute.size(), 3u);
}

struct Wrong {
  std::string keys, ddp;  ///< of [[job]] without its collective, and of [job.ddp]
  std::string key, words;
};

TEST(ConfigDdp, WhatIsWrongIsNamed) {
  const std::string reduce = "collective = \"all_reduce\"\n", model = "model = \"resnet50\"\n";
  const Wrong cases[] = {
      {"collective = \"all_gather\"\n", model + kTimes, "job.ddp", "gradients of replicas"},
      {reduce + "sizes = [\"1KiB\"]\n", model + kTimes, "job.sizes", "leave it out"},
      {reduce + "order = \"size\"\n", model + kTimes, "job.order", "leave it out"},
      {reduce + "group = false\n", model + kTimes, "job.group", "leave it out"},
      {reduce + "compute = { before = \"1ms\" }\n", model + kTimes, "job.compute.before",
       "ddp says what is computed"},
      {reduce + "compute = { after = \"1ms\" }\n", model + kTimes, "job.compute.after",
       "ddp says what is computed"},
      {reduce, "model = \"resnet\"\n" + std::string(kTimes), "job.ddp.model", "resnet50"},
      {reduce, kTimes, "job.ddp.model", "missing"},
      {reduce, model + "tensors = \"t.csv\"\n" + kTimes, "job.ddp.tensors", "either"},
      {reduce, model + "backward = \"1ms\"\n", "job.ddp.forward", "missing"},
      {reduce, model + "forward = \"1ms\"\n", "job.ddp.backward", "missing"},
      {reduce, model + "scale = 0\n" + kTimes, "job.ddp.scale", "0"},
      {reduce, model + "bucketsize = \"1MiB\"\n" + kTimes, "job.ddp.bucketsize", "unknown"},
      {reduce, model + "forward = \"20h\"\nbackward = \"1ms\"\n", "job.ddp.forward", "h"},
      {reduce, model + "forward = \"80000s\"\nbackward = \"1ms\"\n", "job.ddp", "86400s"}};
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.keys + wrong.ddp);
    const auto config = load(job(wrong.keys + "[job.ddp]\n" + wrong.ddp));
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().size(), 1u) << describe(config.error());
    EXPECT_EQ(config.error()[0].key, wrong.key);
    EXPECT_EQ(config.error()[0].file, "dir/f.toml");
    EXPECT_NE(config.error()[0].text().find(wrong.words), std::string::npos)
        << describe(config.error());
  }
}

TEST(ConfigDdp, WhatIsWrongInTheListOfTensorsIsNamed) {
  const std::pair<std::string, unsigned> cases[] = {{"tensors\n1\n", 1},
                                                    {"parameters,work,more\n", 1},
                                                    {"parameters\n1\n0\n", 3},
                                                    {"parameters\n1,2\n", 2},
                                                    {"parameters,work\n1\n", 2},
                                                    {"parameters,work\n1,-1\n", 2},
                                                    {"parameters,work\n1,nan\n", 2},
                                                    {"parameters\n1.5\n", 2},
                                                    {"parameters\n", 2},
                                                    {"", 1}};
  for (const auto& [text, line] : cases) {
    SCOPED_TRACE(text);
    const auto config = load(
        job("collective = \"all_reduce\"\n[job.ddp]\ntensors = \"t.csv\"\n" + std::string(kTimes)),
        text);
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().size(), 1u) << describe(config.error());
    EXPECT_EQ(config.error()[0].file, "dir/t.csv");
    EXPECT_EQ(config.error()[0].line, line);
  }
}

}  // namespace
}  // namespace understudy
