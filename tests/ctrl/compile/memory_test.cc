#include "ctrl/compile/checks/memory.h"

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

Config exact(const std::string& sizes, const std::string& payload = "exact") {
  RingText ring;
  ring.job = "payload = \"" + payload + "\"\n";
  ring.sizes = sizes;
  return config_of(ring.text());
}

TEST(Memory, ResultsOfReferenceNodesAreAsLongAsOperations) {
  EXPECT_EQ(bytes_of_results(exact("\"4KiB\", \"2GiB\"")), 2 * kGiB);
  EXPECT_EQ(bytes_of_results(exact("\"2GiB\"", "synthetic")), 0u);
}

TEST(Memory, WhatDoesNotFitIsNamedWithItsLine) {
  const Config config = exact("\"64GiB\"");
  EXPECT_TRUE(check_memory(config, {64 * kGiB}));
  const auto fits = check_memory(config, {2 * kGiB});
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().text,
            config.path + ":" + std::to_string(config.jobs[0].line) +
                ": job.payload: exact results of operations of 64 GiB need 64.0 GiB of memory, and "
                "this machine has 2.0 GiB left: take smaller sizes, or payload = \"synthetic\"");
}

TEST(Memory, WhoseLimitItIsIsSaid) {
  const auto fits = check_memory(exact("\"64GiB\""), {kGiB, "the control group /job"});
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().text.find(
                "need 64.0 GiB of memory, and the control group /job has 1.0 GiB left"),
            std::string::npos);
}

TEST(Memory, AMachineHasSome) {
  EXPECT_GT(memory_left().bytes, 0u);
  EXPECT_LT(memory_left().bytes, uint64_t{1} << 60);
}

}  // namespace
}  // namespace understudy
