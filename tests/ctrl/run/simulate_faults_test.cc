// Faults of a configuration in whole runs: the ring's results stay right, the report counts, and
// the capture shows what was on the wire.
#include <gtest/gtest.h>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr char kExact[] = "payload = \"exact\"\niterations = 2\n";

RingText ring(const std::string& faults) {
  RingText text;
  text.rate = "1Gbit/s";
  text.job = kExact;
  text.more = faults;
  return text;
}

uint64_t drops(const RunReport& report, const std::string& reason) {
  for (const auto& [name, count] : report.ports[0].drops) {
    if (name == reason) return count;
  }
  ADD_FAILURE() << "no reason " << reason;
  return 0;
}

void expect_right(const RunReport& report) {
  ASSERT_EQ(report.jobs.size(), 1u);
  EXPECT_FALSE(report.jobs[0].failed);
  ASSERT_EQ(report.jobs[0].collectives.size(), 2u);
  for (const CollectiveReport& c : report.jobs[0].collectives) {
    EXPECT_EQ(c.wrong_elements, 0u);
    EXPECT_EQ(c.size_mismatches, 0u);
  }
}

TEST(SimulateFaults, RingsOverBadLinksAreStillRight) {
  const std::pair<std::string, std::string> cases[] = {
      {"action = \"drop\"\nprobability = 0.01\n", "fault"},
      {"action = \"duplicate\"\nprobability = 0.05\n", ""},
      {"action = \"reorder\"\nbehind = 2\nprobability = 0.01\n", ""},
      {"action = \"delay\"\ndelay = \"50us\"\nprobability = 0.01\n", ""},
      {"action = \"corrupt\"\nprobability = 0.01\n", ""},
      {"action = \"mark_ce\"\nevery = 3\n", ""},
  };
  for (const auto& [keys, reason] : cases) {
    SCOPED_TRACE(keys);
    const RunReport report = simulated(config_of(ring("[[fault]]\n" + keys).text()));
    expect_right(report);
    ASSERT_EQ(report.ports[0].faults.size(), 1u);
    const FaultReport& fault = report.ports[0].faults[0];
    EXPECT_GT(fault.acted, 0u);
    EXPECT_EQ(fault.skipped, 0u);
    if (!reason.empty()) {
      EXPECT_EQ(drops(report, reason), fault.acted);
    }
  }
}

TEST(SimulateFaults, EqualSeedsGiveEqualCaptures) {
  const std::string faults =
      "[[fault]]\naction = \"drop\"\nprobability = 0.01\n"
      "[[fault]]\naction = \"reorder\"\nprobability = 0.01\n";
  Config config = config_of(ring(faults).text());
  const ScratchFile first("a.pcapng"), second("b.pcapng"), other("c.pcapng");
  expect_right(simulated(config, first.path()));
  expect_right(simulated(config, second.path()));
  config.seed = 77;
  expect_right(simulated(config, other.path()));
  EXPECT_EQ(first.bytes(), second.bytes());
  EXPECT_NE(first.bytes(), other.bytes());
}

TEST(SimulateFaults, OneLostPacketCostsOneRepeat) {
  const RunReport clean = simulated(config_of(ring("").text()));
  const RunReport report = simulated(
      config_of(ring("[[fault]]\naction = \"drop\"\npackets = \"write\"\ndirection = \"to_real\"\n"
                     "node = \"w2\"\nqueue_pair = 1\npsn = 20\nround = 1\n")
                    .text()));
  expect_right(clean);
  expect_right(report);
  EXPECT_EQ(report.ports[0].faults[0].acted, 1u);
  EXPECT_GT(report.jobs[0].collectives[0].measured, clean.jobs[0].collectives[0].measured);
}

}  // namespace
}  // namespace understudy
