// roce-check on captures that do not know what they lack: what such a capture suffices to decide is
// decided, and what it cannot show is nobody's fault.
#include <gtest/gtest.h>

#include <algorithm>

#include "ctrl/config/read/load.h"
#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

using O = Opcode;

/// `count` WRITEs of two packets, each acknowledged, as others capture them: in the middle of a
/// connection whose responder has counted `before` messages.
Conversation writes(uint32_t count, uint32_t before) {
  Conversation c;
  for (uint32_t i = 0; i < count; ++i) {
    c.client(O::kWriteFirst, talk_psn(2 * i), 1024, 1100)
        .client(O::kWriteLast, talk_psn(2 * i + 1), 76);
    c.ack(talk_psn(2 * i + 1), before + i + 1).name("ack " + std::to_string(i));
  }
  c.capture.own = c.capture.statistics = false;
  return c;
}
void set_msn(Conversation& c, uint32_t ack, uint32_t msn) {
  TestFrame& frame = c.frame("ack " + std::to_string(ack));
  frame.header<Aeth>(sizeof(Bth)).msn = msn;
  frame.seal();
}
uint64_t wrong_msns(const Conversation& c, const AnalysisOptions& options = {}) {
  const Analysis analysis = c.capture.judge(options);
  EXPECT_EQ(analysis.findings.count(Check::kAcks), analysis.findings.count(Rule::kA4_8))
      << all_examples(analysis);
  return analysis.findings.count(Rule::kA4_8);
}

// rules: A4.8
TEST(Msn, IsLearnedFromTheFirstAck) {
  for (const uint32_t before : {0u, 5u, 0xfffffcu}) {  // the last one wraps
    Conversation right = writes(8, before);
    expect_holds(right.capture.judge());
    EXPECT_GT(right.capture.judge().findings.examined_times(Rule::kA4_8), 7u);
    Conversation frozen = writes(8, before);
    for (uint32_t i = 3; i < 8; ++i) set_msn(frozen, i, before + 3);
    EXPECT_EQ(wrong_msns(frozen), 5u) << before;
    Conversation jumps = writes(8, before);
    for (uint32_t i = 3; i < 8; ++i) set_msn(jumps, i, before + i + 100);
    EXPECT_EQ(wrong_msns(jumps), 5u) << before;
  }
  Conversation zero = writes(8, 5);
  for (uint32_t i = 0; i < 8; ++i) set_msn(zero, i, 0);
  EXPECT_EQ(wrong_msns(zero), 7u);
  zero.capture.statistics = true;  // the same where the file says that it lacks nothing
  EXPECT_EQ(wrong_msns(zero), 7u);
}

// A message that ended in a packet which was not captured may have been counted.
// rules: A4.8
TEST(Msn, OfWhatWasNotCapturedIsNotJudged) {
  Conversation c = writes(8, 5);
  c.capture.erase(c.at("ack 3") - 1);
  AnalysisOptions partial;
  partial.partial = true;
  EXPECT_EQ(wrong_msns(c, partial), 0u);
  EXPECT_EQ(wrong_msns(c), 0u);
}

// rules: A5.3
TEST(Foreign, AnAckOfTheFutureAndThenOfThePresentWasInvented) {
  Conversation c = writes(4, 0);
  TestFrame future = c.frame("ack 2");
  future.bth().psn = talk_psn(4000).value();
  future.seal();
  future.at += Duration::us(1);
  TestCapture between = c.capture, last = c.capture;
  between.frames.insert(between.frames.begin() + static_cast<long>(c.at("ack 2")) + 1, future);
  EXPECT_EQ(between.judge().findings.count(Rule::kA5_3), 1u) << all_examples(between.judge());
  // At the very end it may as well answer what was not captured.
  future.at += Duration::ms(1);
  last.frames.push_back(future);
  const Analysis unknown = last.judge();
  EXPECT_EQ(unknown.findings.count(Rule::kA5_3), 0u);
  expect_fails(unknown, Check::kComplete);
}

