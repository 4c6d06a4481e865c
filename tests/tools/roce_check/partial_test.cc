// roce-check on captures that begin inside connections or lack packets: what was not captured is
// said not to be, and nobody is accused of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string_view>

#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

const char* const kRecordings[] = {"rxe612_write_64k_x5_mtu1024",
                                   "rxe_atomic_x30_serverloss10pct_ack_timeout",
                                   "rxe_fetchadd_rdmacm",
                                   "rxe_rc_pingpong",
                                   "rxe_read_4k_mtu1024_rdmacm",
                                   "rxe_rping_3x1000",
                                   "rxe_send_4k_mtu1024_rdmacm",
                                   "rxe_send_rnr_nak",
                                   "rxe_ucmatose",
                                   "rxe_write_16k_x10_clientloss6pct_nak_seq",
                                   "rxe_write_4k_mtu1024_rdmacm",
                                   "rxe_write_badrkey_nak_remote_access",
                                   "rxe_write_ipv6_linklocal"};

std::vector<TestCapture> good_captures() {
  std::vector<TestCapture> out;
  for (const char* name : kRecordings) out.push_back(TestCapture::load(recording(name)));
  out.push_back(eventful().capture);
  // As others write captures: without a count of what they lack.
  for (TestCapture& capture : out) capture.own = capture.statistics = false;
  return out;
}

AnalysisOptions partial() {
  AnalysisOptions options;
  options.partial = true;
  return options;
}

uint64_t not_captured(const Analysis& analysis) {
  uint64_t out = 0;
  for (const ConnectionResult& c : analysis.connections) {
    out += c.forward.counts.not_captured + c.reverse.counts.not_captured;
  }
  return out;
}

TEST(Partial, BeginsAnywhere) {
  for (const TestCapture& good : good_captures()) {
    for (size_t first = 1; first < good.frames.size(); first += 1 + good.frames.size() / 40) {
      TestCapture capture = good;
      capture.frames.erase(capture.frames.begin(),
                           capture.frames.begin() + static_cast<std::ptrdiff_t>(first));
      const Analysis analysis = capture.judge(partial());
      EXPECT_TRUE(analysis.findings.hold()) << "from frame " << first + 1 << '\n'
                                            << all_examples(analysis);
    }
  }
}

// With UNDERSTUDY_FULL=1 (--full) 50 times as many rounds.
TEST(Partial, LacksPackets) {
  const char* full = std::getenv("UNDERSTUDY_FULL");
  const int rounds = full != nullptr && std::string_view(full) == "1" ? 2000 : 40;
  std::mt19937_64 random(11);
  uint64_t missing = 0;
  for (const TestCapture& good : good_captures()) {
    for (int round = 0; round < rounds; ++round) {
      TestCapture capture = good;
      const uint64_t every = 2 + random() % 30;
      std::erase_if(capture.frames, [&](const TestFrame&) { return random() % every == 0; });
      if (capture.frames.empty()) continue;
      const Analysis analysis = capture.judge(partial());
      missing += not_captured(analysis);
      EXPECT_TRUE(analysis.findings.hold()) << "round " << round << '\n' << all_examples(analysis);
    }
  }
  EXPECT_GT(missing, 1000u);
}

TEST(Partial, OneDirection) {
  for (const TestCapture& good : good_captures()) {
    FrameView view;
    RoceView roce;
    parse_frame(good.frames.front().bytes, view, roce);
    for (const bool wanted : {true, false}) {
      TestCapture capture = good;
      std::erase_if(capture.frames, [&](const TestFrame& f) {
        FrameView other;
        RoceView unused;
        parse_frame(f.bytes, other, unused);
        return (other.src == view.src) != wanted;
      });
      const Analysis analysis = capture.judge(partial());
      EXPECT_TRUE(analysis.findings.hold()) << all_examples(analysis);
    }
  }
}

// The same packet is missing: once the capture says of itself that it lacks nothing.
TEST(Partial, NotCapturedIsNotLost) {
  TestCapture capture = TestCapture::load(recording("rxe_write_64k_x5_mtu1024"));
  capture.erase(capture.find(Opcode::kWriteMiddle, 100));
  const Analysis certain = capture.judge();
  EXPECT_EQ(certain.findings.count(Rule::kA4_2), 1u) << all_examples(certain);
  EXPECT_EQ(not_captured(certain), 0u);
  capture.own = capture.statistics = false;
  const Analysis unknown = capture.judge();
  EXPECT_EQ(unknown.findings.count(Rule::kA4_2), 0u) << all_examples(unknown);
  EXPECT_EQ(not_captured(unknown), 1u);
  expect_fails(unknown, Check::kComplete);
  const std::string text = report_text(unknown, "x");
  EXPECT_NE(text.find("not captured     1 packets"), std::string::npos) << text;
  EXPECT_EQ(text.find("lost before"), std::string::npos) << text;
}

