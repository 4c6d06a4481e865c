// What a job of NCCL's says of itself while it starts, in virtual time: no communication manager is
// there, neither on our side nor on the reference node's.
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

std::vector<std::string> said_by(const std::string& more, VirtualJob::Options options = {}) {
  const ScratchFile id("id");
  Case c;
  c.more = more;
  const Config config = config_of(text_of(c, 28, "file = \"" + id.path() + "\""));
  VirtualJob job(config, options);
  EXPECT_EQ(job.run(), "");
  return job.said();
}

TEST(NcclVirtualSelfTest, AcknowledgedPacketsPass) {
  const auto lines = said_by("iterations = 40\n");  // 0.8 s
  EXPECT_EQ(times_said(lines, "self-test: gpu (10.9.0.1) answers all 3 emulated addresses"), 1u);
  EXPECT_EQ(times_said(lines, "self-test: RoCE passes between gpu (10.9.0.1) and queue pairs"), 1u);
  EXPECT_EQ(times_said(lines, "self-test"), 2u);
}

TEST(NcclVirtualSelfTest, EachPortOfAMergedNicHasToAcknowledge) {
  const ScratchFile id("id.of.merged");
  std::string text = "format = 1\n";
  for (const std::string nic : {"0", "1"}) {
    text += "[[prefix]]\nnic = " + nic + "\nv4 = \"10." + nic + ".0.0/16\"\n";
  }
  const std::string more = "nics = 2\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  text += "[[node]]\nname = \"gpu\"\nreal = true\n" + more;
  text += "[[node]]\nname = \"w\"\ncount = 3\n" + more;
  for (const std::string nic : {"0", "1"}) {
    text += "[[port]]\nreal = \"gpu\"\nnic = " + nic + "\ndevice = \"virtual\"\n";
  }
  text +=
      "[[job]]\nname = \"job\"\ncollective = \"all_reduce\"\nranks = [\"gpu\", \"w*\"]\n"
      "sizes = [\"400000B\"]\niterations = 20\ninterval = \"20ms\"\nnccl = \"2.28\"\n"
      "merged_nics = 2\njoin = { file = \"" +
      id.path() + "\" }\n";
  const Config config = config_of(text);
  VirtualJob job(config, {});
  ASSERT_EQ(job.run(), "");
  EXPECT_EQ(times_said(job.said(), "answers all 6 emulated addresses"), 1u);
  EXPECT_EQ(times_said(job.said(), "RoCE passes between gpu (10.0.0.1) and queue pairs"), 1u);
}

TEST(NcclVirtualSelfTest, ASmallerMtuOfTheRealNodeIsNamedOnce) {
  VirtualJob::Options options;
  EXPECT_EQ(times_said(said_by("", options), "MTU"), 0u);
  options.real_mtu = 1024;
  const auto lines = said_by("", options);
  EXPECT_EQ(times_said(lines, "MTU"), 1u);
  EXPECT_EQ(times_said(
                lines,
                "the real node's path MTU is 1024 bytes, [fabric] mtu = 4096: all connections take "
                "1024, the model does not. Set mtu = 1024, or raise the MTU of its interface "
                "(4200 bytes give a path MTU of 4096)"),
            1u);
}

}  // namespace
}  // namespace understudy::nccl_rank
