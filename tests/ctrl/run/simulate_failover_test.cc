// NCCL's port failover and recovery in `simulate`: a reference rank and emulated ones, each with two
// NICs that NCCL takes for one, and a cable that goes down.
#include <string>

#include "ctrl/compile/scenario.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/pcap_frames.h"

namespace understudy {
namespace {

struct Cut {
  std::string node = "gpu", nic = "1", at = "3ms", lasts = {};
  unsigned minor = 30;
  bool recovery = false;
  unsigned ranks = 4;
  std::string job = "iterations = 6\n", more = {}, outcome = "recovers_within = \"1000s\"";
};

std::string environment_of(const Cut& cut) {
  return "[nccl]\nenvironment = { NCCL_IB_TIMEOUT = \"12\", NCCL_IB_RESILIENCY_PORT_FAILOVER = "
         "\"1\"" +
         std::string(cut.recovery ? ", NCCL_IB_RESILIENCY_PORT_RECOVERY = \"1\"" : "") + " }\n";
}

/// A queue pair gives up after 8 times 16.8 ms.
std::string text_of(const Cut& cut) {
  const std::string nics = "nics = 2\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  return "format = 1\n[fabric]\nmtu = 4096\n" + environment_of(cut) +
         "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[prefix]]\nnic = 1\nv4 = \"10.10.0.0/24\"\n"
         "[[node]]\nname = \"gpu\"\nreal = true\n" +
         nics + "[[node]]\nname = \"w\"\ncount = " + std::to_string(cut.ranks - 1) + "\n" + nics +
         "[[port]]\nreal = \"gpu\"\nnic = 0\ndevice = \"virtual\"\n"
         "[[port]]\nreal = \"gpu\"\nnic = 1\ndevice = \"virtual\"\n"
         "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 8\nspines = 1\n"
         "uplink = { rate = \"40Gbit/s\", latency = \"1us\" }\n"
         "[queues]\nbuffer = \"4MB\"\n[flows]\ntimeout = \"17ms\"\n"
         "[[job]]\nname = \"ring\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n"
         "ranks = [\"gpu\", \"" +
         (cut.ranks > 2 ? "w*" : "w") + "\"]\nmerged_nics = 2\nnccl = \"2." +
         std::to_string(cut.minor) + "\"\nsizes = [\"1MiB\"]\npayload = \"exact\"\n" + cut.job +
         cut.more + "[[drill]]\nname = \"cut\"\n" + cut.outcome + "\n[[drill.event]]\nat = \"" +
         cut.at + "\"\nnode = \"" + cut.node + "\"\nnic = " + cut.nic + "\naction = \"down\"\n" +
         (cut.lasts.empty() ? "" : "for = \"" + cut.lasts + "\"\n");
}

/// All operations end, and every element is right.
const FailoverReport& expect_survived(const RunReport& report) {
  static const FailoverReport none;
  const JobReport& job = report.jobs.at(0);
  EXPECT_TRUE(report.drills.at(0).passed) << report.drills[0].text;
  EXPECT_FALSE(job.failed);
  EXPECT_EQ(job.collectives.size(), job.planned);
  EXPECT_EQ(job.violations, 0u);
  for (const CollectiveReport& operation : job.collectives) {
    EXPECT_EQ(operation.wrong_elements, 0u);
    EXPECT_EQ(operation.size_mismatches, 0u);
  }
  EXPECT_TRUE(job.failover.has_value());
  return job.failover ? *job.failover : none;
}

TEST(SimulateFailover, ANicThatIsLostForEver) {
  for (const unsigned minor : {29u, 30u}) {
    for (const std::string node : {"gpu", "w0", "w1", "w2"}) {
      for (const std::string nic : {"0", "1"}) {
        SCOPED_TRACE("2." + std::to_string(minor) + " " + node + " NIC " + nic);
        Cut cut{.node = node, .nic = nic, .minor = minor};
        const RunReport report = simulated(config_of(text_of(cut)));
        const FailoverReport& f = expect_survived(report);
        EXPECT_GT(f.failed, 0u);
        EXPECT_GT(f.repeated, 0u);
        EXPECT_EQ(f.recovered, 0u);
      }
    }
  }
}

/// Between two ranks there are no messages among emulated ones.
TEST(SimulateFailover, OfTwoRanks) {
  const RunReport report = simulated(config_of(text_of({.at = "1ms", .ranks = 2})));
  const FailoverReport& f = expect_survived(report);
  EXPECT_GT(f.failed, 0u);
  EXPECT_GT(f.probes, 0u);
}

/// Each credit asks for an acknowledgement, and nothing else takes the links' time.
TEST(SimulateFailover, CostsAcknowledgementsWhileNothingFails) {
  Cut cut{.at = "900s"};
  const RunReport on = simulated(config_of(text_of(cut)));
  std::string text = text_of(cut);
  const std::string environment = environment_of(cut);
  text.erase(text.find(environment), environment.size());
  const RunReport off = simulated(config_of(text));
  ASSERT_EQ(on.jobs[0].collectives.size(), off.jobs[0].collectives.size());
  for (size_t i = 0; i < on.jobs[0].collectives.size(); ++i) {
    const Duration less = off.jobs[0].collectives[i].measured;
    EXPECT_GE(on.jobs[0].collectives[i].measured, less);
    EXPECT_LT(on.jobs[0].collectives[i].measured - less, less / 200);
    EXPECT_EQ(on.jobs[0].collectives[i].wrong_elements, 0u);
  }
  EXPECT_EQ(on.jobs[0].failover.value_or(FailoverReport{.failed = 1}).failed, 0u);
  EXPECT_FALSE(off.jobs[0].failover.has_value());
}

/// An outage of 1 s, and the device is used again: later operations take as long as the first one. Its queue pairs begin anew.
TEST(SimulateFailover, RecoveryBringsTheNicBack) {
  const std::string job = "iterations = 30\ninterval = \"500ms\"\n";
  Cut cut{.at = "600ms", .lasts = "1s", .recovery = true, .ranks = 2, .job = job};
  const ScratchFile capture("pcapng");
  const Config config = config_of(text_of(cut));
  const RunReport report = simulated(config, capture.path());
  const Analysis analysis = judged(capture.path(), &config);
  expect_holds(analysis);
  EXPECT_GT(analysis.findings.notes(Check::kOrder).size(), 0u);
  const FailoverReport& f = expect_survived(report);
  EXPECT_GT(f.failed, 0u);
  EXPECT_EQ(f.recovered, f.failed);
  EXPECT_EQ(f.lost, 0u);
  const auto& all = report.jobs[0].collectives;
  EXPECT_EQ(all.back().node_reported, all.front().node_reported);
  cut.recovery = false;
  const RunReport without = simulated(config_of(text_of(cut)));
  expect_survived(without);
  const auto& slow = without.jobs[0].collectives;
  EXPECT_GT(2 * slow.back().node_reported->ps(), 3 * slow.front().node_reported->ps());
}

/// The other NIC fails, too: the end, by name.
TEST(SimulateFailover, ASecondNicIsTheEnd) {
  Cut cut{.at = "1ms", .ranks = 2, .outcome = "reports_within = \"10s\""};
  std::string text = text_of(cut);
  text += "[[drill.event]]\nat = \"1.5ms\"\nnode = \"gpu\"\nnic = 0\naction = \"down\"\n";
  const RunReport report = simulated(config_of(text));
  EXPECT_TRUE(report.jobs[0].failed);
  EXPECT_TRUE(report.drills[0].passed) << report.drills[0].text;
}

TEST(SimulateFailover, IsRefusedWhereNobodyPlaysIt) {
  const auto refused = [](const std::string& text) {
    const Config config = config_of(text);
    const auto scenario = compile_scenario({.config = config}, RunClock::kVirtual, {});
    return scenario ? "" : scenario.error().text;
  };
  EXPECT_NE(refused(text_of({.minor = 28})).find("NCCL_IB_RESILIENCY_PORT_FAILOVER: found 1"),
            std::string::npos)
      << refused(text_of({.minor = 28}));
  EXPECT_NE(refused(text_of({.minor = 29, .recovery = true})).find("that is there from 2.30 on"),
            std::string::npos);
  EXPECT_EQ(refused(text_of({})), "");
}

}  // namespace
}  // namespace understudy
