// A link changes while a ring runs over it: by a command or by an [[event]], visible in the
// capture from that time on.
#include <algorithm>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

constexpr Time kChange = Time::zero() + Duration::ms(20);
constexpr Duration kLatency = Duration::us(250);  // of the real node's link

RingText ring() {
  RingText text;
  text.rate = "100Mbit/s";
  text.latency = "250us";
  text.sizes = "\"1MiB\"";
  return text;
}

/// How long the link serialises each packet inside messages to the real node, by the time at which
/// the packet before it left; as a rate in Mbit/s.
struct Pace {
  Time from;
  double mbits;
};
std::vector<Pace> paces(const Config& config, const Analysis& analysis) {
  std::vector<Pace> out;
  const PacketRecord* before = nullptr;
  for (const PacketRecord& p : analysis.table.packets) {
    if (analysis.table.flows[p.flow].dst != *config.nodes[0].nics[0].v4) continue;
    if (before != nullptr && before->flow == p.flow && p.payload_bytes == config.fabric.mtu &&
        before->payload_bytes == config.fabric.mtu && !p.info().start) {
      out.push_back(
          {before->scheduled, p.wire_bytes * 8 / (p.scheduled - before->scheduled).microseconds()});
    }
    before = &p;
  }
  return out;
}

/// Expects `before` and `after` Mbit/s on the two sides of the change. It reaches the far end of
/// the link a latency later; a packet then on the wire keeps its time.
void expect_step(const std::vector<Pace>& paces, double before, double after) {
  const Time step = kChange + kLatency;
  size_t earlier = 0, later = 0;
  for (const Pace& pace : paces) {
    if (pace.from < step - Duration::ms(1)) {
      EXPECT_NEAR(pace.mbits, before, 0.01 * before) << pace.from.ps();
      ++earlier;
    } else if (pace.from > step) {
      EXPECT_NEAR(pace.mbits, after, 0.01 * after) << pace.from.ps();
      ++later;
    }
  }
  EXPECT_GT(earlier, 32u);
  EXPECT_GT(later, 32u);
}

TEST(SimulateChange, ACommandShowsInTheCaptureAtItsTime) {
  const Config config = config_of(ring().text());
  const ScratchFile file("pcapng");
  const RunReport report = simulated(config, file.path(), {"at 20ms link gpu rate 50Mbit/s"});
  ASSERT_EQ(report.commands.size(), 1u);
  EXPECT_EQ(report.commands[0].at, kChange);
  EXPECT_EQ(report.commands[0].text, "link gpu rate 50000000bit/s");
  const Analysis analysis = judged(file.path(), &config);
  expect_step(paces(config, analysis), 100, 50);
  expect_holds(analysis);
}

TEST(SimulateChange, AnEventIsTheSameAsACommand) {
  const ScratchFile by_command("command"), by_event("event");
  const RunReport commanded = simulated(config_of(ring().text()), by_command.path(),
                                        {"at 20ms link gpu rate 50Mbit/s latency 400us"});
  RingText text = ring();
  text.more =
      "[[event]]\nat = \"20ms\"\nlink = \"gpu\"\nrate = \"50Mbit/s\"\nlatency = \"400us\"\n";
  const Config config = config_of(text.text());
  const RunReport planned = simulated(config, by_event.path());
  EXPECT_TRUE(by_command.bytes() == by_event.bytes());
  ASSERT_EQ(planned.commands.size(), 1u);
  EXPECT_EQ(planned.commands[0].text, commanded.commands[0].text);
  EXPECT_EQ(planned.jobs[0].collectives[0].node_reported,
            commanded.jobs[0].collectives[0].node_reported);
  expect_holds(judged(by_event.path(), &config));
}

TEST(SimulateChange, LatencyAndOtherNodesLinks) {
  const Config config = config_of(ring().text());
  for (const char* command : {"at 20ms link gpu latency 5ms", "at 20ms link gpu latency 10us",
                              "at 20ms link w2 rate 50Mbit/s", "at 20ms link w0 rate 50Mbit/s"}) {
    const ScratchFile file("pcapng");
    EXPECT_TRUE(simulated(config, file.path(), {command}).verdict.faithful) << command;
    expect_holds(judged(file.path(), &config));
  }
}

