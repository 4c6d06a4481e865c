// The files that roce-check reads: pcap of microseconds and nanoseconds, ERF of capture cards.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/capture_formats.h"
#include "tests/tools/roce_check/conversation.h"

namespace understudy {
namespace {

TEST(Formats, SayTheSame) {
  const TestCapture capture = eventful().capture;
  const Analysis micro = TestCapture::judge_bytes(pcap(capture, 0xa1b2c3d4, 1'000'000));
  const Analysis nano = TestCapture::judge_bytes(pcap(capture, 0xa1b23c4d, 1'000));
  const Analysis card = TestCapture::judge_bytes(erf(capture));
  EXPECT_EQ(micro.source.format, "pcap");
  EXPECT_EQ(card.source.format, "erf");
  for (const Analysis* analysis : {&micro, &nano, &card}) {
    expect_holds(*analysis);
    EXPECT_EQ(analysis->source.frames, capture.frames.size());
    ASSERT_EQ(analysis->connections.size(), 1u);
    EXPECT_EQ(analysis->connections[0].forward.messages.size(), 11u);
    for (size_t i = 0; i < analysis->table.packets.size(); ++i) {
      const Duration off = analysis->table.packets[i].at - micro.table.packets[i].at;
      EXPECT_LE(std::max(off, Duration() - off), Duration::us(1));
    }
  }
}

TEST(Formats, NanosecondsAreKept) {
  Conversation c;
  c.client(Opcode::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1);
  c.capture.frames[1].at = c.capture.frames[0].at + Duration::ns(123);
  for (const auto& bytes : {pcap(c.capture, 0xa1b23c4d, 1'000), erf(c.capture)}) {
    const Analysis analysis = TestCapture::judge_bytes(bytes);
    const Duration between = analysis.table.packets[1].at - analysis.table.packets[0].at;
    EXPECT_GE(between, Duration::ps(122'500));
    EXPECT_LE(between, Duration::ps(123'500));
  }
}

TEST(Formats, ErfSaysWhatItLost) {
  const TestCapture capture = eventful().capture;
  const Analysis lossy = TestCapture::judge_bytes(erf(capture, 3));
  EXPECT_EQ(lossy.source.drops, 3u);
  expect_fails(lossy, Check::kComplete);
  const Analysis cut = TestCapture::judge_bytes(erf(capture, 0, 120));
  EXPECT_GT(cut.source.cut_frames, 0u);
  EXPECT_EQ(cut.connections[0].forward.messages.size(), 11u);
  std::vector<uint8_t> half = erf(capture);
  half.resize(half.size() - 10);
  EXPECT_TRUE(TestCapture::judge_bytes(half).source.truncated);
}

}  // namespace
}  // namespace understudy
