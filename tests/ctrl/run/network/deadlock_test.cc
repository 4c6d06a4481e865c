// A deadlock ends a run with the cycle of paused links, whether a real node takes part in it or
// not.
#include <gtest/gtest.h>

#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// A ring of four routers in which everybody sends two places on, the real node as a rank: w1 is
/// its successor.
std::string ring_of_routers(const std::string& port_keys, const std::string& pfc) {
  std::string text = RingText{.more =
                                  "[topology]\nkind = \"torus\"\ndims = [4]\n"
                                  "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
                                  "[queues]\nbuffer = \"16MB\"\n[[queues.class]]\npfc = { " +
                                  pfc + ", headroom = \"auto\" }\n"}
                         .text();
  const auto change = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  change("ranks = [\"gpu\", \"w*\"]", "ranks = [\"gpu\", \"w1\", \"w0\", \"w2\"]\nchannels = 4");
  change("sizes = [\"1MiB\"]", "sizes = [\"32MiB\"]");
  change("device = \"virtual\"\n", "device = \"virtual\"\n" + port_keys);
  const std::string nodes[] = {"gpu", "w0", "w1", "w2"};
  for (unsigned i = 0; i < 4; ++i) {
    const auto node = [&](unsigned k) { return nodes[(i + k) % 4]; };
    text += "[[topology.route]]\nfrom = \"" + node(0) + "\"\nto = \"" + node(2) + "\"\nvia = [";
    for (unsigned k = 0; k < 3; ++k) text += (k == 0 ? "\"" : ", \"") + node(k) + "/router\"";
    text += "]\n";
  }
  return text +
         "[[traffic]]\npattern = \"flow\"\nfrom = [\"w0\", \"w1\", \"w2\"]\n"
         "to = [\"w2\", \"gpu\", \"w0\"]\nsize = \"50MB\"\n";
}

constexpr const char* kSmall = "xoff = \"20KB\", xon = \"15KB\"";
constexpr const char* kCycle[] = {"w2/router -> gpu/router", "gpu/router -> w0/router",
                                  "w0/router -> w1/router", "w1/router -> w2/router"};

void expect_named(const std::string& error) {
  EXPECT_NE(error.find("deadlock, each of these links is paused by the switch behind it:\n"),
            std::string::npos)
      << error;
  for (const char* link : kCycle) EXPECT_NE(error.find(link), std::string::npos) << error;
}

// rules: A8.1
TEST(SimulateDeadlock, WithARealNodeInItTheCycleIsNamed) {
  for (const char* pfc : {"pfc = true\n", "pfc = false\n"}) {
    const auto report = compile_and_simulate(config_of(ring_of_routers(pfc, kSmall)));
    ASSERT_FALSE(report) << pfc;
    EXPECT_EQ(report.error().text.rfind("test.toml: deadlock", 0), 0u);
    expect_named(report.error().text);
  }
}

// Samples end too: some milliseconds of them, not until the last of its timers, minutes later.
TEST(SimulateDeadlock, EndsTimeSeries) {
  const ScratchFile csv("series.csv");
  SimulateOptions options;
  options.series.path = csv.path();
  const auto report =
      compile_and_simulate(config_of(ring_of_routers("pfc = true\n", kSmall)), options);
  ASSERT_FALSE(report);
  expect_named(report.error().text);
  EXPECT_GT(csv.bytes().size(), 10'000u);
  EXPECT_LT(csv.bytes().size(), 10'000'000u);
}

TEST(SimulateDeadlock, WithRoomEnoughThereIsNone) {
  const RunReport report =
      simulated(config_of(ring_of_routers("pfc = true\n", "xoff = \"8MB\", xon = \"7MB\"")));
  EXPECT_TRUE(report.verdict.faithful);
  EXPECT_TRUE(report.traffic->deadlock.empty());
}

}  // namespace
}  // namespace understudy
