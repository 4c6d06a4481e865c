// roce-check with a configuration: queues that did not keep their rate and steps with other bytes
// than the model's are found.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/ring.h"

namespace understudy {
namespace {

TEST(Rate, FaithfulRunHolds) {
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  const Analysis analysis = judge_ring(config);
  expect_holds(analysis);
  EXPECT_EQ(analysis.findings.verdict(Check::kRate), Verdict::kHolds);
  EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
}

TEST(Rate, FivePercentFasterFails) {
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  expect_fails(judge_ring(config, {.out_speed = 1.05}), Check::kRate);
  expect_fails(judge_ring(config, {.in_speed = 1.05}), Check::kRate);
}

TEST(Rate, FivePercentSlowerFails) {
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  expect_fails(judge_ring(config, {.out_speed = 0.95}), Check::kRate);
}

// What shares the network, or is slower in it, may hold messages up as much as it likes.
TEST(Rate, ASlowPaceIsNotJudgedWhereOthersShareThePath) {
  const RingKnobs slow{.out_speed = 0.5};
  expect_fails(judge_ring(ring_config(ring_config_text("100Mbit/s")), slow), Check::kRate);
  const std::string traffic = R"([[traffic]]
name = "beside"
pattern = "flow"
from = ["w0"]
to = ["gpu"]
size = "1MB"
)";
  const std::string topology = R"([topology]
kind = "leaf_spine"
hosts_per_leaf = 1
spines = 1
uplink = { rate = "50Mbit/s", latency = "1us" }
)";
  const std::string control = "[[control]]\nname = \"dcqcn\"\nlaw = \"dcqcn\"\n";
  for (const std::string& more : {traffic, topology, control}) {
    const Config config = ring_config(ring_config_text("100Mbit/s", more));
    const Analysis analysis = judge_ring(config, slow);
    EXPECT_EQ(analysis.findings.count(Rule::kRate), 0u) << more << all_examples(analysis);
    EXPECT_TRUE(std::ranges::any_of(
        analysis.findings.notes(Check::kRate),
        [](const std::string& note) { return note.find("pace not judged") != std::string::npos; }));
    // Faster than its link is nothing, whoever shares it.
    expect_fails(judge_ring(config, {.out_speed = 1.05}), Check::kRate);
  }
}

TEST(Rate, HalfAPercentIsTolerated) {
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  expect_holds(judge_ring(config, {.out_speed = 1.005, .in_speed = 1.005}));
}

TEST(Rate, WithoutPacingFailsWhateverTheConfigurationSays) {
  for (const char* fabric : {"", "[fabric]\npacing = false\n"}) {
    const Config config = ring_config(ring_config_text("100Mbit/s", fabric));
    expect_fails(judge_ring(config, {.pacing = false}), Check::kRate);
  }
}

constexpr const char* kHalved = R"([[event]]
at = "60ms"
link = "gpu"
rate = "50Mbit/s"
)";
const RingKnobs kHalvedAt60{.slow_from = Time::zero() + Duration::ms(60)};

TEST(Rate, LiveChangeOfTheConfiguration) {
  const Config steady = ring_config(ring_config_text("100Mbit/s"));
  const Config changed = ring_config(ring_config_text("100Mbit/s", kHalved));
  expect_holds(judge_ring(changed, kHalvedAt60));
  expect_fails(judge_ring(changed), Check::kRate);  // nobody slowed down
}

TEST(Rate, LiveChangeRecordedInTheCapture) {
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  RingScript script(config, {});
  TestCapture capture = script.make(expected_connections(config));
  capture.frames.front().changes.push_back(
      {Time::zero() + Duration::ms(60), 0, Rate::bits_per_second(50'000'000), std::nullopt});
  expect_fails(capture.judge({.config = &config}), Check::kRate);
  RingScript slower(config, kHalvedAt60);
  TestCapture good = slower.make(expected_connections(config));
  good.frames.front().changes = capture.frames.front().changes;
  expect_holds(good.judge({.config = &config}));
}

TEST(Rate, SlowerLinkOfTheSender) {
  const std::string text = ring_config_text("100Mbit/s");
  std::string slow = text;
  const auto at = slow.rfind("100Mbit/s");
  slow.replace(at, 9, "50Mbit/s");
  RingScript script(ring_config(text), {});
  const Config config = ring_config(slow);
  expect_fails(script.make(expected_connections(config)).judge({.config = &config}), Check::kRate);
}

