// NICs of emulated nodes that take something beside their links: a real node among them measures
// what ranks that carry out all of it, packet by packet, take.
#include <cmath>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr char kNic[] =
    "[[nic]]\nname = \"n\"\npreset = \"connectx-6\"\ncompletion = \"100ns\"\nack_delay = "
    "\"100ns\"\n";

std::string text_of(const std::string& job, const std::string& node = "nic = \"n\"\n") {
  const std::string link = "link = { rate = \"200Gbit/s\", latency = \"500ns\" }\n";
  return std::string("format = 1\n") + kNic +
         "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n[[node]]\nname = \"gpu\"\nreal = true\n" +
         link + "[[node]]\nname = \"w\"\ncount = 7\n" + node + link +
         "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n[[job]]\nname = \"j\"\n"
         "collective = \"all_reduce\"\nranks = [\"gpu\", \"w*\"]\n"
         "sizes = [\"8KiB\", \"64KiB\", \"1MiB\"]\ninterval = \"1ms\"\n" +
         job;
}

void expect_model(const std::string& job, double most) {
  SCOPED_TRACE(job);
  const RunReport report = simulated(config_of(text_of(job)));
  ASSERT_EQ(report.jobs.size(), 1u);
  ASSERT_EQ(report.jobs[0].collectives.size(), 3u);
  for (const CollectiveReport& c : report.jobs[0].collectives) {
    const double modelled = static_cast<double>(c.modelled.ps());
    EXPECT_LT(
        std::abs(static_cast<double>(c.node_reported.value_or(c.measured).ps()) / modelled - 1),
        most)
        << c.bytes;
  }
}

TEST(Nics, ARealNodeMeasuresWhatAllRanksPacketByPacketTake) {
  for (const char* way : {"algorithm = \"ring\"\n", "algorithm = \"ring\"\nchannels = 2\n",
                          "algorithm = \"tree\"\n"}) {
    expect_model(std::string("inner = \"packets\"\n") + way, 0.002);
  }
  // Of several trees packets that come to a NIC at one moment may change places.
  expect_model("inner = \"packets\"\nalgorithm = \"tree\"\nchannels = 2\n", 0.01);
}

TEST(Nics, AndWhatThePlanOfARingSays) {
  expect_model("inner = \"times\"\nalgorithm = \"ring\"\n", 0.002);
}

// What NICs do not let through faster is no fault of the emulator's.
TEST(Nics, ACaptureIsHeldToWhatNicsLetThrough) {
  for (const char* nic : {"pcie = { rate = \"50Gbit/s\", latency = \"300ns\" }\n",
                          "packets_per_second = 1_000_000\npcie = { latency = \"300ns\" }\n"}) {
    std::string text = text_of("algorithm = \"ring\"\n");
    const std::string preset = "preset = \"connectx-6\"\n";
    text.replace(text.find(preset), preset.size(), nic);
    const Config config = config_of(text);
    const ScratchFile capture("nics.pcapng");
    simulated(config, capture.path());
    const Analysis analysis = judged(capture.path(), &config);
    EXPECT_EQ(analysis.findings.verdict(Check::kRate), Verdict::kHolds) << nic;
    EXPECT_TRUE(analysis.findings.hold()) << nic;
  }
}

// 14 steps of a ring over 8 ranks: seven of the hops begin at such a NIC, seven end at one.
TEST(Nics, SmallMessagesTakeAsMuchLongerAsTheirHops) {
  const std::string job = "inner = \"times\"\nalgorithm = \"ring\"\n";
  const RunReport slow = simulated(config_of(text_of(job)));
  const RunReport ideal = simulated(config_of(text_of(job, "")));
  const Duration lead = Duration::ns(450), tail = Duration::ns(250);
  const Duration more =
      slow.jobs[0].collectives[0].measured - ideal.jobs[0].collectives[0].measured;
  EXPECT_GT(more, (lead + tail) * 14 * 7 / 8);
  EXPECT_LT(more, (lead + tail) * 15);
}

std::string queueing(const std::string& job) {
  std::string text = text_of(job);
  const std::string preset = "preset = \"connectx-6\"\n";
  text.replace(text.find(preset), preset.size(),
               "acks = \"behind_data\"\npcie = { latency = \"100ns\" }\n");
  return text;
}

// Messages between emulated ranks go packet by packet then, if nobody says otherwise.
TEST(Nics, NoPlanKnowsAcknowledgementsThatWait) {
  const RunReport packets = simulated(config_of(queueing("algorithm = \"ring\"\n")));
  EXPECT_EQ(packets.jobs[0].model, "packets");
  EXPECT_TRUE(packets.verdict.faithful);
  const RunReport times =
      simulated(config_of(queueing("inner = \"times\"\nalgorithm = \"ring\"\n")));
  EXPECT_FALSE(times.verdict.faithful);
  EXPECT_TRUE(times.verdict.not_judged);
  EXPECT_FALSE(times.jobs[0].not_judged.empty());
}

TEST(Nics, ACaptureOfSuchNicsHolds) {
  const Config config = config_of(queueing("algorithm = \"ring\"\nchannels = 2\n"));
  const ScratchFile capture("nics.pcapng");
  simulated(config, capture.path());
  EXPECT_TRUE(judged(capture.path(), &config).findings.hold());
}

}  // namespace
}  // namespace understudy
