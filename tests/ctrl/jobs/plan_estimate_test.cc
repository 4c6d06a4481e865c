// The fluid estimate that a plan becomes where it has not the times of packets.
#include "ctrl/jobs/plan_estimate.h"

#include <gtest/gtest.h>

#include "ctrl/compile/modelled_time.h"
#include "ctrl/jobs/job_state.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// A tree of `nodes` on two channels, beside a real node.
std::string text_of(const std::string& job, unsigned nodes = 4, const std::string& more = "") {
  const std::string link = "link = { rate = \"1Gbit/s\", latency = \"1us\" }\n";
  return "format = 1\n" + more + "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n" +
         "[[node]]\nname = \"gpu\"\nreal = true\n" + link +
         "[[node]]\nname = \"w\"\ncount = " + std::to_string(nodes - 1) + "\n" + link +
         "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
         "[[job]]\nname = \"j\"\nranks = [\"gpu\", \"w*\"]\ncollective = \"all_reduce\"\n"
         "channels = 2\n" +
         job;
}

constexpr const char* kTree = "algorithm = \"tree\"\nsizes = [\"64KiB\", \"1MiB\", \"16MiB\"]\n";
constexpr const char* kFlows = "[fabric]\nfidelity = \"flow\"\n";

std::unique_ptr<CollectiveSetup> setup_of(const Config& config) {
  auto setup = build_collective(config, config.jobs[0], true).value();
  setup->plan_holds = false;
  return setup;
}

/// Of all ranks, packet by packet.
std::vector<Duration> by_packets(unsigned nodes) {
  const RunReport report = simulated(config_of(text_of(kTree, nodes)));
  std::vector<Duration> times;
  for (const CollectiveReport& c : report.jobs.at(0).collectives) times.push_back(c.modelled);
  return times;
}

TEST(PlanEstimate, TakesWhatFlowsTake) {
  for (const unsigned nodes : {4U, 7U, 16U}) {
    const Config config = config_of(text_of(kTree, nodes, kFlows));
    const auto setup = setup_of(config);
    const PlanEstimate estimate = plan_estimate(config, config.jobs[0], *setup);
    ASSERT_EQ(estimate.inputs.size(), 3U);
    const auto plan = modelled_times(*setup), fitted = modelled_times(*setup, estimate.inputs);
    const std::vector<Duration> packets = by_packets(nodes);
    std::vector<PlanInput> alone = setup->inputs;  // each message on its NIC
    for (PlanInput& input : alone) {
      for (auto& hops : input.hops) {
        for (Hop& hop : hops) hop.rate = Rate::bits_per_second(1'000'000'000);
      }
    }
    const auto fastest = modelled_times(*setup, alone);
    for (size_t i = 0; i < 3; ++i) {
      const double truth = packets[i].seconds();
      std::printf("%u nodes: packets %.1f us, plan %+.1f %%, estimate %+.1f %%\n", nodes,
                  packets[i].microseconds(), 100 * ((*plan)[i].seconds() / truth - 1),
                  100 * ((*fitted)[i].seconds() / truth - 1));
      EXPECT_LE(truth, (*plan)[i].seconds());
      EXPECT_GE(truth, (*fastest)[i].seconds());
      EXPECT_NEAR((*fitted)[i].seconds(), truth, 0.1 * truth) << nodes << " nodes, size " << i;
      EXPECT_LT(std::abs((*fitted)[i].seconds() - truth), std::abs((*plan)[i].seconds() - truth));
    }
  }
}

TEST(PlanEstimate, SaysBetweenWhatPacketsTake) {
  const Config config = config_of(text_of(kTree, 4, kFlows));
  const PlanEstimate estimate = plan_estimate(config, config.jobs[0], *setup_of(config));
  EXPECT_NE(estimate.doubt.find("fidelity = \"flow\" has no packets; as flows all ranks take "),
            std::string::npos)
      << estimate.doubt;
  EXPECT_NE(estimate.doubt.find("to which the plan's rates are fitted. Packets take "),
            std::string::npos)
      << estimate.doubt;
  EXPECT_NE(estimate.doubt.find(" % off"), std::string::npos) << estimate.doubt;
}

TEST(PlanEstimate, ThePlanThatIsAskedForStaysAsItIs) {
  const Config config = config_of(text_of(std::string(kTree) + "inner = \"times\"\n"));
  const PlanEstimate estimate = plan_estimate(config, config.jobs[0], *setup_of(config));
  EXPECT_TRUE(estimate.inputs.empty());
  EXPECT_NE(estimate.doubt.find(", by the plan "), std::string::npos) << estimate.doubt;
}

TEST(PlanEstimate, NoneWhereThePlanHolds) {
  const Config config = config_of(text_of(kTree));
  const auto setup = build_collective(config, config.jobs[0], true).value();
  const PlanEstimate estimate = plan_estimate(config, config.jobs[0], *setup);
  EXPECT_TRUE(estimate.inputs.empty());
  EXPECT_EQ(estimate.doubt, "");
}

}  // namespace
}  // namespace understudy