/// Packets on their way when a latency is cut are not overtaken by those behind them.
TEST(SimulateChange, ACutLatencyKeepsOrder) {
  RingText text = ring();
  text.latency = "5ms";
  const Config config = config_of(text.text());
  for (const char* node : {"gpu", "w0", "w2"}) {
    const RunReport report =
        simulated(config, "", {std::string("at 60ms link ") + node + " latency 10us"});
    ASSERT_EQ(report.ports.size(), 1u);
    for (const auto& [name, count] : report.ports[0].rc_events) {
      if (name == "psn_gap" || name == "retransmit") {
        EXPECT_EQ(count, 0u) << node << " " << name;
      }
    }
  }
}

/// The plan does not know of a change; nobody waits for ever because of that. Here the successor's
/// last credits come when the real rank has used all that it will receive, but has still to send.
TEST(SimulateChange, ASlowedSuccessorStillGetsEverything) {
  for (const char* payload : {"synthetic", "exact"}) {
    RingText text = ring();
    text.job = std::string("channels = 2\niterations = 3\npayload = \"") + payload + "\"\n";
    const Config config = config_of(text.text());
    const RunReport report = simulated(config, "", {"at 20ms link w0 rate 20Mbit/s"});
    EXPECT_TRUE(report.verdict.faithful) << payload;
    ASSERT_EQ(report.jobs.size(), 1u);
    EXPECT_EQ(report.jobs[0].collectives.size(), 3u);
    for (const CollectiveReport& c : report.jobs[0].collectives) {
      EXPECT_EQ(c.wrong_elements.value_or(0), 0u);
    }
  }
}

/// Operations that take longer than planned run into the next one's entry: emulated ranks that are
/// through enter it, and their first messages come while the real rank is still busy.
TEST(SimulateChange, OperationsMayOverlap) {
  for (const char* job : {"channels = 1\n", "channels = 3\n", "step_cost = \"200us\"\n"}) {
    RingText text = ring();
    text.sizes = "\"100000B\", \"4B\", \"70000B\"";
    text.job = std::string("iterations = 3\npayload = \"exact\"\n") + job;
    std::string all = text.text();
    const std::string interval = "interval = \"1ms\"";
    all.replace(all.find(interval), interval.size(), "interval = \"0us\"");
    const Config config = config_of(all);
    for (const char* command : {"at 1ms link gpu rate 20Mbit/s", "at 1ms link w0 rate 20Mbit/s",
                                "at 1ms link gpu latency 2ms", "at 1ms link w2 latency 2ms"}) {
      const RunReport report = simulated(config, "", {command});
      EXPECT_TRUE(report.verdict.faithful) << job << command;
      ASSERT_EQ(report.jobs.size(), 1u);
      EXPECT_EQ(report.jobs[0].collectives.size(), 9u) << job << command;
      EXPECT_EQ(report.jobs[0].violations, 0u) << job << command;
    }
  }
}

/// The record in the capture explains the change: without it, and without an [[event]], the same
/// packets break the configured rate.
TEST(SimulateChange, OnlyTheRecordExplainsIt) {
  const Config config = config_of(ring().text());
  const ScratchFile file("pcapng");
  simulated(config, file.path(), {"at 20ms link gpu rate 50Mbit/s"});
  TestCapture capture = TestCapture::load(file.path());  // leaves the records behind
  expect_fails(capture.judge({.config = &config}), Check::kRate);
  // An [[event]] in the configuration says the same as the record.
  RingText knowing = ring();
  knowing.more = "[[event]]\nat = \"20ms\"\nlink = \"gpu\"\nrate = \"50Mbit/s\"\n";
  const Config with_event = config_of(knowing.text());
  expect_holds(capture.judge({.config = &with_event}));
}

/// A record is held to: it does not excuse packets that do not follow it.
TEST(SimulateChange, ARecordWithoutAChangeFails) {
  const Config config = config_of(ring().text());
  const ScratchFile file("pcapng");
  simulated(config, file.path());
  TestCapture capture = TestCapture::load(file.path());
  expect_holds(capture.judge({.config = &config}));
  const auto later =
      std::ranges::find_if(capture.frames, [](const TestFrame& f) { return f.at >= kChange; });
  ASSERT_NE(later, capture.frames.end());
  later->changes.push_back({kChange, 0, Rate::bits_per_second(50'000'000), std::nullopt});
  expect_fails(capture.judge({.config = &config}), Check::kRate);
}

}  // namespace
}  // namespace understudy