// rules: A5.1
TEST(Foreign, ARequesterThatNeverAsksForAnAck) {
  Conversation c = writes(8, 0);
  for (TestFrame& frame : c.capture.frames) {
    frame.bth().ack_req = 0;
    frame.seal();
  }
  EXPECT_EQ(c.capture.judge().findings.count(Rule::kA5_1), 1u);
  Conversation many;  // also where the end is not known
  for (uint32_t i = 0; i < 1100; ++i) {
    many.client(O::kWriteMiddle, talk_psn(i), 1024);
  }
  many.capture.own = many.capture.statistics = false;
  AnalysisOptions partial;
  partial.partial = true;
  EXPECT_EQ(many.capture.judge(partial).findings.count(Rule::kA5_1), 1u)
      << all_examples(many.capture.judge(partial));
}

// Our own captures, too, may be a part of the traffic for those who say so.
TEST(Partial, OwnCaptureThatBeginsInsideAReadAnswer) {
  Conversation c = eventful();
  AnalysisOptions partial;
  partial.partial = true;
  for (const char* first :
       {"read first", "read middle", "read last", "ack of duplicate", "middle", "rep"}) {
    Conversation late = c;
    late.capture.frames.erase(late.capture.frames.begin(),
                              late.capture.frames.begin() + static_cast<long>(c.at(first)));
    const Analysis analysis = late.capture.judge(partial);
    EXPECT_TRUE(analysis.findings.hold()) << first << '\n' << all_examples(analysis);
    EXPECT_FALSE(late.capture.judge().findings.hold()) << first;
  }
}

TEST(Partial, ShortSnapLengths) {
  AnalysisOptions partial;
  partial.partial = true;
  for (const uint32_t length : {40u, 54u, 60u, 66u, 80u, 100u, 140u, 400u}) {
    Conversation c = eventful();
    for (TestFrame& f : c.capture.frames)
      f.cut = static_cast<uint32_t>(f.bytes.size() - std::min<size_t>(f.bytes.size(), length));
    const Analysis analysis = c.capture.judge(partial);
    EXPECT_TRUE(analysis.findings.hold()) << length << '\n' << all_examples(analysis);
    if (length < 100) continue;  // headers of all that this connection sends
    EXPECT_EQ(analysis.table.counts.cut != 0, length < 1000) << length;
    ASSERT_FALSE(analysis.connections.empty()) << length;
    EXPECT_EQ(analysis.connections[0].forward.messages.size(), 11u) << length;
    expect_fails(c.capture.judge(), Check::kComplete);
  }
}

// Headers are judged where the payload is cut off.
// rules: A1.12
TEST(Partial, HeadersOfCutFramesAreJudged) {
  Conversation c = eventful();
  for (TestFrame& f : c.capture.frames)
    f.cut = static_cast<uint32_t>(f.bytes.size() - std::min<size_t>(f.bytes.size(), 96));
  AnalysisOptions partial;
  partial.partial = true;
  expect_holds(c.capture.judge(partial));
  c.frame("middle").bth().fecn_becn = 0x80;
  EXPECT_EQ(c.capture.judge(partial).findings.count(Rule::kA1_7), 1u);
}

// rules: A6.2
TEST(Partial, OneDirectionShowsNoCnps) {
  Conversation c = congested();
  std::erase_if(c.capture.frames,
                [](const TestFrame& f) { return f.roce().dest_qpn != kTalkServer; });
  AnalysisOptions partial;
  partial.partial = true;
  expect_holds(c.capture.judge(partial));
  c.capture.own = c.capture.statistics = false;
  expect_holds(c.capture.judge(partial));
}

