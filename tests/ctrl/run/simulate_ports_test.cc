// Two real NICs in one run: a job over IPv6 on one, a job over VLAN 100 on the other.
#include <array>

#include "dataplane/wire/parse.h"
#include "dataplane/wire/pcapng_reader.h"
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr char kLink[] = "link = { rate = \"100Mbit/s\", latency = \"250us\" }\n";
constexpr char kPrefixes[] = R"(
[[prefix]]
nic = 0
v6 = "fd00:9::/64"
[[prefix]]
nic = 1
v4 = "10.10.0.0/24"
vlan = 100
pcp = 3
)";

std::string job(const std::string& name, const std::string& ranks, const std::string& more) {
  return "[[job]]\nname = \"" + name + "\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n" +
         "ranks = [" + ranks +
         "]\npayload = \"exact\"\nentry = \"scheduled\"\ninterval = \"1ms\"\n" + more;
}

/// Both NICs belong to one real node.
std::string two_nics() {
  return std::string("format = 1\n") + kPrefixes +
         "[[node]]\nname = \"gpu\"\nreal = true\nnics = 2\n" + kLink +
         "[[node]]\nname = \"w\"\ncount = 3\nnics = 2\n" + kLink +
         "[[port]]\nreal = \"gpu\"\nnic = 0\ndevice = \"virtual\"\n"
         "[[port]]\nreal = \"gpu\"\nnic = 1\ndevice = \"virtual\"\n" +
         job("six", "\"gpu\", \"w*\"", "sizes = [\"256KiB\"]\n") +
         job("tagged", "\"w1\", \"gpu\", \"w0\"", "nic = 1\nsizes = [\"64KiB\", \"200004B\"]\n");
}

struct Seen {
  uint64_t frames = 0, v6 = 0, tagged = 0;
};

/// By interface of the capture.
std::array<Seen, 2> seen(const std::string& file) {
  std::array<Seen, 2> out;
  PcapngReader reader({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  for (;;) {
    auto record = reader.next();
    EXPECT_TRUE(record) << (record ? "" : record.error().text);
    if (!record || std::holds_alternative<std::monostate>(*record)) return out;
    const auto* packet = std::get_if<PcapngPacketRecord>(&*record);
    if (packet == nullptr) continue;
    FrameView view;
    RoceView roce;
    EXPECT_EQ(parse_frame(packet->bytes, view, roce), FrameKind::kRoce);
    Seen& at = out.at(packet->interface);
    ++at.frames;
    at.v6 += view.v6 ? 1 : 0;
    at.tagged += view.vlans == 1 && view.vlan[0].vid() == 100 && view.vlan[0].pcp() == 3 ? 1 : 0;
  }
}

void expect_both_jobs_right(const RunReport& report) {
  EXPECT_TRUE(report.verdict.faithful);
  ASSERT_EQ(report.jobs.size(), 2u);
  ASSERT_EQ(report.ports.size(), 2u);
  for (const JobReport& job : report.jobs) {
    EXPECT_EQ(job.collectives.size(), job.planned);
    for (const CollectiveReport& c : job.collectives) EXPECT_EQ(c.wrong_elements, 0u) << job.name;
  }
}

TEST(SimulatePorts, OneNodeWithTwoNics) {
  const Config config = config_of(two_nics());
  const ScratchFile file("pcapng");
  expect_both_jobs_right(simulated(config, file.path()));
  const auto [six, tagged] = seen(file.bytes());
  EXPECT_GT(six.frames, 200u);
  EXPECT_EQ(six.v6, six.frames);
  EXPECT_EQ(six.tagged, 0u);
  EXPECT_GT(tagged.frames, 200u);
  EXPECT_EQ(tagged.tagged, tagged.frames);
  EXPECT_EQ(tagged.v6, 0u);

  const Analysis analysis = judged(file.path(), &config);
  expect_holds(analysis);
  EXPECT_EQ(analysis.connections.size(), 4u);
  EXPECT_EQ(analysis.findings.verdict(Check::kRate), Verdict::kHolds);
  EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
}

/// The two ports do not share a link: a job takes as long beside the other one as alone.
TEST(SimulatePorts, JobsDoNotMeet) {
  const Config both = config_of(two_nics());
  const RunReport together = simulated(both);
  for (const size_t index : {size_t{0}, size_t{1}}) {
    Config alone = config_of(two_nics());
    alone.jobs = {both.jobs[index]};
    const RunReport report = simulated(alone);
    ASSERT_EQ(report.jobs.size(), 1u);
    for (size_t i = 0; i < report.jobs[0].collectives.size(); ++i) {
      EXPECT_EQ(report.jobs[0].collectives[i].node_reported,
                together.jobs[index].collectives[i].node_reported);
    }
  }
}

/// The checker looks at each port: a rate that is wrong on the second one only does not pass.
TEST(SimulatePorts, EachPortIsJudged) {
  const std::string text = two_nics();
  for (const unsigned wrong : {0u, 1u}) {
    Config run = config_of(text);
    for (NodeConfig& node : run.nodes) {
      node.nics[wrong].link_rate = Rate::bits_per_second(105'000'000);
    }
    const ScratchFile file("pcapng");
    simulated(run, file.path());
    const Config config = config_of(text);
    expect_fails(judged(file.path(), &config), Check::kRate);
  }
}

TEST(SimulatePorts, TwoRealNodes) {
  const Config config = config_of(
      std::string("format = 1\n") + kPrefixes +
      "[[node]]\nname = \"gpu\"\ncount = 2\nreal = true\nnics = 2\n" + kLink +
      "[[node]]\nname = \"w\"\ncount = 3\nnics = 2\n" + kLink +
      "[[port]]\nreal = \"gpu0\"\nnic = 0\ndevice = \"virtual\"\n"
      "[[port]]\nreal = \"gpu1\"\nnic = 1\ndevice = \"virtual\"\n" +
      job("six", "\"gpu0\", \"w*\"", "sizes = [\"256KiB\"]\n") +
      job("tagged", "\"w1\", \"gpu1\", \"w0\"", "nic = 1\nsizes = [\"64KiB\", \"200004B\"]\n"));
  const ScratchFile file("pcapng");
  expect_both_jobs_right(simulated(config, file.path()));
  const auto [six, tagged] = seen(file.bytes());
  EXPECT_EQ(six.v6, six.frames);
  EXPECT_EQ(tagged.tagged, tagged.frames);
  expect_holds(judged(file.path(), &config));
}

}  // namespace
}  // namespace understudy
