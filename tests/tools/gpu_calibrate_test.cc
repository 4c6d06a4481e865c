// gpu_calibrate without a GPU: constants from times that are known, and the section that it writes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "tools/gpu_calibrate/cost.h"

namespace understudy {
namespace {

std::vector<SliceTime> times_of(double fixed, double round, double rate, uint32_t threads) {
  const uint64_t pass = simple_pass(threads);
  std::vector<SliceTime> times;
  for (const uint64_t bytes : {pass / 8, pass / 2, pass, 2 * pass, 4 * pass, 8 * pass, 16 * pass}) {
    const double passes = static_cast<double>((bytes + pass - 1) / pass);
    const double moved = rate > 0 ? static_cast<double>(bytes) / rate / 1000 : 0;
    times.push_back({bytes, fixed + round * passes + moved});
  }
  return times;
}

TEST(GpuCalibrate, FindsTheConstantsThatTimesWereMadeOf) {
  const StepCost cost = fit_simple(times_of(0.7, 1.5, 12, 512), 512);
  EXPECT_NEAR(cost.fixed, 0.7, 1e-6);
  EXPECT_NEAR(cost.round, 1.5, 1e-6);
  EXPECT_NEAR(cost.rate, 12, 1e-4);
}

TEST(GpuCalibrate, ConstantsAreNeverNegative) {
  // A rate without limit: 0, as the section's default.
  const StepCost unlimited = fit_simple(times_of(0.2, 2, 0, 480), 480);
  EXPECT_NEAR(unlimited.round, 2, 1e-6);
  EXPECT_EQ(unlimited.rate, 0);
  auto noisy = times_of(0, 1, 0, 512);
  for (size_t i = 0; i < noisy.size(); ++i) noisy[i].us *= 1.1 - 0.03 * static_cast<double>(i);
  const StepCost cost = fit_simple(noisy, 512);
  EXPECT_GE(cost.fixed, 0);
  EXPECT_GE(cost.round, 0);
  EXPECT_GE(cost.rate, 0);
}

TEST(GpuCalibrate, LinesCostAPassOrTheirRate) {
  const std::vector<SliceTime> times = {{4096, 1.25}, {32768, 16.384}};
  const StepCost cost = fit_lines(times);
  EXPECT_DOUBLE_EQ(cost.round, 1.25);
  EXPECT_DOUBLE_EQ(cost.rate, 2);
}

TEST(GpuCalibrate, ConfigurationsTakeTheSection) {
  GpuCosts costs;
  costs.gpu = "NVIDIA H100 80GB HBM3, compute capability 9.0, 132 multiprocessors; 8 channels";
  costs.launch = 2.4123456;
  costs.simple = {1.0 / 3, 12.3456789, 0.25};
  costs.ll = {0.9, 2, 0};
  costs.ll128 = {1e-3, 0, 0};
  costs.message = {1 << 20, 71.0};
  const std::string toml = calibration_toml(costs);
  EXPECT_NE(toml.find("step_cost = \"71.0000us\""), std::string::npos) << toml;
  const auto config = load_config_text("format = 1\n" + toml + R"(
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "w"
count = 2
link = { rate = "100Gbit/s", latency = "1us" }
)",
                                       "calibration.toml");
  ASSERT_TRUE(config) << config.error().front().text() << toml;
  ASSERT_TRUE(config->calibration);
  EXPECT_NEAR(config->calibration->launch, 2.412, 1e-3);
  EXPECT_NEAR(config->calibration->of(Protocol::kSimple).round, 0.3333, 1e-3);
  EXPECT_NEAR(config->calibration->of(Protocol::kSimple).rate, 12.35, 0.01);
  EXPECT_NEAR(config->calibration->of(Protocol::kLL128).round, 1e-3, 1e-6);
  EXPECT_EQ(config->calibration->of(Protocol::kLL128).rate, 0);
}

}  // namespace
}  // namespace understudy
