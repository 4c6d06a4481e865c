// Jobs whose real rank's NIC is several ports that NCCL merged, in virtual time: judged by the
// packets on each port.
#include "tests/ctrl/nccl_virtual/port_parts.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/nccl_virtual/virtual_job.h"

namespace understudy::nccl_rank {
namespace {

struct Merged {
  unsigned real = 2, emulated = 2;  ///< NICs of a node
  std::string collective = "all_reduce", more = {};
  unsigned rate = 10;  ///< Gbit/s of a real NIC; the emulated ones together have as much
};

std::string text_of(const Merged& m, uint32_t minor) {
  std::string text = "format = 1\n";
  const unsigned most = std::max(m.real, m.emulated);
  for (unsigned nic = 0; nic < most; ++nic) {
    const std::string number = std::to_string(nic);
    text +=
        "[[prefix]]\nnic = " + number + "\nv4 = \"10." + std::to_string(9 + nic) + ".0.0/16\"\n";
  }
  const auto node = [&](const std::string& head, unsigned nics, unsigned rate) {
    text += "[[node]]\n" + head + "nics = " + std::to_string(nics) + "\nlink = { rate = \"" +
            std::to_string(rate) + "Gbit/s\", latency = \"1us\" }\n";
  };
  node("name = \"gpu\"\nreal = true\n", m.real, m.rate);
  node("name = \"w\"\ncount = 3\n", m.emulated, m.rate * m.real / m.emulated);
  for (unsigned nic = 0; nic < m.real; ++nic) {
    text += "[[port]]\nreal = \"gpu\"\nnic = " + std::to_string(nic) + "\ndevice = \"virtual\"\n";
  }
  return text + "[[job]]\nname = \"job\"\ncollective = \"" + m.collective +
         "\"\nranks = [\"gpu\", \"w*\"]\nsizes = [\"4000000B\"]\nchannels = 2\nnccl = \"2." +
         std::to_string(minor) + "\"\nmerged_nics = " + std::to_string(most) + "\n" + m.more;
}

/// As many parts of messages on each port, and as many bytes as they can be cut alike.
void expect_even(const std::string& path, unsigned ports, bool alike = true) {
  const auto parts = parts_of(path);
  ASSERT_EQ(parts.size(), ports);
  for (const auto& [port, part] : parts) {
    EXPECT_EQ(part.parts, parts.at(0).parts);
    EXPECT_GT(part.parts, 0u);
    EXPECT_TRUE(!alike || part.credits > 0) << "credits take turns over the receiver's NICs";
    const double share = static_cast<double>(part.bytes) / static_cast<double>(parts.at(0).bytes);
    EXPECT_NEAR(share, 1, 0.02);
  }
}

/// Takes what one port of twice the rate takes.
TEST(MergedNics, CarryWhatTheyHaveTogether) {
  for (const std::string collective : {"all_reduce", "broadcast", "send_recv"}) {
    Duration alone;
    for (const auto& [real, emulated] :
         {std::pair{1u, 1u}, {2u, 2u}, {2u, 1u}, {1u, 2u}, {4u, 4u}, {4u, 2u}}) {
      SCOPED_TRACE(collective + " " + std::to_string(real) + " " + std::to_string(emulated));
      const Config config = config_of(text_of({real, emulated, collective, "", 40 / real}, 28));
      const ScratchFile file("pcapng");
      const RunReport report = simulated(config, file.path());
      EXPECT_TRUE(report.verdict.faithful);
      const CollectiveReport& last = report.jobs[0].collectives.back();
      const Duration took = last.measured;
      if (real == 1 && emulated == 1) alone = took;
      EXPECT_NEAR(took.microseconds(), alone.microseconds(), 0.02 * alone.microseconds());
      if (real > 1) expect_even(file.path(), real, real == emulated);
      expect_holds(judged(file.path(), &config));
    }
  }
}

TEST(MergedNics, EveryRelease) {
  for (uint32_t minor = 20; minor <= 30; ++minor) {
    for (const std::string payload : {"synthetic", "exact"}) {
      SCOPED_TRACE("2." + std::to_string(minor) + " " + payload);
      const Config config =
          config_of(text_of({2, 2, "all_reduce", "payload = \"" + payload + "\"\n"}, minor));
      const ScratchFile file("pcapng");
      const RunReport report = simulated(config, file.path());
      EXPECT_TRUE(report.verdict.faithful);
      EXPECT_EQ(report.jobs[0].violations, 0u);
      if (payload == "exact") {
        EXPECT_EQ(report.jobs[0].collectives.back().wrong_elements, 0u);
      }
      expect_even(file.path(), 2);
    }
  }
}

/// As `run` has it: bootstrap, net_ib's exchange, every packet.
TEST(MergedNics, JoinAReferenceRank) {
  for (const uint32_t minor : {20u, 23u, 24u, 28u, 29u, 30u}) {
    for (const auto& [real, emulated] :
         {std::pair{2u, 2u}, {2u, 1u}, {1u, 2u}, {4u, 4u}, {4u, 2u}}) {
      // Up to 2.23 NCCL itself cannot connect unlike NICs.
      if (minor < 24 && (real != emulated || real > 2)) continue;
      for (const std::string collective : {"all_reduce", "all_to_all"}) {
        if (minor < 22 && collective == "all_to_all") continue;  // no schedule is known
        SCOPED_TRACE("2." + std::to_string(minor) + " " + collective + " " + std::to_string(real) +
                     " " + std::to_string(emulated));
        const ScratchFile id("id"), capture("pcapng");
        const Config config = config_of(
            text_of({real, emulated, collective,
                     "interval = \"20ms\"\njoin = { file = \"" + id.path() +
                         "\", queue_pairs = " + (minor == 29 || minor == 24 ? "2" : "1") + " }\n"},
                    minor));
        VirtualJob::Options options;
        options.capture = capture.path();
        options.use_spares = true;
        VirtualJob job(config, options);
        ASSERT_EQ(job.run(), "");
        EXPECT_EQ(job.report().violations, 0u);
        EXPECT_EQ(job.node().progress().violations, 0u);
        EXPECT_EQ(job.report().collectives.size(), job.setup().operations.size());
        EXPECT_EQ(parts_of(capture.path()).size(), real);
      }
    }
  }
}

/// A reference node beside it has the same NICs.
std::string with_reference(std::string text, unsigned nics) {
  const auto replace = [&](const std::string& old, const std::string& by) {
    text.replace(text.find(old), old.size(), by);
  };
  replace("name = \"gpu\"\nreal = true\n",
          "name = \"gpu\"\nreal = { kind = \"kernel\", program = \"x\" }\n");
  replace("ranks = [\"gpu\"", "ranks = [\"gpu\", \"reference\"");
  std::string node = "[[node]]\nname = \"reference\"\nreal = true\nnics = " + std::to_string(nics) +
                     "\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  for (unsigned nic = 0; nic < nics; ++nic) {
    node +=
        "[[port]]\nreal = \"reference\"\nnic = " + std::to_string(nic) + "\ndevice = \"virtual\"\n";
  }
  replace("[[job]]", node + "[[job]]");
  return text;
}

TEST(MergedNics, JoinAReferenceNodeBesideAProgram) {
  for (const uint32_t minor : {22u, 24u, 28u}) {
    SCOPED_TRACE("2." + std::to_string(minor));
    const ScratchFile id("id"), capture("pcapng");
    const std::string join = "interval = \"20ms\"\npayload = \"exact\"\njoin = { file = \"" +
                             id.path() + "\", queue_pairs = " + (minor == 24 ? "2" : "1") + " }\n";
    const Config config = config_of(with_reference(text_of({2, 2, "all_reduce", join}, minor), 2));
    VirtualJob::Options options;
    options.capture = capture.path();
    options.use_spares = true;
    VirtualJob job(config, options);
    ASSERT_EQ(job.run(), "");
    ASSERT_EQ(job.played().size(), 2u);
    for (const CollectiveProgress* one : {job.played()[1], &job.node().progress()}) {
      EXPECT_TRUE(one->over() && !one->failed);
      EXPECT_EQ(one->violations, 0u);
      EXPECT_EQ(one->results.back().size_mismatches + one->results.back().wrong_elements, 0u);
    }
    auto parts = parts_of(capture.path());  // beside the program's, all others are one
    EXPECT_GT(parts[0].parts, 0u);
    EXPECT_EQ(parts[0].parts, parts[1].parts);
    EXPECT_TRUE(parts[0].credits > 0 && parts[1].credits > 0);
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
