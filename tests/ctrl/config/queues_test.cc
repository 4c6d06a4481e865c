// [queues] and [flows]: what is read, and what is refused with its line.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

/// The sample with these tables in front of its first prefix.
std::string with_tables(const std::string& tables) {
  std::string text = kSampleConfig;
  return text.insert(text.find("[[prefix]]"), tables + "\n");
}

Config good(const std::string& tables) {
  const ConfigResult result = load_config_text(with_tables(tables), "f");
  EXPECT_TRUE(result) << describe(result.error());
  return result ? *result : Config();
}

TEST(ConfigQueues, WithoutThemOneLossyClassHasAllPriorities) {
  const NetworkSettings& n = good("").queues.network;
  ASSERT_EQ(n.classes.size(), 1u);
  EXPECT_EQ(n.classes[0].priorities, 0xff);
  EXPECT_FALSE(n.classes[0].pfc);
  EXPECT_EQ(n.buffer, 0u);
  EXPECT_EQ(n.full_packet_bytes, 4178u);
}

TEST(ConfigQueues, EveryKeyIsRead) {
  const Config config = good(R"(
[queues]
buffer = "4MiB"
pfc_frame = "64B"
[[queues.class]]
priorities = [3, 4]
weight = 5
pfc = { alpha = 0.25, headroom = [ { rate = "25Gbit/s", size = "9375B" } ], resume_offset = "1KB", resume_floor = "2KB" }
ecn = [ { rate = "100Gbit/s", kmin = "400KB", kmax = "1600KB", pmax = 0.2 }, { kmin = "1KB", kmax = "1KB", pmax = 1 } ]
[[queues.class]]
scheduling = "strict"
egress_alpha = 0.5
[flows]
payload = "1002B"
overhead = "48B"
gap = "0B"
ack = "60B"
ack_every = 4
ack_priority = 2
cnp = "70B"
cnp_priority = 5
rate_counts_gap = false
catch_up = "3us"
timeout = "1ms"
)");
  const NetworkSettings& n = config.queues.network;
  EXPECT_EQ(n.buffer, 4u << 20);
  EXPECT_EQ(n.pfc_frame_bytes, 64u);
  EXPECT_EQ(n.full_packet_bytes, 1050u);
  ASSERT_EQ(n.classes.size(), 2u);
  const ClassSettings& c = n.classes[0];
  EXPECT_EQ(c.priorities, 0x18);
  EXPECT_EQ(c.weight, 5u);
  ASSERT_TRUE(c.pfc);
  EXPECT_EQ(c.pfc->alpha, 0.25);
  ASSERT_EQ(c.pfc->headroom_by_rate.size(), 1u);
  EXPECT_EQ(c.pfc->headroom_by_rate[0].second, 9375u);
  EXPECT_EQ(c.pfc->resume_offset, 1000u);
  EXPECT_EQ(c.pfc->resume_floor, 2000u);
  ASSERT_EQ(c.ecn.size(), 2u);
  EXPECT_EQ(c.ecn[0].rate.bps(), 100'000'000'000u);
  EXPECT_EQ(c.ecn[0].kmax, 1'600'000u);
  EXPECT_TRUE(c.ecn[1].rate.is_unlimited());
  EXPECT_EQ(n.classes[1].priorities, 0xe7);
  EXPECT_EQ(n.classes[1].weight, 0u);
  EXPECT_EQ(n.classes[1].egress_alpha, 0.5);
  const FlowSettings& f = config.queues.flows;
  EXPECT_EQ(f.payload, 1002u);
  EXPECT_EQ(f.ack_bytes, 60u);
  EXPECT_EQ(f.ack_every, 4u);
  EXPECT_EQ(f.ack_priority, 2);
  EXPECT_EQ(f.cnp_priority, 5);
  EXPECT_FALSE(f.rate_counts_gap);
  EXPECT_EQ(f.catch_up, Duration::us(3));
  EXPECT_EQ(f.timeout, Duration::ms(1));
}

TEST(ConfigQueues, PrioritiesByClassSelectorAndByPcp) {
  const PriorityMap map = good("").queues.network.priorities;
  for (unsigned tos = 0; tos < 256; ++tos) {
    EXPECT_EQ(map.priority_of(static_cast<uint8_t>(tos), 7), tos >> 5) << tos;
  }
  EXPECT_EQ(map.priority_of(std::nullopt, 7), 0);
  const PriorityMap tagged = good(
                                 "[queues]\ntrust = \"pcp\"\nuntrusted_priority = 2\n"
                                 "pcp = [ { values = [5, 6], priority = 1 } ]")
                                 .queues.network.priorities;
  const uint8_t expected[] = {0, 1, 2, 3, 4, 1, 1, 7};
  for (uint8_t pcp = 0; pcp < 8; ++pcp) EXPECT_EQ(tagged.priority_of(0xff, pcp), expected[pcp]);
  EXPECT_EQ(tagged.priority_of(0xff, std::nullopt), 2);
}

TEST(ConfigQueues, PrioritiesAsSonicHasThemAndExceptions) {
  const PriorityMap map =
      good(
          "[queues]\ndscp_map = \"sonic\"\ndscp = [ { values = [26, 0], priority = 7 }, "
          "{ values = [3], priority = 0 } ]")
          .queues.network.priorities;
  const std::pair<uint8_t, uint8_t> some[] = {{26, 7}, {0, 7},  {3, 0},  {4, 4},  {5, 2},
                                              {8, 0},  {46, 5}, {48, 6}, {63, 1}, {1, 1}};
  for (const auto& [dscp, priority] : some) {
    EXPECT_EQ(map.priority_of(static_cast<uint8_t>(dscp << 2 | 2), {}), priority) << +dscp;
  }
}

TEST(ConfigQueues, HeadroomByTheLinkOrAsASize) {
  EXPECT_TRUE(good("[[queues.class]]\npfc = { headroom = \"auto\" }")
                  .queues.network.classes[0]
                  .pfc->headroom_by_link);
  EXPECT_EQ(good("[[queues.class]]\npfc = { headroom = \"40KB\" }")
                .queues.network.classes[0]
                .pfc->headroom,
            40'000u);
}

TEST(ConfigQueues, FixedThresholds) {
  const auto pfc =
      good("[[queues.class]]\npfc = { headroom = \"1MB\", xoff = \"60KB\", xon = \"48KB\" }")
          .queues.network.classes[0]
          .pfc;
  EXPECT_EQ(pfc->xoff, 60'000u);
  EXPECT_EQ(pfc->xon, 48'000u);
}

TEST(ConfigQueues, WhatIsRefused) {
  struct {
    const char* tables;
    const char* key;
    const char* words;
  } const cases[] = {
      {"[queues]\nbuffer = \"0B\"#!", "queues.buffer", "expected 1B"},
      {"[queues]\ntrust = \"cos\"#!", "queues.trust", "expected one of"},
      {"[queues]\ndscp = [ { values = [64], priority = 1 } ]#!", "queues.dscp.values", "0 to 63"},
      {"[queues]\npcp = [ { values = [1, 1], priority = 1 } ]#!", "queues.pcp.values", "in one"},
      {"[queues]\npcp = [ { values = [1], priority = 8 } ]#!", "queues.pcp.priority", "0 to 7"},
      {"[queues]\ndscp = [ { priority = 0 } ]#!", "queues.dscp.values", "missing"},
      {"[queues]\nbufer = \"1MB\"#!", "queues.bufer", "did you mean \"buffer\""},
      {"[[queues.class]]\npfc = { alpha = 0.5 }#!", "queues.class.pfc.headroom",
       "without headroom loses packets"},
      {"[[queues.class]]\npfc = { headroom = \"0B\" }#!", "queues.class.pfc.headroom",
       "expected 1B"},
      {"[[queues.class]]\npfc = { headroom = \"auto\", alpha = 0 }#!", "queues.class.pfc.alpha",
       "above 0"},
      {"[[queues.class]]\npfc = { headroom = \"auto\", xoff = \"1KB\" }#!", "queues.class.pfc.xon",
       "missing"},
      {"[[queues.class]]\npfc = { headroom = \"auto\", xoff = \"1KB\", xon = \"2KB\" }#!",
       "queues.class.pfc.xon", "at most xoff"},
      {"[[queues.class]]\npfc = { headroom = \"auto\", xoff = \"2KB\", xon = \"1KB\", alpha = 1 "
       "}#!",
       "queues.class.pfc.alpha", "no meaning beside xoff"},
      {"[queues]\nbuffer = \"1MB\"\n[[queues.class]]\n"
       "ecn = { kmin = \"1KB\", kmax = \"2MB\", pmax = 0.1 }#!",
       "queues.class.ecn.kmax", "at most queues.buffer"},
      {"[[queues.class]]\necn = { kmin = \"3KB\", kmax = \"2KB\", pmax = 0.1 }#!",
       "queues.class.ecn.kmax", "at least kmin"},
      {"[[queues.class]]\necn = { kmin = \"3KB\", kmax = \"4KB\", pmax = 1.5 }#!",
       "queues.class.ecn.pmax", "a probability"},
      {"[[queues.class]]\necn = { kmin = \"3KB\", kmax = \"4KB\" }#!", "queues.class.ecn.pmax",
       "missing"},
      {"[[queues.class]]\npriorities = [8]#!", "queues.class.priorities", "numbers 0 to 7"},
      {"[[queues.class]]\npriorities = 3#!", "queues.class.priorities", "numbers 0 to 7"},
      {"[queues]#!\n[[queues.class]]\npriorities = [3]", "queues.class", "priority 0 is in no"},
      {"[queues]#!\n[[queues.class]]\npriorities = [3]\n[[queues.class]]\npriorities = [3, 4]\n"
       "[[queues.class]]\n",
       "queues.class", "the same priorities"},
      {"[[queues.class]]\nscheduling = \"strict\"\nweight = 2#!", "queues.class.weight",
       "a strict class has none"},
      {"[[queues.class]]\nscheduling = \"wfq\"#!", "queues.class.scheduling", "one of weighted"},
      {"[[queues.class]]\negress_alpha = 2.0#!\npfc = { headroom = \"auto\" }",
       "queues.class.egress_alpha", "a class with pfc has none"},
      {"[flows]\npayload = \"0B\"#!", "flows.payload", "expected 1B"},
      {"[flows]\nack_priority = 9#!", "flows.ack_priority", "0 to 7"},
      {"[flows]\nack_every = 0#!", "flows.ack_every", "1 to"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.tables);
    const std::string text = with_tables(c.tables);
    const ConfigResult result = load_config_text(text, "bad.toml");
    ASSERT_FALSE(result) << "accepted";
    const std::vector<ConfigError>& errors = result.error();
    ASSERT_EQ(errors.size(), 1u) << describe(errors);
    EXPECT_EQ(errors[0].key, c.key);
    EXPECT_EQ(errors[0].line, marked_line(text)) << describe(errors);
    EXPECT_NE(errors[0].text().find(c.words), std::string::npos) << errors[0].text();
  }
}

}  // namespace
}  // namespace understudy
