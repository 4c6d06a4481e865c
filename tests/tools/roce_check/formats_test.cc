// The files that roce-check reads: pcap of microseconds and nanoseconds, ERF of capture cards.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/conversation.h"

namespace understudy {
namespace {

void put(std::vector<uint8_t>& out, uint64_t value, size_t bytes, bool big = false) {
  for (size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<uint8_t>(value >> 8 * (big ? bytes - 1 - i : i)));
  }
}

constexpr int64_t kSecond = 1'700'000'000;

/// `unit`: picoseconds of the file's second number.
std::vector<uint8_t> pcap(const TestCapture& capture, uint32_t magic, int64_t unit) {
  std::vector<uint8_t> out;
  put(out, magic, 4);
  for (const uint32_t word : {2u | 4u << 16, 0u, 0u, 65535u, 1u}) put(out, word, 4);
  for (const TestFrame& f : capture.frames) {
    put(out, kSecond, 4);
    put(out, static_cast<uint64_t>(f.at.ps() / unit), 4);
    put(out, f.bytes.size(), 4);
    put(out, f.bytes.size(), 4);
    out.insert(out.end(), f.bytes.begin(), f.bytes.end());
  }
  return out;
}

/// Records as capture cards write them: with FCS, a loss counter, one extension header.
std::vector<uint8_t> erf(const TestCapture& capture, uint16_t losses = 0, size_t keep = 65535) {
  std::vector<uint8_t> out;
  for (const TestFrame& f : capture.frames) {
    std::vector<uint8_t> frame = f.bytes;
    frame.insert(frame.end(), 4, 0xaa);
    const size_t on_wire = frame.size();
    frame.resize(std::min(frame.size(), keep));
    const auto fraction = static_cast<uint64_t>(f.at.seconds() * 4294967296.0);
    put(out, static_cast<uint64_t>(kSecond) << 32 | fraction, 8);
    put(out, 0x82, 1);
    put(out, 4, 1);
    put(out, 16 + 8 + 2 + frame.size(), 2, true);
    put(out, &f == &capture.frames.back() ? losses : 0, 2, true);
    put(out, on_wire, 2, true);
    put(out, 0x0500000000000000, 8, true);
    put(out, 0, 2);
    out.insert(out.end(), frame.begin(), frame.end());
  }
  return out;
}

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
