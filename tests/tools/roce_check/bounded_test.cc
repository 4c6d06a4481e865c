// Captures of any length in bounded memory: a capture that is judged part by part gets the report
// that it gets as a whole, and what is kept does not grow with its packets.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/roce_check/conversation.h"
#include "tests/tools/roce_check/traffic.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

/// The report, without bursts, which are against the mean rate up to each part's end, and without
/// examples: those of a part come before those of the next, whatever connection they are of.
std::string report_of(const Analysis& analysis) {
  nlohmann::json out = nlohmann::json::parse(report_json(analysis, "capture"));
  for (auto& connection : out["connections"]) {
    for (const char* way : {"forward", "reverse"}) {
      if (connection[way].contains("rate")) connection[way]["rate"].erase("burst_bytes");
    }
  }
  out.erase("violations");
  for (auto& check : out["checks"]) check.erase("examples");
  return out.dump(1);
}

std::string report_of(const TestCapture& capture, size_t part) {
  AnalysisOptions options = talk_options();
  options.part = part;
  return report_of(capture.judge(options));
}

std::string report_of(const TrafficShape& shape, uint64_t packets, size_t part) {
  TrafficSource source(shape, packets);
  auto analysis = analyse(source, {.part = part});
  return analysis ? report_of(*analysis) : analysis.error().text;
}

TEST(Bounded, PartsOfRecordingsSayWhatTheWholeSays) {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(UNDERSTUDY_TEST_DATA) + "/rxe")) {
    if (entry.path().extension() != ".pcap") continue;
    const TestCapture capture = TestCapture::load(entry.path().string());
    EXPECT_EQ(report_of(capture, 20), report_of(capture, SIZE_MAX)) << entry.path();
  }
  for (const Conversation& talk : {eventful(), congested()}) {
    const std::string whole = report_of(talk.capture, SIZE_MAX);
    for (const size_t part : {1u, 2u, 3u, 7u, 16u}) EXPECT_EQ(report_of(talk.capture, part), whole);
  }
}

// That it lacks nothing is said at its end, and known from the beginning.
TEST(Bounded, ACaptureThatSaysThatItIsCompleteIsHeldToIt) {
  for (const uint64_t drops : {0u, 1u}) {
    Conversation c = eventful();
    c.capture.drops = drops;
    c.capture.erase(c.at("middle"));
    AnalysisOptions options = talk_options();
    options.part = 3;
    const Analysis analysis = c.capture.judge(options);
    EXPECT_EQ(analysis.findings.count(Rule::kA4_2), drops == 0 ? 1u : 0u) << all_examples(analysis);
    EXPECT_EQ(report_of(c.capture, 3), report_of(c.capture, SIZE_MAX));
  }
}

TEST(Bounded, PartsOfManyConnectionsSayWhatTheWholeSays) {
  for (const bool damage : {false, true}) {
    const TrafficShape shape{.connections = 5, .mtu = 256, .damage = damage};
    const std::string whole = report_of(shape, 6'000, SIZE_MAX);
    EXPECT_EQ(whole.find("\"holds\": true") == std::string::npos, damage) << whole;
    for (const size_t part : {100u, 1000u}) EXPECT_EQ(report_of(shape, 6'000, part), whole);
  }
}

TEST(Bounded, AnswersMayComePartsLater) {
  Conversation c;
  for (uint32_t i = 0; i < 150; ++i) c.client(Opcode::kWriteOnly, talk_psn(i), 64, 64);
  for (uint32_t i = 0; i < 150; ++i) c.ack(talk_psn(i), i + 1);
  EXPECT_EQ(report_of(c.capture, 40), report_of(c.capture, SIZE_MAX));
  // Too many packets for those that were sent to wait until then.
  const Analysis analysis = c.capture.judge({.part = 40, .most_held_back = 20});
  expect_holds(analysis);
  ASSERT_EQ(analysis.connections.size(), 1u);
  EXPECT_NE(analysis.connections[0].connection.reverse, kNoFlow);
  EXPECT_EQ(analysis.connections[0].forward.counts.unanswered, 0u);
}

// Small messages only, at first: what the packets of a message are cut to shows later.
TEST(Bounded, PathMtuMayShowPartsLater) {
  Conversation c;
  for (uint32_t i = 0; i < 300; ++i) {
    c.client(Opcode::kWriteOnly, talk_psn(i), 64, 64).ack(talk_psn(i), i + 1);
  }
  c.client(Opcode::kWriteFirst, talk_psn(300), 1024, 1536);
  c.client(Opcode::kWriteLast, talk_psn(301), 512).ack(talk_psn(301), 301);
  c.client(Opcode::kReadRequest, talk_psn(302), 0, 2000);
  c.server(Opcode::kReadResponseFirst, talk_psn(302), 302, kNoCredits, 1024);
  c.server(Opcode::kReadResponseLast, talk_psn(303), 302, kNoCredits, 976);
  for (const size_t part : {30u, 64u, 601u, 603u, 605u}) {
    const Analysis analysis = c.capture.judge({.part = part});
    expect_holds(analysis);
    EXPECT_EQ(analysis.connections[0].connection.pmtu, 1024u);
  }
}

// Bytes that are in use when the same traffic has gone on for twice as long.
TEST(Bounded, MemoryDoesNotGrowWithPackets) {
  for (const bool damage : {false, true}) {
    TrafficSource source({.connections = 2, .mtu = 256, .damage = damage}, 160'000);
    Analyser analyser({.part = 2'000});
    size_t in_use[2] = {};
    for (size_t half = 0; half < 2; ++half) {
      for (uint64_t i = 0; i < 80'000; ++i) {
        const auto frame = source.next();
        ASSERT_TRUE(frame && *frame);
        analyser.frame(**frame, source.summary());
      }
      analyser.settle(source.summary());
      in_use[half] = mallinfo2().uordblks;
    }
    EXPECT_LT(in_use[1], in_use[0] + in_use[0] / 50);
    for (auto frame = source.next(); frame && *frame; frame = source.next()) {
      analyser.frame(**frame, source.summary());  // the round to its end
    }
    EXPECT_EQ(analyser.finish(source.summary()).findings.hold(), !damage);
  }
}

TEST(Bounded, QuantilesOfManyDurations) {
  DurationSamples few, many;
  constexpr int64_t kCount = 100'000;
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t ns = 1 + i * 7'919 % kCount;  // each of 1 to kCount once
    many.add(Duration::ns(ns));
    if (i < 1'000) few.add(Duration::ns(i + 1));
  }
  EXPECT_EQ(few.quantile(500), Duration::ns(500));
  EXPECT_EQ(many.quantile(0), Duration::ns(1));
  EXPECT_EQ(many.quantile(1000), Duration::ns(kCount));
  for (const unsigned permille : {10u, 500u, 990u}) {
    const double exact = static_cast<double>(kCount) * permille / 1000;
    EXPECT_NEAR(many.quantile(permille).microseconds() * 1000, exact, exact * 0.01) << permille;
  }
  DurationSamples back;
  for (int64_t i = 0; i < 5'000; ++i) back.add(Duration::ns(-i));
  EXPECT_EQ(back.quantile(0), Duration::ns(-4'999));
  EXPECT_NEAR(back.quantile(500).microseconds(), -2.5, 0.025);
}

}  // namespace
}  // namespace understudy
