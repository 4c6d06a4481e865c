// What a run in virtual time leaves behind: captures and reports that repeat byte by byte, that
// hold under roce-check, and that do not hold where the run was another one.
#include "ctrl/report/json.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// Slow enough for the link to be the limit, short enough for a test.
RingText slow_ring() {
  RingText ring;
  ring.rate = "100Mbit/s";
  ring.latency = "250us";
  ring.sizes = "\"4KiB\", \"200000B\"";
  ring.job = "iterations = 2\nwarmup = 1\n";
  return ring;
}

struct Leftovers {
  std::string capture, report;
};

Leftovers leftovers(const Config& config) {
  const ScratchFile file("pcapng");
  Leftovers left;
  left.report = report_json(simulated(config, file.path()));
  left.capture = file.bytes();
  return left;
}

TEST(SimulateCapture, RepeatsByteByByte) {
  for (const char* payload : {"synthetic", "exact"}) {
    RingText ring = slow_ring();
    ring.job += std::string("payload = \"") + payload + "\"\nchannels = 2\n";
    ring.more = "[[event]]\nat = \"30ms\"\nlink = \"gpu\"\nrate = \"50Mbit/s\"\n";
    Config config = config_of(ring.text());
    const Leftovers first = leftovers(config), second = leftovers(config);
    EXPECT_GT(first.capture.size(), 400'000u) << payload;
    EXPECT_TRUE(first.capture == second.capture) << payload;
    EXPECT_EQ(first.report, second.report) << payload;
    config.seed += 1;
    const Leftovers other = leftovers(config);
    EXPECT_EQ(other.capture.size(), first.capture.size()) << payload;
    EXPECT_NE(other.report, first.report) << "the seed stands in it";
    // The contents of synthetic payload are free, those of exact payload come from the seed.
    if (payload == std::string("exact")) {
      EXPECT_FALSE(other.capture == first.capture);
    }
  }
}

TEST(SimulateCapture, HoldsUnderItsOwnConfiguration) {
  for (const char* more : {"", "channels = 3\n", "step_cost = \"100us\"\n",
                           "skew = [ { rank = 0, delay = \"5ms\" } ]\n"}) {
    for (const char* control_class : {"shared", "separate"}) {
      RingText ring = slow_ring();
      ring.job += more;
      ring.control_class = control_class;
      const Config config = config_of(ring.text());
      const ScratchFile file("pcapng");
      const VerdictReport verdict = simulated(config, file.path()).verdict;
      // Three channels share each NIC, and a network of switches has no control class of its own.
      const bool times = ring.job.find("channels") != std::string::npos &&
                         ring.control_class == std::string("separate");
      EXPECT_EQ(verdict.faithful, !times);
      EXPECT_EQ(verdict.not_judged, times);
      const Analysis analysis = judged(file.path(), &config);
      expect_holds(analysis);
      EXPECT_EQ(analysis.findings.verdict(Check::kRate), Verdict::kHolds) << more << control_class;
      EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
      EXPECT_EQ(analysis.findings.verdict(Check::kComplete), Verdict::kHolds);
    }
  }
}

/// The capture of `run`, judged by another configuration.
Analysis judged_by(const RingText& judge, const RingText& run) {
  const ScratchFile file("pcapng");
  simulated(config_of(run.text()), file.path());
  const Config config = config_of(judge.text());
  return judged(file.path(), &config);
}

TEST(SimulateCapture, ARateFivePercentTooHighFails) {
  RingText fast = slow_ring();
  fast.rate = "105Mbit/s";
  const Analysis analysis = judged_by(slow_ring(), fast);
  expect_fails(analysis, Check::kRate);
  EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
}

TEST(SimulateCapture, ARateFivePercentTooLowFails) {
  RingText slow = slow_ring();
  slow.rate = "95Mbit/s";
  expect_fails(judged_by(slow_ring(), slow), Check::kRate);
}

TEST(SimulateCapture, NoPacingFails) {
  RingText unpaced = slow_ring();
  unpaced.fabric = "pacing = false\n";
  expect_fails(judged_by(slow_ring(), unpaced), Check::kRate);
  // Not even its own configuration excuses it: it says 100 Mbit/s.
  expect_fails(judged_by(unpaced, unpaced), Check::kRate);
}

TEST(SimulateCapture, AnotherCollectiveFails) {
  RingText larger = slow_ring();
  larger.sizes = "\"4KiB\", \"200016B\"";
  const Analysis analysis = judged_by(slow_ring(), larger);
  expect_fails(analysis, Check::kCollective);
  EXPECT_EQ(analysis.findings.verdict(Check::kRate), Verdict::kHolds);
}

}  // namespace
}  // namespace understudy