TEST(Rate, ConfigurationOfAnotherRun) {
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  std::string text = ring_config_text("100Mbit/s");
  text.replace(text.find("10.9.0.0"), 8, "10.8.0.0");
  const Config other = ring_config(text);
  RingScript script(config, {});
  expect_fails(script.make(expected_connections(config)).judge({.config = &other}), Check::kRate);
}

// Taken by others, as inside the virtual node: no schedule, no direction, and 10 ms of jitter are
// forgiven, which hides small excesses in short messages.
TEST(Rate, CaptureWithoutSchedule) {
  const Config config = ring_config(ring_config_text("100Mbit/s", "", "6MiB"));
  auto capture = [&](double speed) {
    RingScript script(config, {.out_speed = speed});
    TestCapture out = script.make(expected_connections(config));
    out.own = false;
    return out;
  };
  expect_holds(capture(1).judge({.config = &config}));
  expect_fails(capture(1.25).judge({.config = &config}), Check::kRate);
}

// The messages of one connection, changed, against the unchanged configuration.
class Collective : public testing::Test {
 protected:
  Analysis judge(bool open_end = false) {
    RingScript script(config, {});
    return script.make(connections).judge({.open_end = open_end, .config = &config});
  }
  const Config config = ring_config(ring_config_text("100Mbit/s"));
  std::vector<ExpectedConnection> connections = expected_connections(config);
};

// A message is in parts, or messages take turns; by [nccl] or by the job's own word.
TEST_F(Collective, SeveralQueuePairsAreNotJudged) {
  const std::string text = ring_config_text("100Mbit/s");
  std::string joined = text;
  joined.replace(joined.find("[[job]]\n"), 8,
                 "[[job]]\njoin = { file = \"id\", queue_pairs = 2 }\n");
  for (const std::string& several :
       {text + "[nccl]\nenvironment = { NCCL_IB_QPS_PER_CONNECTION = \"2\" }\n", joined}) {
    std::vector<std::string> unknown;
    EXPECT_TRUE(expected_connections(ring_config(several), &unknown).empty());
    ASSERT_EQ(unknown.size(), 1u);
    EXPECT_NE(unknown[0].find("several queue pairs"), std::string::npos);
  }
}

TEST_F(Collective, ExpectationIsTheRingSchedule) {
  // 768 KiB on 3 ranks: chunks of 256 KiB, 4 steps of 2 slices of 128 KiB, a warm-up and one more.
  ASSERT_EQ(connections.size(), 2u);
  EXPECT_EQ(config.nodes[connections[0].from].name, "gpu");
  EXPECT_EQ(config.nodes[connections[0].to].name, "w0");
  EXPECT_EQ(config.nodes[connections[1].from].name, "w1");
  EXPECT_EQ(connections[0].sizes, std::vector<uint32_t>(16, 131072));
  expect_holds(judge());
}

TEST_F(Collective, MissingMessage) {
  connections[1].sizes.pop_back();
  expect_fails(judge(), Check::kCollective);
  expect_holds(judge(true));  // as after a stop in mid-run
}

TEST_F(Collective, MessageTooMany) {
  connections[0].sizes.push_back(131072);
  expect_fails(judge(), Check::kCollective);
  expect_fails(judge(true), Check::kCollective);
}

TEST_F(Collective, OtherBytes) {
  connections[0].sizes[5] += 16;
  const Analysis analysis = judge();
  expect_fails(analysis, Check::kCollective);
  const std::string text = analysis.findings.examples(Check::kCollective).front().text;
  EXPECT_NE(text.find("message 5 has 131088 bytes, the model says 131072"), std::string::npos)
      << text;
}

TEST_F(Collective, ConnectionMissing) {
  connections.pop_back();
  expect_fails(judge(), Check::kCollective);
}

TEST_F(Collective, UnexplainedConnection) {
  connections.push_back(connections[0]);
  connections.back().sizes = {4, 8, 12};
  expect_fails(judge(), Check::kCollective);
}

TEST_F(Collective, JobThatRanTwice) {
  connections.push_back(connections[0]);
  connections.push_back(connections[1]);
  expect_holds(judge());
}

TEST_F(Collective, OtherSizeInTheConfiguration) {
  const Config other = ring_config(ring_config_text("100Mbit/s", "", "1MiB"));
  RingScript script(config, {});
  expect_fails(script.make(connections).judge({.config = &other}), Check::kCollective);
}

}  // namespace
}  // namespace understudy