// rules: A9.6 A9.9
TEST(Impaired, CopiesOfRdmaCmsMessages) {
  AnalysisOptions impaired;
  impaired.impaired = true;
  for (const char* what : {"req", "req again", "mra", "rep", "rtu", "dreq", "drep"}) {
    Conversation c = eventful();
    for (int copies = 0; copies < 5; ++copies) {
      TestFrame copy = c.frame(what);
      copy.at += Duration::us(1);
      c.capture.frames.insert(c.capture.frames.begin() + static_cast<long>(c.at(what)) + 1, copy);
    }
    const Analysis analysis = c.capture.judge(impaired);
    EXPECT_TRUE(analysis.findings.hold()) << what << '\n' << all_examples(analysis);
  }
  Conversation other = eventful();  // a copy has the same contents
  other.frame("req again").bytes[other.frame("req again").roce().payload + 224] ^= 1;
  other.frame("req again").seal();
  EXPECT_EQ(other.capture.judge(impaired).findings.count(Rule::kA9_6), 1u);
}

// Other stacks take other source ports: a word, and no fault.
// rules: A1.4 A1.3
TEST(Remarks, AreNoReasonThatACaptureDoesNotHold) {
  Conversation c = eventful();
  for (TestFrame& f : c.capture.frames) {
    if (f.roce().dest_qpn == kTalkServer) {
      reinterpret_cast<UdpHeader*>(f.bytes.data() + f.roce().bth - sizeof(UdpHeader))->src_port =
          33000;
      f.seal();
    }
  }
  const Analysis analysis = c.capture.judge(talk_options());
  expect_holds(analysis);
  ASSERT_FALSE(analysis.findings.remarks(Check::kHeaders).empty());
  const Finding remark = analysis.findings.remarks(Check::kHeaders).front();
  EXPECT_EQ(remark.severity, Severity::kNote);
  EXPECT_EQ(remark.rule, Rule::kA1_4);
  EXPECT_EQ(remark.basis, Basis::kFrame);
  const std::string text = report_text(analysis, "x"), json = report_json(analysis, "x");
  EXPECT_NE(text.find("note: A1.4 frame"), std::string::npos) << text;
  EXPECT_NE(text.find("UDP source port 33000 [by the frame alone]"), std::string::npos) << text;
  EXPECT_NE(json.find("\"severity\": \"note\""), std::string::npos) << json;
}

/// A ping whose acknowledgement is late: the client sends it again, with what its program has
/// written by then. `answered`: the server's program has sent its pong before.
Conversation written_anew(bool answered) {
  Conversation c;
  c.client(O::kSendOnly, talk_psn(0), 64);
  if (answered) {
    c.server(O::kSendOnly, Psn(5000), 0, 0, 64).name("pong");
    c.frame("pong").bth().ack_req |= kBthAckRequest;
    c.frame("pong").seal();
    c.client(O::kAcknowledge, Psn(5000));
  }
  c.wait(Duration::ms(5)).client(O::kSendOnly, talk_psn(0), 64).name("again");
  TestFrame& again = c.frame("again");
  again.bytes[again.roce().payload] ^= 4;
  again.seal();
  c.ack(talk_psn(0), 1);
  c.capture.own = c.capture.statistics = false;
  return c;
}

// Programs like rping use a buffer again once they have the other end's answer.
// rules: A5.6
TEST(Remarks, SayThatABufferMayHaveBeenWrittenAnew) {
  const Analysis lost = written_anew(false).capture.judge();
  EXPECT_EQ(lost.findings.count(Rule::kA5_6), 1u) << all_examples(lost);
  const Analysis answered = written_anew(true).capture.judge();
  expect_holds(answered);
  ASSERT_EQ(answered.findings.remarks(Check::kOrder).size(), 1u);
  EXPECT_NE(answered.findings.remarks(Check::kOrder)[0].text.find("its buffer anew"),
            std::string::npos);
}

