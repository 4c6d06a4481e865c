// Iterations in closed form, against the same packet by packet.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/predict/prediction.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

Config job(const std::string& keys) {
  return load_config_text(
             "format = 1\n[[node]]\nname = \"w\"\ncount = 6\n"
             "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n"
             "[[job]]\nname = \"step\"\ncollective = \"all_reduce\"\nranks = [\"w*\"]\n"
             "sizes = [\"4MiB\", \"8MiB\", \"4MiB\", \"1MiB\"]\niterations = 3\n" +
                 keys,
             "f")
      .value();
}

TEST(PredictIteration, IsWhatPacketsTake) {
  const std::string step = "order = \"iteration\"\n";
  const std::string times =
      "compute = { before = [\"5ms\", \"3ms\", \"200us\", \"50us\"], after = \"1ms\"";
  const std::string skew = "skew = [ { rank = 2, delay = \"1ms\" } ]\n";
  const std::string jitter =
      "jitter = { distribution = \"uniform\", from = \"0us\", to = \"2ms\" }\n";
  for (const std::string& keys :
       {step, step + times + " }\n", step + times + ", overlap = true }\n", step + skew,
        step + times + ", overlap = true, slow = [ { rank = 1, factor = 1.3 } ] }\n" + skew,
        step + jitter + times + ", overlap = true, beside = \"300us\" }\n",
        step + "injected_delay = \"2ms\"\ninterval = \"1ms\"\n" + times + " }\n"}) {
    const Config config = job(keys);
    const auto predicted = predict(config, nullptr);
    const auto report = compile_and_simulate(config);
    ASSERT_TRUE(predicted && report) << keys;
    ASSERT_EQ(predicted->at(0).iterations.size(), 1u);
    const PredictedIteration& p = predicted->at(0).iterations[0];
    double time = 0, compute = 0, exposed = 0;
    uint32_t operations = 4;
    for (const IterationReport& i : report->traffic->jobs[0].iterations) {
      time += i.mean.microseconds() / 3;
      compute += i.compute.microseconds() / 3;
      exposed += i.exposed.microseconds() / 3;
      operations = std::min(operations, i.exposed_operations);
    }
    EXPECT_EQ(p.operations, 4u);
    EXPECT_EQ(p.bytes, 17u << 20);
    EXPECT_NEAR(p.compute, compute, 1e-3) << keys;
    EXPECT_NEAR(p.time, time, 0.01 * time) << keys;
    EXPECT_NEAR(p.exposed, exposed, 0.01 * time) << keys;
    EXPECT_EQ(p.exposed_operations, operations) << keys;
  }
}

TEST(PredictIteration, EachSizeHasItsOwn) {
  const Config config = job("compute = { before = [\"1ms\", \"2ms\", \"3ms\", \"4ms\"] }\n");
  const auto predicted = predict(config, nullptr);
  ASSERT_TRUE(predicted);
  const Prediction& p = predicted->at(0);
  ASSERT_EQ(p.iterations.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(p.iterations[i].bytes, p.rows[i].bytes);
    EXPECT_NEAR(p.iterations[i].exposed, p.rows[i].time, 1e-5);
    EXPECT_NEAR(p.iterations[i].compute, 1000.0 * static_cast<double>(i + 1), 1e-6);
  }
}

}  // namespace
}  // namespace understudy
