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
  EXPECT_TRUE(check_memory(config, 64 * kGiB));
  const auto fits = check_memory(config, 2 * kGiB);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().text,
            config.path + ":" + std::to_string(config.jobs[0].line) +
                ": job.payload: exact results of operations of 64 GiB need 64.0 GiB of memory, and "
                "this machine has 2.0 GiB left: take smaller sizes, or payload = \"synthetic\"");
}

TEST(Memory, AMachineHasSome) {
  EXPECT_GT(bytes_available(), 0u);
  EXPECT_LT(bytes_available(), uint64_t{1} << 60);
}

}  // namespace
}  // namespace understudy
