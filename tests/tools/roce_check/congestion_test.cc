// What roce-check takes for a wrong answer to congestion depends on who sends CNPs at all, and on
// whether they have crossed an emulated network.
#include <gtest/gtest.h>

#include "ctrl/config/read/load.h"
#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/checks/congestion_check.h"

namespace understudy {
namespace {

/// A receiver that gets marks and sends no CNPs.
Conversation unanswered_marks() {
  Conversation c = congested();
  for (const char* cnp : {"cnp 3", "cnp 2", "cnp 1"}) c.capture.erase(c.at(cnp));
  return c;
}

// rules: A6.2
TEST(Congestion, AReceiverThatIsKnownToSendNoCnpsNeedNot) {
  AnalysisOptions options = talk_options();
  options.without_cnps = {Conversation::server_ip()};
  const Analysis analysis = unanswered_marks().capture.judge(options);
  EXPECT_TRUE(analysis.findings.hold()) << all_examples(analysis);
  ASSERT_EQ(analysis.findings.notes(Check::kEcn).size(), 1u);
  EXPECT_EQ(analysis.findings.notes(Check::kEcn)[0],
            "10.0.0.2 sends no CNPs: 3 marks from 10.0.0.1 were not answered");
  options.without_cnps = {Conversation::client_ip()};
  EXPECT_EQ(unanswered_marks().capture.judge(options).findings.count(Rule::kA6_2), 1u);
}

// Linux' rdma_rxe has no code for marks.
// rules: A6.2
TEST(Congestion, AKernelOfTheConfigurationSendsNoCnps) {
  const auto found = [](const std::string& real) {
    const std::string link = "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
    const ConfigResult config = load_config_text(
        "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.0.0.0/24\"\n[[node]]\nname = \"w\"\n" + link +
            "[[node]]\nname = \"gpu\"\nreal = " + real + "\n" + link +
            "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n",
        "c.toml");
    EXPECT_TRUE(config) << describe(config.error());
    EXPECT_EQ(config->nodes[1].nics[0].v4, Conversation::server_ip());
    AnalysisOptions options = talk_options();
    options.config = &*config;
    return unanswered_marks().capture.judge(options).findings.count(Rule::kA6_2);
  };
  EXPECT_EQ(found("true"), 1u);
  EXPECT_EQ(found("{ kind = \"kernel\", program = \"true\" }"), 0u);
}

// rules: A6.4
TEST(Congestion, CnpsThatCrossedAnEmulatedNetworkMayComeCloserButNotMoreOften) {
  const std::string link = "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
  const ConfigResult config = load_config_text(
      "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[node]]\nname = \"gpu\"\nreal = "
      "true\n" +
          link + "[[node]]\nname = \"w\"\n" + link +
          "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n",
      "c.toml");
  ASSERT_TRUE(config) << describe(config.error());
  const IpAddress real = *config->nodes[0].nics[0].v4, emulated = *config->nodes[1].nics[0].v4;
  /// Findings against CNPs of `from` at these microseconds, after data at 0.
  const auto found = [&](const IpAddress& from, const IpAddress& to, const std::vector<int>& at) {
    PacketTable table;
    PacketRecord marked;
    marked.ecn = 3;
    table.packets = {marked};
    Flow flow;
    flow.src = to;
    flow.dst = from;
    flow.packets = {0};
    table.flows = {flow};
    for (const int us : at) {
      table.cnps.push_back({{table.cnps.size() + 2, Time::zero() + Duration::us(us)}, from, to, 7});
    }
    Findings findings;
    check_congestion(table, {Duration::us(20), {}, &*config}, findings);
    return findings.count(Rule::kA6_4);
  };
  EXPECT_EQ(found(real, emulated, {100, 120, 140}), 0u);
  EXPECT_EQ(found(real, emulated, {100, 115, 140}), 1u);
  EXPECT_EQ(found(emulated, real, {100, 115, 116, 117, 118, 119}), 0u);
  EXPECT_EQ(found(emulated, real, {20, 21, 35, 80}), 1u);
}

}  // namespace
}  // namespace understudy
