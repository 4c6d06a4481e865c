// Congestion notification in whole runs: marks on packets of both directions are answered by CNPs
// that roce-check finds right.
#include <map>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

uint64_t counter(const RunReport& report, const std::string& name) {
  for (const auto& [key, count] : report.ports.at(0).counters) {
    if (key == name) return count;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

// rules: A6.2 A6.3 A6.4
TEST(SimulateEcn, MarksInEitherDirectionAreAnsweredByCnps) {
  RingText ring;
  ring.sizes = "\"4MiB\"";
  ring.fabric = "cnp_interval = \"20us\"\n";
  ring.job = "traffic_class = 106\n";  // DSCP 26, ECT(0)
  ring.more = "[[fault]]\naction = \"mark_ce\"\npackets = \"write\"\nevery = 5\n";
  const Config config = config_of(ring.text());
  const ScratchFile capture("a.pcapng");
  const RunReport report = simulated(config, capture.path());
  EXPECT_FALSE(report.jobs.at(0).failed);
  EXPECT_GT(counter(report, "ce_delivered"), 50u);
  EXPECT_GT(counter(report, "cnp_sent"), 10u);
  EXPECT_GT(counter(report, "cnp_received"), 10u);
  EXPECT_EQ(counter(report, "cnp_sent") + counter(report, "cnp_suppressed"),
            counter(report, "ce_delivered"));
  const auto analysis =
      analyse(capture.path(), {.cnp_interval = Duration::us(20), .config = &config});
  ASSERT_TRUE(analysis) << analysis.error().text;
  EXPECT_EQ(analysis->table.cnps.size(),
            counter(report, "cnp_sent") + counter(report, "cnp_received"));
  // The capture sees CNPs of the real node where they leave its NIC, those to it behind data that
  // they meet on its link: there are no more of them, which the rule's verdict says.
  const IpAddress real = *config.nodes[0].nics[0].v4;
  std::map<std::pair<IpAddress, Qpn>, Time> last;
  uint64_t apart = 0;
  for (const CnpRecord& cnp : analysis->table.cnps) {
    if (cnp.src != real) continue;
    const auto [before, first] = last.try_emplace({cnp.dst, cnp.dest_qpn}, cnp.stamp.at);
    if (first) continue;
    EXPECT_GE(cnp.stamp.at - before->second, Duration::us(20));
    before->second = cnp.stamp.at;
    ++apart;
  }
  EXPECT_GT(apart, 10u);
  for (const Rule rule : {Rule::kA6_1, Rule::kA6_2, Rule::kA6_3, Rule::kA6_4}) {
    EXPECT_NE(analysis->findings.verdict(rule), Verdict::kFails);
  }
  for (const PacketRecord& p : analysis->table.packets) EXPECT_NE(p.ecn, 0);
}

TEST(SimulateEcn, WithoutMarksThereAreNoCnpsAndWithoutNotificationNoneEither) {
  const std::string marks = "[[fault]]\naction = \"mark_ce\"\nevery = 5\n";
  for (const bool marked : {false, true}) {
    RingText ring;
    ring.fabric = marked ? "cnp = false\n" : "";
    ring.job = "traffic_class = 2\n";
    ring.more = marked ? marks : "";
    const RunReport report = simulated(config_of(ring.text()));
    EXPECT_EQ(counter(report, "ce_delivered") > 0, marked);
    EXPECT_EQ(counter(report, "cnp_sent"), 0u);
    EXPECT_EQ(counter(report, "cnp_received"), 0u);
  }
}

}  // namespace
}  // namespace understudy
