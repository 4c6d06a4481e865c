// TCP's states by scripts of segments (RFC 9293 3.5, 3.6, 3.10.7): how connections begin and end.
#include <array>
#include <functional>
#include <memory>

#include "tests/rigs/tcp_script.h"

namespace understudy {
namespace {

using Start = TcpScript::Start;

TEST(TcpStates, WeCall) {
  TcpScript s(Start::kCalling);
  EXPECT_EQ(s.sent(), "S 0");
  s.come("SA", 0, 1);
  EXPECT_EQ(s.state(), TcpState::kEstablished);
  EXPECT_EQ(s.sent(), "A 1 1");
  EXPECT_TRUE(s.tcp().deadline().is_never());
}

TEST(TcpStates, WeAreCalled) {
  TcpScript s(Start::kCalled);
  EXPECT_EQ(s.sent(), "SA 0 1");
  EXPECT_FALSE(s.tcp().connected());
  s.come("A", 1, 1);
  EXPECT_TRUE(s.tcp().connected());
  EXPECT_EQ(s.sent(), "");
}

TEST(TcpStates, TheAnswerToACallIsRepeatedWhenTheCallIs) {
  TcpScript s(Start::kCalled);
  s.sent();
  s.wait();
  EXPECT_EQ(s.sent(), "SA 0 1");
  s.come("S", 0, 0);
  EXPECT_EQ(s.sent(), "SA 0 1");
  s.come("A", 1, 1);
  EXPECT_EQ(s.state(), TcpState::kEstablished);
}

TEST(TcpStates, DataMayComeWithTheHandshakesLastSegment) {
  TcpScript s(Start::kCalled);
  s.sent();
  s.come("PA", 1, 1, "hello");
  EXPECT_EQ(s.sent(), "A 1 6");
  EXPECT_EQ(s.heard(), "hello");
}

TEST(TcpStates, ACallIsRefused) {
  TcpScript s(Start::kCalling);
  s.come("R", 0, 1);  // without an ACK it may be of anything
  s.come("RA", 0, 7);
  EXPECT_EQ(s.state(), TcpState::kSynSent);
  s.come("RA", 0, 1);
  EXPECT_EQ(s.state(), TcpState::kClosed);
  EXPECT_EQ(s.tcp().end(), TcpEnd::kReset);
  EXPECT_EQ(s.sent(), "S 0");
}

TEST(TcpStates, AnOldConnectionsAnswerIsReset) {
  TcpScript s(Start::kCalling);
  s.sent();
  s.come("SA", 0, 500);
  EXPECT_EQ(s.sent(), "R 500");
  s.come("A", 0, 0);
  EXPECT_EQ(s.sent(), "R 0");
  EXPECT_EQ(s.state(), TcpState::kSynSent);
  s.come("SA", 0, 1);
  EXPECT_EQ(s.state(), TcpState::kEstablished);
}

TEST(TcpStates, AnAnswerThatWasNotGivenIsReset) {
  TcpScript s(Start::kCalled);
  s.sent();
  s.come("A", 1, 2);
  EXPECT_EQ(s.sent(), "R 2");
  EXPECT_EQ(s.state(), TcpState::kSynReceived);
}

TEST(TcpStates, BothCall) {
  TcpScript s(Start::kCalling);
  s.sent();
  s.come("S", 0, 0);
  EXPECT_EQ(s.state(), TcpState::kSynReceived);
  EXPECT_EQ(s.sent(), "SA 0 1");
  s.come("SA", 0, 1);  // theirs, to our first SYN: its SYN is known
  EXPECT_EQ(s.sent(), "A 1 1");
  s.come("A", 1, 1);  // and their answer to our SYN, ACK
  EXPECT_EQ(s.state(), TcpState::kEstablished);
  s.say("x");
  EXPECT_EQ(s.sent(), "PA 1 1 +1");
}

TEST(TcpStates, WeCloseFirst) {
  TcpScript s(Start::kEstablished);
  s.say("bye");
  s.close();
  EXPECT_EQ(s.sent(), "PA 1 1 +3, FA 4 1");
  EXPECT_EQ(s.state(), TcpState::kFinWait1);
  s.come("A", 1, 4);
  EXPECT_EQ(s.state(), TcpState::kFinWait1);
  s.come("A", 1, 5);
  EXPECT_EQ(s.state(), TcpState::kFinWait2);
  EXPECT_TRUE(s.tcp().deadline().is_never());
  s.come("FA", 1, 5);
  EXPECT_EQ(s.state(), TcpState::kTimeWait);
  EXPECT_EQ(s.sent(), "A 5 2");
  s.come("FA", 1, 5);  // our ACK was lost
  EXPECT_EQ(s.sent(), "A 5 2");
  EXPECT_TRUE(s.tcp().deadline().is_never());
}

TEST(TcpStates, TheOtherSideClosesFirst) {
  TcpScript s(Start::kEstablished);
  s.come("FPA", 1, 1, "bye");
  EXPECT_EQ(s.state(), TcpState::kCloseWait);
  EXPECT_EQ(s.sent(), "A 1 5");
  EXPECT_TRUE(s.tcp().end_of_input());
  EXPECT_EQ(s.heard(), "bye");
  s.say("more");  // our direction is open
  s.come("A", 5, 5);
  s.close();
  EXPECT_EQ(s.state(), TcpState::kLastAck);
  EXPECT_EQ(s.sent(), "PA 1 5 +4, FA 5 5");
  s.come("A", 5, 6);
  EXPECT_EQ(s.state(), TcpState::kClosed);
  EXPECT_EQ(s.tcp().end(), TcpEnd::kNone);
}

TEST(TcpStates, BothCloseAtOnce) {
  TcpScript s(Start::kEstablished);
  s.close();
  EXPECT_EQ(s.sent(), "FA 1 1");
  s.come("FA", 1, 1);
  EXPECT_EQ(s.state(), TcpState::kClosing);
  EXPECT_EQ(s.sent(), "A 2 2");
  s.come("A", 2, 2);
  EXPECT_EQ(s.state(), TcpState::kTimeWait);
}

TEST(TcpStates, OneSegmentClosesAndAcknowledges) {
  TcpScript s(Start::kEstablished);
  s.close();
  s.come("FA", 1, 2);
  EXPECT_EQ(s.state(), TcpState::kTimeWait);
}

TEST(TcpStates, DataThatNobodyWillReadAreReset) {
  TcpScript s(Start::kEstablished);
  s.close();
  s.come("A", 1, 2);
  s.sent();
  s.come("PA", 1, 2, "too late");
  EXPECT_EQ(s.sent(), "RA 2 1");
  EXPECT_EQ(s.state(), TcpState::kClosed);
  EXPECT_EQ(s.tcp().end(), TcpEnd::kAborted);
}

TEST(TcpStates, OldDataAfterCloseAreNot) {
  TcpScript s(Start::kEstablished);
  s.come("PA", 1, 1, "abc");
  s.close();
  s.sent();
  s.come("PA", 1, 1, "abc");  // our ACK was lost
  EXPECT_EQ(s.sent(), "A 2 4");
  EXPECT_EQ(s.state(), TcpState::kFinWait1);
}

TEST(TcpStates, ACallThatIsGivenUpSaysNothing) {
  TcpScript s(Start::kCalling);
  s.sent();
  s.close();
  EXPECT_EQ(s.state(), TcpState::kClosed);
  EXPECT_EQ(s.sent(), "");
}

TEST(TcpStates, Abort) {
  TcpScript s(Start::kEstablished);
  s.say("abc");
  s.sent();
  s.tcp().abort();
  EXPECT_EQ(s.sent(), "RA 4 1");
  EXPECT_EQ(s.state(), TcpState::kClosed);
  s.come("A", 1, 4);
  EXPECT_EQ(s.sent(), "");
}

/// Every state that has a handshake behind it, and the number that is due in it.
struct Case {
  TcpState state;
  uint32_t due, ack;
  std::function<void(TcpScript&)> reach;
};
const std::array<Case, 7> kCases = {{
    {TcpState::kEstablished, 1, 1, [](TcpScript&) {}},
    {TcpState::kFinWait1, 1, 1, [](TcpScript& s) { s.close(); }},
    {TcpState::kFinWait2, 1, 2, [](TcpScript& s) { s.close(), s.come("A", 1, 2); }},
    {TcpState::kCloseWait, 2, 1, [](TcpScript& s) { s.come("FA", 1, 1); }},
    {TcpState::kClosing, 2, 1, [](TcpScript& s) { s.close(), s.come("FA", 1, 1); }},
    {TcpState::kLastAck, 2, 1, [](TcpScript& s) { s.come("FA", 1, 1), s.close(); }},
    {TcpState::kTimeWait, 2, 2, [](TcpScript& s) { s.close(), s.come("FA", 1, 2); }},
}};

TEST(TcpStates, ResetInEachState) {
  for (const Case& c : kCases) {
    for (const bool exact : {true, false}) {
      TcpScript s(Start::kEstablished);
      c.reach(s);
      ASSERT_EQ(s.state(), c.state);
      s.sent();
      s.come("R", c.due - 1, 0);
      s.come("R", c.due + 65536, 0);
      EXPECT_EQ(s.sent(), "") << "a forgery was answered in state " << static_cast<int>(c.state);
      EXPECT_EQ(s.state(), c.state);
      s.come("R", exact ? c.due : c.due + 1, 0);
      if (!exact) {  // within the window: whoever is there is asked
        EXPECT_NE(s.sent(), "");
        EXPECT_EQ(s.state(), c.state);
      } else if (c.state == TcpState::kTimeWait) {
        EXPECT_EQ(s.state(), TcpState::kTimeWait);  // RFC 1337
      } else {
        EXPECT_EQ(s.state(), TcpState::kClosed) << static_cast<int>(c.state);
        EXPECT_EQ(s.tcp().end(), TcpEnd::kReset);
        EXPECT_TRUE(s.tcp().deadline().is_never());
      }
    }
  }
  TcpScript s(Start::kCalled);
  s.come("R", 1, 0);
  EXPECT_EQ(s.state(), TcpState::kClosed);
}

TEST(TcpStates, SynInEachStateIsAnsweredByAnAck) {
  for (const Case& c : kCases) {
    for (const uint32_t seq : {c.due, c.due + 100, c.due - 1, uint32_t{0}}) {
      TcpScript s(Start::kEstablished);
      c.reach(s);
      s.sent();
      s.come("S", seq, 0);
      EXPECT_TRUE(s.sent().starts_with("A ")) << static_cast<int>(c.state) << " " << seq;
      EXPECT_EQ(s.state(), c.state);
    }
  }
}

TEST(TcpStates, AcksOfWhatWasNotSentAreAnsweredByAnAck) {
  for (const Case& c : kCases) {
    TcpScript s(Start::kEstablished);
    c.reach(s);
    s.sent();
    s.come("A", c.due, 100);
    EXPECT_TRUE(s.sent().starts_with("A ")) << static_cast<int>(c.state);
    EXPECT_EQ(s.state(), c.state);
    s.come("", c.due, 1);  // and what acknowledges nothing is nothing
    EXPECT_EQ(s.sent(), "");
  }
}

TEST(TcpStates, OtherSegmentsWithoutAConnection) {
  const auto reset = [](uint8_t flags, uint32_t seq, uint32_t ack) {
    TcpSegment segment;
    segment.flags = flags;
    segment.seq = seq;
    segment.ack = ack;
    return TcpConnection::reset_for(segment);
  };
  EXPECT_FALSE(reset(kTcpRst, 1, 2).has_value());
  EXPECT_FALSE(reset(kTcpRst | kTcpAck, 1, 2).has_value());
  const auto to_syn = reset(kTcpSyn, 10, 0);
  ASSERT_TRUE(to_syn);
  EXPECT_EQ(to_syn->flags, kTcpRst | kTcpAck);
  EXPECT_EQ(to_syn->seq, 0u);
  EXPECT_EQ(to_syn->ack, 11u);
  const auto to_ack = reset(kTcpAck, 10, 20);
  ASSERT_TRUE(to_ack);
  EXPECT_EQ(to_ack->flags, kTcpRst);
  EXPECT_EQ(to_ack->seq, 20u);
}

}  // namespace
}  // namespace understudy
