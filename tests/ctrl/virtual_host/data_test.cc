// TCP's data by scripts of segments: order, windows and retransmissions (RFC 9293 3.8).
#include <algorithm>

#include "tests/rigs/tcp_script.h"

namespace understudy {
namespace {

using Start = TcpScript::Start;

TEST(TcpData, GoesInSegmentsOfTheSmallerMss) {
  TcpSettings settings;
  settings.mss = 100;
  TcpScript s(Start::kEstablished, settings);
  s.say(std::string(250, 'a'));
  EXPECT_EQ(s.sent(), "A 1 1 +100, A 101 1 +100, PA 201 1 +50");
  TcpScript unknown(Start::kCalling);
  unknown.come("SA", 0, 1);  // without the option: 536 bytes
  unknown.sent();
  unknown.say(std::string(537, 'a'));
  EXPECT_EQ(unknown.sent(), "A 1 1 +536, PA 537 1 +1");
}

TEST(TcpData, AnAnswerCarriesTheAck) {
  TcpScript s(Start::kEstablished);
  s.come("PA", 1, 1, "ask");
  EXPECT_EQ(s.sent(), "A 1 4");
  s.come("PA", 4, 1, "again");
  s.sent();
  s.say("answer");
  EXPECT_EQ(s.sent(), "PA 1 9 +6");
}

TEST(TcpData, AllOrdersOfFourSegments) {
  const std::string text = "abcdefghij";
  std::vector<std::pair<size_t, size_t>> pieces = {{0, 3}, {3, 1}, {4, 4}, {8, 2}};
  do {
    TcpScript s(Start::kEstablished);
    for (const auto& [at, size] : pieces) {
      const bool last = at + size == text.size();
      s.come(last ? "FPA" : "A", static_cast<uint32_t>(1 + at), 1, text.substr(at, size));
    }
    EXPECT_EQ(s.heard(), text);
    EXPECT_EQ(s.state(), TcpState::kCloseWait);
    EXPECT_TRUE(s.sent().ends_with("A 1 12"));
  } while (std::next_permutation(pieces.begin(), pieces.end()));
}

TEST(TcpData, AGapIsTold) {
  TcpScript s(Start::kEstablished);
  s.come("A", 4, 1, "def");
  EXPECT_EQ(s.sent(), "A 1 1");
  EXPECT_EQ(s.heard(), "");
  s.come("A", 1, 1, "abc");
  EXPECT_EQ(s.sent(), "A 1 7");
  EXPECT_EQ(s.heard(), "abcdef");
}

TEST(TcpData, OverlappingSegments) {
  TcpScript s(Start::kEstablished);
  s.come("A", 3, 1, "cdef");
  s.come("A", 3, 1, "cd");       // shorter than what is kept
  s.come("A", 5, 1, "efgh");     // beyond it
  s.come("A", 1, 1, "abcd");     // into it
  s.come("A", 1, 1, "abcdefg");  // all old
  EXPECT_EQ(s.heard(), "abcdefgh");
  s.come("A", 7, 1, "ghij");  // half old
  EXPECT_EQ(s.heard(), "ij");
  EXPECT_TRUE(s.sent().ends_with("A 1 11"));
}

TEST(TcpData, NothingIsTakenBeyondAFin) {
  TcpScript s(Start::kEstablished);
  s.come("FA", 3, 1, "c");
  s.come("A", 1, 1, "abcdef");
  EXPECT_EQ(s.heard(), "abc");
  EXPECT_EQ(s.state(), TcpState::kCloseWait);
  EXPECT_TRUE(s.sent().ends_with("A 1 5"));
}

TEST(TcpData, BeyondTheWindow) {
  TcpScript s(Start::kEstablished);
  s.come("A", 1 + 65535, 1, "x");
  EXPECT_EQ(s.sent(), "A 1 1");
  s.come("A", 65535, 1, "xy");  // its first byte is the window's last
  s.come("A", 1, 1, std::string(65534, 'z'));
  EXPECT_EQ(s.heard(), std::string(65534, 'z') + "x");
}

TEST(TcpData, TheWindowClosesWhileNobodyReads) {
  TcpScript s(Start::kEstablished);
  s.come("A", 1, 1, std::string(65000, 'a'));
  EXPECT_EQ(s.sent(), "A 1 65001 w535");
  s.come("A", 65001, 1, std::string(535, 'b'));
  EXPECT_EQ(s.sent(), "A 1 65536 w0");
  s.come("A", 65536, 1, "c");  // a probe
  EXPECT_EQ(s.sent(), "A 1 65536 w0");
  s.come("FA", 65536, 1);  // there is no room for a FIN either
  EXPECT_EQ(s.sent(), "A 1 65536 w0");
  EXPECT_EQ(s.heard(), std::string(65000, 'a') + std::string(535, 'b'));
  EXPECT_EQ(s.sent(), "A 1 65536") << "the other side is not told of the room";
  s.come("FPA", 65536, 1, "c");
  EXPECT_EQ(s.heard(), "c");
  EXPECT_TRUE(s.tcp().end_of_input());
}

TEST(TcpData, AcksComeThroughAClosedWindow) {
  TcpScript s(Start::kEstablished);
  s.say("ours");
  s.come("A", 1, 1, std::string(65535, 'a'));
  s.come("PA", 65536, 5, "x");
  EXPECT_EQ(s.tcp().unacknowledged(), 0u);
  EXPECT_TRUE(s.tcp().deadline().is_never());
}

TEST(TcpData, KeepsToTheOtherSidesWindow) {
  TcpScript s(Start::kEstablished, {}, 10);
  s.say("0123456789abcdef");
  EXPECT_EQ(s.sent(), "A 1 1 +10");
  s.come("A", 1, 6, "", 5);  // the same right edge
  EXPECT_EQ(s.sent(), "");
  s.come("A", 1, 11, "", 4);
  EXPECT_EQ(s.sent(), "A 11 1 +4");
  s.come("A", 1, 11, "", 100);
  EXPECT_EQ(s.sent(), "PA 15 1 +2");
  s.come("A", 1, 6, "", 0);  // an old one: its window is old, too
  s.say("g");
  EXPECT_EQ(s.sent(), "PA 17 1 +1");
}

TEST(TcpData, AClosedWindowIsProbed) {
  TcpScript s(Start::kEstablished, {}, 3);
  s.say("abcdef");
  s.close();
  EXPECT_EQ(s.sent(), "A 1 1 +3");
  s.come("A", 1, 4, "", 0);
  EXPECT_EQ(s.sent(), "");
  Time last = s.now;
  for (int probe = 0; probe < 30; ++probe) {  // for ever, as it is answered
    s.wait();
    EXPECT_EQ(s.sent(), "A 4 1 +1");
    EXPECT_EQ(s.payload(), "d");
    EXPECT_EQ(s.now - last,
              std::min(Duration::ms(200) * (int64_t{1} << std::min(probe, 10)), Duration::s(10)));
    last = s.now;
    s.come("A", 1, 4, "", 0);
    EXPECT_EQ(s.sent(), "");
  }
  s.come("A", 1, 4, "", 3);
  EXPECT_EQ(s.sent(), "PA 4 1 +3");
  EXPECT_EQ(s.tcp().deadline() - s.now, Duration::ms(200));
  s.come("A", 1, 7, "", 1);
  EXPECT_EQ(s.sent(), "FA 7 1");
}

TEST(TcpData, AProbesByteMayBeTaken) {
  TcpScript s(Start::kEstablished, {}, 3);
  s.say("abcdef");
  s.come("A", 1, 4, "", 0);
  s.wait();
  s.sent();
  s.come("A", 1, 5, "", 0);
  s.wait();
  EXPECT_EQ(s.sent(), "A 5 1 +1");
  EXPECT_EQ(s.payload(), "e");
}

TEST(TcpData, AFinWaitsForRoom) {
  TcpScript s(Start::kEstablished, {}, 3);
  s.say("abc");
  s.close();
  EXPECT_EQ(s.sent(), "PA 1 1 +3");
  s.come("A", 1, 4, "", 0);
  s.wait();
  EXPECT_EQ(s.sent(), "FA 4 1");
  s.come("A", 1, 5, "", 0);
  EXPECT_EQ(s.state(), TcpState::kFinWait2);
}

TEST(TcpData, IsRepeatedAtFixedTimesAndGivenUp) {
  TcpScript s(Start::kEstablished);
  s.now = Time::zero() + Duration::s(5);
  s.say("abc");
  s.sent();
  for (const int64_t ms : {200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000, 10000}) {
    const Time before = s.now;
    s.wait();
    EXPECT_EQ(s.now - before, Duration::ms(ms));
    EXPECT_EQ(s.sent(), "PA 1 1 +3");
    EXPECT_EQ(s.state(), TcpState::kEstablished);
  }
  EXPECT_EQ(s.tcp().retransmissions(), 10u);
  s.wait();
  EXPECT_EQ(s.sent(), "");
  EXPECT_EQ(s.state(), TcpState::kClosed);
  EXPECT_EQ(s.tcp().end(), TcpEnd::kTimedOut);
  EXPECT_TRUE(s.tcp().deadline().is_never());
}

TEST(TcpData, CallsAndFinsAreRepeatedToo) {
  TcpScript calling(Start::kCalling);
  calling.sent();
  for (int i = 0; i < 10; ++i) {
    calling.wait();
    EXPECT_EQ(calling.sent(), "S 0");
  }
  calling.wait();
  EXPECT_EQ(calling.tcp().end(), TcpEnd::kTimedOut);
  EXPECT_FALSE(calling.tcp().connected());

  TcpScript closing(Start::kEstablished);
  closing.close();
  closing.sent();
  closing.wait();
  EXPECT_EQ(closing.sent(), "FA 1 1");
}

TEST(TcpData, AfterALossAllIsSentAgainThatWasNotKept) {
  TcpSettings settings;
  settings.mss = 10;
  TcpScript s(Start::kEstablished, settings);
  s.say(std::string(40, 'a'));
  EXPECT_EQ(s.sent(), "A 1 1 +10, A 11 1 +10, A 21 1 +10, PA 31 1 +10");
  s.come("A", 1, 1);  // of one that came too early
  s.wait();
  EXPECT_EQ(s.sent(), "A 1 1 +10") << "one, until it is answered";
  s.say("b");
  EXPECT_EQ(s.sent(), "");
  s.come("A", 1, 31);  // it had the next two
  EXPECT_EQ(s.sent(), "A 31 1 +10, PA 41 1 +1");
  s.come("A", 1, 42);
  EXPECT_TRUE(s.tcp().deadline().is_never());
}

TEST(TcpData, BothSidesRepeatWhatTheOtherOneHas) {
  TcpSettings settings;
  settings.mss = 3;
  TcpScript s(Start::kEstablished, settings);
  s.say("abcdef");
  s.come("PA", 1, 1, "uvwxyz");  // it had both, but its ACK is lost; ours is, too
  s.sent();
  s.wait();
  EXPECT_EQ(s.sent(), "A 1 7 +3");
  s.come("A", 1, 7, "uvw");
  EXPECT_EQ(s.tcp().unacknowledged(), 0u);
  EXPECT_EQ(s.sent(), "A 7 7") << "a number from before the retransmission would be old there";
}

TEST(TcpData, AnAckStartsTheTimeAnew) {
  TcpSettings settings;
  settings.mss = 10;
  TcpScript s(Start::kEstablished, settings);
  s.say(std::string(20, 'a'));
  s.now += Duration::ms(150);
  s.come("A", 1, 11);
  EXPECT_EQ(s.tcp().deadline() - s.now, Duration::ms(200));
}

TEST(TcpData, ACheckWhetherWeLiveIsAnswered) {
  TcpScript s(Start::kEstablished);
  s.come("A", 0, 1);  // as Linux does it: one before what is due
  EXPECT_EQ(s.sent(), "A 1 1");
}

TEST(TcpData, EarlyDataTakeBoundedMemory) {
  TcpScript s(Start::kEstablished);
  const std::string much(30000, 'x');
  for (uint32_t at = 2; at < 30000; at += 100) s.come("A", at, 1, much);
  s.come("A", 1, 1, std::string(65535, 'x'));
  EXPECT_EQ(s.heard(), std::string(65535, 'x'));
}

}  // namespace
}  // namespace understudy
