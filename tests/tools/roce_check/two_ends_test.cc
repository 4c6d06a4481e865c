// roce-check with captures of both ends: what was lost between them, whatever their clocks say.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/between/two_ends.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

constexpr Duration kWay = Duration::us(2);  // from one capture to the other

struct Ends {
  TestCapture client, server;
  Between compare() const { return compare_ends(client.judge(), server.judge()); }
};

/// What both ends see of a conversation whose stamps are those of the sender; the server's clock is
/// ahead.
Ends ends_of(const Conversation& talk, Duration ahead) {
  Ends out;
  out.client.own = out.server.own = out.client.statistics = out.server.statistics = false;
  for (const TestFrame& frame : talk.capture.frames) {
    const bool from_client = frame.roce().dest_qpn == kTalkServer;
    TestFrame at_client = frame, at_server = frame;
    (from_client ? at_server : at_client).at += kWay;
    at_server.at += ahead;
    out.client.frames.push_back(std::move(at_client));
    out.server.frames.push_back(std::move(at_server));
  }
  return out;
}

/// Eight WRITEs and their ACKs.
Conversation writes() {
  Conversation c;
  for (uint32_t i = 0; i < 8; ++i) {
    c.client(Opcode::kWriteOnly, talk_psn(i), 64, 64).name("write " + std::to_string(i));
    c.ack(talk_psn(i), i + 1).name("ack " + std::to_string(i));
  }
  return c;
}

const WayBetween& to(const Between& between, Qpn qpn) {
  for (const WayBetween& way : between.ways) {
    if (way.name.ends_with("QP " + std::to_string(qpn))) return way;
  }
  ADD_FAILURE() << "no way to " << qpn;
  return between.ways.front();
}

TEST(TwoEnds, NothingIsLostWhateverTheClocksSay) {
  for (const Duration ahead : {Duration(), Duration::ms(300), Duration::s(5)}) {
    const Between between = ends_of(writes(), ahead).compare();
    ASSERT_TRUE(between.clock_ahead);
    EXPECT_EQ(*between.clock_ahead, ahead);
    ASSERT_EQ(between.ways.size(), 2u);
    for (const Qpn qpn : {kTalkServer, kTalkClient}) {
      const WayBetween& way = to(between, qpn);
      EXPECT_EQ(way.from_a, qpn == kTalkServer);
      EXPECT_EQ(way.sent, 8u);
      EXPECT_EQ(way.came, 8u);
      EXPECT_EQ(way.lost + way.unseen + way.overtaken, 0u);
      EXPECT_EQ(way.delay.quantile(0), kWay);
      EXPECT_EQ(way.delay.quantile(1000), kWay);
    }
  }
}

TEST(TwoEnds, LossesAreNamedWithTheirFrames) {
  const Conversation talk = writes();
  Ends ends = ends_of(talk, Duration::ms(1));
  ends.client.erase(talk.at("ack 6"));
  ends.server.erase(talk.at("write 3"));
  const Between between = ends.compare();
  const WayBetween& there = to(between, kTalkServer);
  EXPECT_EQ(there.lost, 1u);
  ASSERT_EQ(there.first_lost.size(), 1u);
  EXPECT_EQ(there.first_lost[0].frame, talk.at("write 3") + 1);
  EXPECT_EQ(to(between, kTalkClient).lost, 1u);
  EXPECT_EQ(between.lost(), 2u);
  const std::string text = between_text(between, "a.pcap", "b.pcap");
  EXPECT_NE(text.find("8 packets, 7 came, 1 lost"), std::string::npos) << text;
  EXPECT_NE(text.find("lost: frame 7 at "), std::string::npos) << text;
}

// Sent twice, and one of both came: the stamps tell which.
TEST(TwoEnds, OfARepeatedPacketTheStampsTellWhichOneWasLost) {
  for (const bool first_lost : {true, false}) {
    Conversation talk = writes();
    talk.wait(Duration::ms(1)).client(Opcode::kWriteOnly, talk_psn(7), 64, 64).name("again");
    Ends ends = ends_of(talk, Duration::us(700));
    const char* lost = first_lost ? "write 7" : "again";
    ends.server.erase(talk.at(lost));
    const WayBetween way = to(ends.compare(), kTalkServer);
    ASSERT_EQ(way.first_lost.size(), 1u);
    EXPECT_EQ(way.first_lost[0].frame, talk.at(lost) + 1);
    EXPECT_EQ(way.delay.quantile(1000), kWay);
  }
}

TEST(TwoEnds, OvertakenAndNotCapturedAtTheSendersEnd) {
  const Conversation talk = writes();
  Ends ends = ends_of(talk, Duration());
  auto& frames = ends.server.frames;
  TestFrame late = frames[talk.at("write 4")];
  late.at = frames[talk.at("write 5")].at + Duration::us(1);
  frames.insert(frames.begin() + static_cast<long>(talk.at("write 5")) + 1, late);
  ends.server.erase(talk.at("write 4"));
  ends.client.erase(talk.at("write 1"));
  const WayBetween way = to(ends.compare(), kTalkServer);
  EXPECT_EQ(way.overtaken, 1u);
  EXPECT_EQ(way.unseen, 1u);
  EXPECT_EQ(way.lost, 0u);
  EXPECT_EQ(way.came, 7u);
}

TEST(TwoEnds, WhatOnlyOneEndHasIsNotJudged) {
  Ends ends = ends_of(writes(), Duration());
  Conversation other;
  other.client(Opcode::kSendOnly, talk_psn(0), 64);
  ends.server.frames = other.capture.frames;
  const Between between = ends.compare();
  EXPECT_FALSE(between.clock_ahead);
  EXPECT_EQ(between.unjudged, 2u);
  EXPECT_NE(between_text(between, "a", "b").find("not judged"), std::string::npos);
}

}  // namespace
}  // namespace understudy
