// Joined jobs with NCCL's port failover on (docs/nccl 3.15): the set-up with reference ranks, and what
// becomes of a device of theirs that fails. Each end knows of the other what came over TCP, no more.
#include "tests/ctrl/nccl_virtual/port_parts.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/nccl_virtual/virtual_job.h"

namespace understudy::nccl_rank {
namespace {

struct Failover {
  unsigned minor = 30, real = 2, emulated = 2;
  bool recovery = false;
  std::string collective = "all_reduce", more = {};
};

std::string environment(bool recovery) {
  return "[nccl]\nenvironment = { NCCL_IB_TIMEOUT = \"12\", NCCL_IB_RESILIENCY_PORT_FAILOVER = "
         "\"1\"" +
         std::string(recovery ? ", NCCL_IB_RESILIENCY_PORT_RECOVERY = \"1\"" : "") + " }\n";
}

std::string text_of(const Failover& f, const std::string& id) {
  std::string text = "format = 1\n" + environment(f.recovery);
  const unsigned most = std::max(f.real, f.emulated);
  for (unsigned nic = 0; nic < most; ++nic) {
    text += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(9 + nic) +
            ".0.0/16\"\n";
  }
  const auto node = [&](const std::string& head, unsigned nics) {
    text += "[[node]]\n" + head + "nics = " + std::to_string(nics) +
            "\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  };
  node("name = \"gpu\"\nreal = true\n", f.real);
  node("name = \"w\"\ncount = 3\n", f.emulated);
  for (unsigned nic = 0; nic < f.real; ++nic) {
    text += "[[port]]\nreal = \"gpu\"\nnic = " + std::to_string(nic) + "\ndevice = \"virtual\"\n";
  }
  return text + "[[job]]\nname = \"job\"\ncollective = \"" + f.collective +
         "\"\nranks = [\"gpu\", \"w*\"]\nsizes = [\"4000000B\"]\nchannels = 2\nnccl = \"2." +
         std::to_string(f.minor) + "\"\nmerged_nics = " + std::to_string(most) +
         "\ninterval = \"20ms\"\njoin = { file = \"" + id + "\" }\n" + f.more;
}

TEST(NcclFailover, IsSetUpWithReferenceRanks) {
  for (const bool recovery : {false, true}) {
    for (const unsigned minor : {29u, 30u}) {
      for (const auto& [real, emulated] : {std::pair{2u, 2u}, {2u, 1u}, {1u, 2u}, {4u, 2u}}) {
        if (recovery && minor == 29) continue;
        SCOPED_TRACE("2." + std::to_string(minor) + " " + std::to_string(real) + " " +
                     std::to_string(emulated) + (recovery ? " with recovery" : ""));
        const ScratchFile id("id"), capture("pcapng");
        const Config config = config_of(text_of(
            {.minor = minor, .real = real, .emulated = emulated, .recovery = recovery}, id.path()));
        VirtualJob::Options options;
        options.capture = capture.path();
        options.use_spares = true;
        VirtualJob job(config, options);
        ASSERT_EQ(job.run(), "");
        EXPECT_EQ(job.report().violations, 0u);
        EXPECT_EQ(job.node().progress().violations, 0u);
        EXPECT_EQ(job.report().collectives.size(), job.setup().operations.size());
        EXPECT_EQ(job.report().failover.value_or(FailoverReport{.failed = 1}).failed, 0u);
        EXPECT_EQ(parts_of(capture.path()).size(), real);
      }
    }
  }
}

TEST(NcclFailover, ADeviceOfAReferenceRankFails) {
  for (const unsigned minor : {29u, 30u}) {
    for (const std::string payload : {"synthetic", "exact"}) {
      SCOPED_TRACE("2." + std::to_string(minor) + " " + payload);
      const ScratchFile id("id");
      const Config config = config_of(text_of(
          {.minor = minor, .more = "iterations = 3\npayload = \"" + payload + "\"\n"}, id.path()));
      VirtualJob::Options options;
      options.lost_device_in = 2;
      VirtualJob job(config, options);
      ASSERT_EQ(job.run(), "");
      EXPECT_EQ(job.report().violations, 0u);
      EXPECT_EQ(job.report().collectives.size(), job.setup().operations.size());
      const CollectiveProgress& real = job.node().progress();
      EXPECT_GT(real.failover.failed, 0u);
      EXPECT_GT(real.failover.probes, 0u) << "it asks by READ what has come";
      EXPECT_GT(job.report().failover.value_or(FailoverReport{}).failed, 0u)
          << "nobody answers emulated ranks on that device";
      for (const CollectiveResult& result : real.results) {
        EXPECT_EQ(result.wrong_elements + result.size_mismatches, 0u);
      }
    }
  }
}

TEST(NcclFailover, TheOtherSideHasItOff) {
  const ScratchFile id("id");
  const Config config = config_of(text_of({}, id.path()));
  VirtualJob::Options options;
  options.other_config = [](Config& real) { real.nccl.reset(); };
  VirtualJob job(config, options);
  job.run();
  bool said = false;
  for (const std::string& line : job.said()) {
    said |= line.find("real rank has NCCL_IB_RESILIENCY_PORT_FAILOVER off") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace understudy::nccl_rank