// What each finding rests on.
TEST(Findings, SayWhatTheyRestOn) {
  Conversation c = eventful();
  c.capture.own = c.capture.statistics = false;
  c.capture.erase(c.at("send again"));
  const Analysis analysis = c.capture.judge();
  const auto order = analysis.findings.examples(Check::kOrder);
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].basis, Basis::kWholeCapture);
  EXPECT_EQ(order[0].severity, Severity::kViolation);
  EXPECT_NE(report_text(analysis, "x").find("[by a capture that lacks nothing]"),
            std::string::npos);
}

/// The client is the real node, the server emulated.
ConfigResult talk_config(const std::string& prefix, const std::string& more) {
  const std::string link = "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
  return load_config_text("format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.0.0.0/24\"\n" + prefix +
                              "[[node]]\nname = \"gpu\"\nreal = true\n" + link +
                              "[[node]]\nname = \"w\"\n" + link +
                              "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n" +
                              "[[service]]\nnode = \"w\"\nport = 18515\n" + more,
                          "c.toml");
}

struct ConfiguredCase {
  const char* prefix;
  const char* more;
  Rule rule;
  uint64_t found, remarked;
};

// rules: A1.9 A1.12
TEST(Configured, HeadersAreThoseOfTheConfiguration) {
  const auto judge = [](const ConfiguredCase& expected,
                        const std::function<void(TestFrame&)>& change) {
    const ConfigResult config = talk_config(expected.prefix, expected.more);
    ASSERT_TRUE(config) << describe(config.error());
    Conversation c;
    for (uint32_t i = 0; i < 4; ++i)
      c.client(O::kWriteOnly, talk_psn(i), 64, 64).ack(talk_psn(i), i + 1);
    for (TestFrame& f : c.capture.frames) change(f);
    for (const bool endless : {false, true}) {
      SCOPED_TRACE(endless);
      AnalysisOptions options;
      options.config = &*config;
      options.endless = endless;
      options.part = 1;
      const Analysis analysis = c.capture.judge(options);
      EXPECT_EQ(analysis.findings.count(expected.rule), expected.found) << all_examples(analysis);
      EXPECT_EQ(analysis.findings.remark_count(Check::kHeaders), expected.remarked);
      for (const Finding& f : analysis.findings.examples(Check::kHeaders))
        EXPECT_EQ(f.basis, Basis::kConfiguration);
      EXPECT_EQ(std::ranges::any_of(analysis.findings.notes(Check::kRate),
                                    [](const std::string& note) {
                                      return note.starts_with("not judged: it looks at all");
                                    }),
                endless);
    }
  };
  const auto nothing = [](TestFrame&) {};
  const auto migreq = [](TestFrame& f) {
    f.bth().flags &= 0xbf;
    f.seal();
  };
  judge({"", "", Rule::kA1_12, 0, 0}, nothing);
  judge({"vlan = 7\n", "", Rule::kA1_12, 2, 0}, nothing);  // both directions without a tag
  // The server answers as it was asked, or as it is configured.
  judge({"", "traffic_class = 104\n", Rule::kA1_12, 0, 0}, nothing);
  const auto dscp = [](uint8_t value) {
    return [value](TestFrame& f) {
      if (f.roce().dest_qpn != kTalkClient) return;
      auto& ip = *reinterpret_cast<Ipv4Header*>(f.bytes.data() + sizeof(EthHeader));
      ip.tos = static_cast<uint8_t>(value << 2);
      ip.checksum = 0;
      ip.checksum = checksum_finish(checksum_add(0, reinterpret_cast<uint8_t*>(&ip), sizeof ip));
    };
  };
  judge({"", "traffic_class = 104\n", Rule::kA1_12, 0, 0}, dscp(26));
  judge({"", "traffic_class = 104\n", Rule::kA1_12, 1, 0}, dscp(27));
  judge({"", "", Rule::kA1_9, 1, 0},
        migreq);  // of the emulated server; a real client may send 0
}

}  // namespace
}  // namespace understudy