// A suspicion counts as long as nothing else shows that the capture lacks packets.
TEST(Partial, SuspicionNeedsAWholeCapture) {
  Conversation c = eventful();
  c.capture.own = c.capture.statistics = false;
  c.capture.erase(c.at("send again"));
  const Analysis whole = c.capture.judge();
  EXPECT_EQ(whole.findings.count(Rule::kA4_11), 1u) << all_examples(whole);
  c.capture.erase(c.at("middle"));
  const Analysis gaps = c.capture.judge(partial());
  expect_holds(gaps);
  EXPECT_EQ(gaps.findings.undecided(), 1u);
}

// The first answers are to what was sent before the capture began.
TEST(Partial, AnswerBeforeItsRequest) {
  Conversation c;
  c.client(Opcode::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1);
  c.ack(talk_psn(5), 6).name("early");  // of requests that were not captured, as the next one shows
  c.client(Opcode::kSendOnly, talk_psn(6), 64).ack(talk_psn(6), 7);
  c.capture.own = c.capture.statistics = false;
  const Analysis proven = c.capture.judge(partial());
  expect_holds(proven);
  EXPECT_EQ(not_captured(proven), 5u);
  Conversation d;
  d.client(Opcode::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1);
  d.ack(talk_psn(5), 1);  // an invention: the next request is the next one
  d.client(Opcode::kSendOnly, talk_psn(1), 64).ack(talk_psn(1), 2);
  d.capture.own = d.capture.statistics = false;
  const Analysis invented = d.capture.judge();
  EXPECT_EQ(invented.findings.count(Rule::kA5_3), 1u) << all_examples(invented);
}

// A network that makes copies and changes the order: no fault of the endpoints, for those who say
// that it did.
TEST(Impaired, CopiesAndOvertaking) {
  AnalysisOptions impaired;
  impaired.impaired = true;
  Conversation overtaken;  // between the capture and the responder
  for (uint32_t i = 0; i < 4; ++i) overtaken.client(Opcode::kWriteOnly, talk_psn(i), 64, 64);
  overtaken.ack(talk_psn(1), 1, kSyndromeNak);
  overtaken.ack(talk_psn(1), 2);
  for (uint32_t i = 2; i < 4; ++i) overtaken.client(Opcode::kWriteOnly, talk_psn(i), 64, 64);
  overtaken.ack(talk_psn(3), 4);
  Conversation acks;  // between the responder and the capture
  for (uint32_t i = 0; i < 2; ++i) acks.client(Opcode::kWriteOnly, talk_psn(i), 64, 64);
  acks.ack(talk_psn(1), 2).ack(talk_psn(0), 1);
  for (const auto& [talk, rule] :
       {std::pair{&overtaken, Rule::kA4_2}, std::pair{&acks, Rule::kA4_10}}) {
    expect_holds(talk->capture.judge(impaired));
    EXPECT_EQ(talk->capture.judge().findings.count(rule), 1u)
        << all_examples(talk->capture.judge());
  }
}

// A NAK counts the messages before its PSN: an ACK of that PSN may count one more and come first.
TEST(Impaired, NakThatIsOvertakenByAnAck) {
  AnalysisOptions impaired;
  impaired.impaired = true;
  Conversation c;
  c.client(Opcode::kWriteOnly, talk_psn(0), 64, 64).client(Opcode::kWriteOnly, talk_psn(1), 64, 64);
  c.client(Opcode::kWriteOnly, talk_psn(2), 64, 64).ack(talk_psn(1), 2);
  c.ack(talk_psn(1), 1, kSyndromeNak).ack(talk_psn(2), 3);
  expect_holds(c.capture.judge(impaired));
}

// The first packet of all is lost, or overtaken.
TEST(Impaired, FirstPacketComesLate) {
  for (const bool cm : {false, true}) {
    Conversation c;
    if (cm) talk_connect(c);
    c.client(Opcode::kWriteOnly, talk_psn(1), 64, 64)
        .client(Opcode::kWriteOnly, talk_psn(2), 64, 64);
    c.ack(talk_psn(0), 0, kSyndromeNak);
    for (uint32_t i = 0; i < 3; ++i) c.client(Opcode::kWriteOnly, talk_psn(i), 64, 64);
    c.ack(talk_psn(2), 3);
    const Analysis analysis = c.capture.judge();
    expect_holds(analysis);
    EXPECT_EQ(analysis.connections[0].forward.counts.late, 1u);
    EXPECT_EQ(analysis.connections[0].forward.messages.size(), 3u);
  }
}

// Before the capture it is to be seen, and needs no saying.
TEST(Impaired, OvertakenBeforeTheCapture) {
  Conversation c;
  c.client(Opcode::kWriteOnly, talk_psn(0), 64, 64).client(Opcode::kWriteOnly, talk_psn(2), 64, 64);
  c.client(Opcode::kWriteOnly, talk_psn(1), 64, 64);  // crosses the NAK
  c.ack(talk_psn(1), 1, kSyndromeNak).ack(talk_psn(1), 2);
  c.client(Opcode::kWriteOnly, talk_psn(2), 64, 64).ack(talk_psn(2), 3);
  expect_holds(c.capture.judge());
}

}  // namespace
}  // namespace understudy
