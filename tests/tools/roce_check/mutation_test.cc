// Each way of damaging a good capture makes the right check of roce-check fail.
#include <gtest/gtest.h>

#include <random>

#include "tests/tools/roce_check/capture.h"

namespace understudy {
namespace {

TestCapture writes() { return TestCapture::load(recording("rxe_write_64k_x5_mtu1024")); }
TestCapture reads() { return TestCapture::load(recording("rxe_read_4k_mtu1024_rdmacm")); }

TEST(Mutation, NoneAtAllHolds) {
  expect_holds(writes().judge());
  expect_holds(reads().judge());
}

TEST(Mutation, FlippedPayloadBit) {
  TestCapture capture = writes();
  TestFrame& frame = capture.frames[capture.find(Opcode::kWriteMiddle, 7)];
  frame.bytes[frame.roce().payload + 100] ^= 0x10;
  expect_fails(capture.judge(), Check::kIcrc);
  frame.seal();  // the flip alone is no fault of the protocol
  expect_holds(capture.judge());
}

// Any single bit from the IP header on, but for what the ICRC does not cover.
TEST(Mutation, EveryBitFlipIsFound) {
  std::mt19937_64 random(7);
  const TestCapture good = TestCapture::load(recording("rxe_write_ipv6_linklocal"));
  const TestCapture good4 = TestCapture::load(recording("rxe_rping_3x1000"));
  for (int round = 0; round < 300; ++round) {
    TestCapture capture = round % 2 == 0 ? good : good4;
    size_t index = random() % capture.frames.size();
    if (!capture.frames[index].is_rc()) continue;
    TestFrame& frame = capture.frames[index];
    const RoceView roce = frame.roce();
    const uint32_t ip = sizeof(EthHeader);
    const bool v6 = frame.bytes[ip] >> 4 == 6;
    const size_t at = ip + random() % (frame.bytes.size() - ip);
    const size_t in_ip = at - ip;
    const bool masked_ip = v6 ? in_ip < 4 || in_ip == 7  // version, class, flow label, hop limit
                              : in_ip == 1 || in_ip == 8 || in_ip == 10 || in_ip == 11;
    const bool version = in_ip == 0;  // not IP any more
    const bool udp_checksum = at == roce.bth - 1 || at == roce.bth - 2;
    if (masked_ip || version || udp_checksum || at == roce.bth + 4) continue;
    // Another length, a fragment or another port make it somebody else's packet: an ACK the less,
    // which a later one may replace.
    const bool identity = v6 ? in_ip == 4 || in_ip == 5 || in_ip == 6
                             : in_ip == 2 || in_ip == 3 || in_ip == 6 || in_ip == 7 || in_ip == 9;
    const bool port = at + 6 == roce.bth || at + 5 == roce.bth;
    if ((identity || port) && roce.info().kind == OpKind::kAck) continue;
    frame.bytes[at] = static_cast<uint8_t>(frame.bytes[at] ^ 1 << random() % 8);
    const Analysis analysis = capture.judge();
    EXPECT_FALSE(analysis.findings.hold()) << "byte " << at << " of frame " << index + 1;
  }
}

// Every request, and every response whose work no later one repeats.
TEST(Mutation, AnyDroppedRequest) {
  for (const char* name : {"rxe_write_4k_mtu1024_rdmacm", "rxe_read_4k_mtu1024_rdmacm",
                           "rxe_rc_pingpong", "rxe_fetchadd_rdmacm"}) {
    const TestCapture good = TestCapture::load(recording(name));
    for (size_t i = 0; i < good.frames.size(); ++i) {
      if (!good.frames[i].is_rc()) continue;
      const RoceView roce = good.frames[i].roce();
      const bool coalescible = roce.opcode == static_cast<uint8_t>(Opcode::kAcknowledge);
      TestCapture capture = good;
      capture.erase(i);
      if (!coalescible) {
        EXPECT_FALSE(capture.judge().findings.hold()) << name << " without frame " << i + 1;
      }
    }
  }
}

TEST(Mutation, DroppedMiddle) {
  TestCapture capture = writes();
  capture.erase(capture.find(Opcode::kWriteMiddle, 100));
  expect_fails(capture.judge(), Check::kOrder);
}

TEST(Mutation, ChangedRethLength) {
  TestCapture capture = writes();
  TestFrame& frame = capture.frames[capture.find(Opcode::kWriteFirst, 2)];
  frame.header<Reth>(sizeof(Bth)).length = 65536 + 1;
  frame.seal();
  expect_fails(capture.judge(), Check::kLengths);
}

TEST(Mutation, RemovedLastAck) {
  TestCapture capture = writes();
  capture.erase(capture.find(Opcode::kAcknowledge, 4));
  expect_fails(capture.judge(), Check::kAcknowledged);
  expect_holds(capture.judge({.open_end = true}));
}

TEST(Mutation, SwappedPsns) {
  TestCapture capture = writes();
  TestFrame& a = capture.frames[capture.find(Opcode::kWriteMiddle, 10)];
  TestFrame& b = capture.frames[capture.find(Opcode::kWriteMiddle, 11)];
  std::swap(a.bth().psn, b.bth().psn);
  a.seal();
  b.seal();
  expect_fails(capture.judge(), Check::kOrder);
}

TEST(Mutation, SwappedFrames) {
  TestCapture capture = writes();
  std::swap(capture.frames[10], capture.frames[11]);
  expect_fails(capture.judge(), Check::kOrder);
}

TEST(Mutation, SkippedPsns) {
  TestCapture capture = writes();
  for (size_t i = capture.find(Opcode::kWriteFirst, 3); i < capture.frames.size(); ++i) {
    Bth& bth = capture.frames[i].bth();
    bth.psn = (bth.psn.get() + 3) & Psn::kMask;
    capture.frames[i].seal();
  }
  expect_fails(capture.judge(), Check::kOrder);
}

TEST(Mutation, WrongOpcodeInsideMessage) {
  TestCapture capture = writes();
  TestFrame& frame = capture.frames[capture.find(Opcode::kWriteMiddle, 10)];
  frame.bth().opcode = static_cast<uint8_t>(Opcode::kSendMiddle);
  frame.seal();
  expect_fails(capture.judge(), Check::kOpcodes);
  frame.bth().opcode = static_cast<uint8_t>(Opcode::kWriteLast);
  frame.seal();
  expect_fails(capture.judge(), Check::kOpcodes);
}

TEST(Mutation, UnknownOpcodeAndVersion) {
  TestCapture capture = writes();
  TestFrame& frame = capture.frames[capture.find(Opcode::kWriteMiddle, 10)];
  const TestFrame good = frame;
  frame.bth().opcode = 0x1f;
  expect_fails(capture.judge(), Check::kParse);
  frame = good;
  frame.bth().flags |= 1;
  expect_fails(capture.judge(), Check::kParse);
}

// A frame that was cut, with all its lengths and its ICRC made right again.
void shorten(TestFrame& frame, uint16_t by) {
  FrameView view;
  RoceView roce;
  ASSERT_EQ(parse_frame(frame.bytes, view, roce), FrameKind::kRoce);
  auto& ip = *reinterpret_cast<Ipv4Header*>(frame.bytes.data() + view.l3);
  auto& udp = *reinterpret_cast<UdpHeader*>(frame.bytes.data() + view.l4);
  ip.total_length = static_cast<uint16_t>(ip.total_length.get() - by);
  udp.length = static_cast<uint16_t>(udp.length.get() - by);
  frame.bytes.resize(frame.bytes.size() - by);
  frame.seal();
}

TEST(Mutation, ShortMiddle) {
  TestCapture capture = writes();
  shorten(capture.frames[capture.find(Opcode::kWriteMiddle, 10)], 4);
  expect_fails(capture.judge(), Check::kLengths);
}

TEST(Mutation, ShortReadResponse) {
  TestCapture capture = reads();
  shorten(capture.frames[capture.find(Opcode::kReadResponseLast, 3)], 4);
  expect_fails(capture.judge(), Check::kReads);
}

TEST(Mutation, ReadResponseOutOfPlace) {
  TestCapture capture = reads();
  TestFrame& frame = capture.frames[capture.find(Opcode::kReadResponseMiddle, 3)];
  Bth& bth = frame.bth();
  bth.psn = bth.psn.get() + 100;
  frame.seal();
  expect_fails(capture.judge(), Check::kReads);
}

TEST(Mutation, ReadRequestMissing) {
  TestCapture capture = reads();
  capture.erase(capture.find(Opcode::kReadRequest, 9));
  expect_fails(capture.judge(), Check::kReads);
}

TEST(Mutation, IllegalSyndromes) {
  for (const uint8_t syndrome : std::initializer_list<uint8_t>{0x40, 0x65, 0x80, 0xff}) {
    TestCapture capture = writes();
    TestFrame& frame = capture.frames[capture.find(Opcode::kAcknowledge, 2)];
    frame.header<Aeth>(sizeof(Bth)).syndrome = syndrome;
    frame.seal();
    expect_fails(capture.judge(), Check::kAcks);
  }
}

TEST(Mutation, WrongMsn) {
  for (const int step : {-2, -1, 1, 5}) {
    TestCapture capture = writes();
    TestFrame& frame = capture.frames[capture.find(Opcode::kAcknowledge, 2)];
    auto& aeth = frame.header<Aeth>(sizeof(Bth));
    aeth.msn = static_cast<uint32_t>(static_cast<int>(aeth.msn.get()) + step);
    frame.seal();
    expect_fails(capture.judge(), Check::kAcks);
  }
}

TEST(Mutation, AckOfWhatWasNotSent) {
  TestCapture capture = writes();
  TestFrame& frame = capture.frames[capture.find(Opcode::kAcknowledge, 2)];
  Bth& bth = frame.bth();
  bth.psn = (bth.psn.get() + 200) & Psn::kMask;
  frame.seal();
  expect_fails(capture.judge(), Check::kAcks);
}

TEST(Mutation, NakThatNobodyObeys) {
  TestCapture capture = TestCapture::load(recording("rxe_write_16k_x10_clientloss6pct_nak_seq"));
  const size_t nak = capture.find([](const RoceView& r) {
    return r.info().kind == OpKind::kAck && r.syndrome == kSyndromeNak;
  });
  capture.frames.resize(nak + 1);
  const Analysis analysis = capture.judge();
  EXPECT_EQ(analysis.findings.count(Rule::kA5_5), 1u) << all_examples(analysis);
}

TEST(Mutation, NakWithoutGap) {
  TestCapture capture = writes();
  TestFrame& frame = capture.frames[capture.find(Opcode::kAcknowledge, 4)];
  frame.header<Aeth>(sizeof(Bth)).syndrome = kSyndromeNak;
  frame.seal();
  expect_fails(capture.judge(), Check::kOrder);
}

TEST(Mutation, RetransmissionOfOtherContents) {
  TestCapture capture = TestCapture::load(recording("rxe_write_16k_x10_clientloss6pct_nak_seq"));
  const size_t nak = capture.find([](const RoceView& r) {
    return r.info().kind == OpKind::kAck && r.syndrome == kSyndromeNak;
  });
  for (size_t i = nak + 1; i < capture.frames.size(); ++i) {
    TestFrame& frame = capture.frames[i];
    if (frame.roce().opcode != static_cast<uint8_t>(Opcode::kWriteMiddle)) continue;
    shorten(frame, 8);
    break;
  }
  EXPECT_FALSE(capture.judge().findings.hold());
}

TEST(Mutation, BeginsInsideAMessage) {
  TestCapture capture = writes();
  capture.frames.erase(capture.frames.begin(), capture.frames.begin() + 5);
  expect_fails(capture.judge(), Check::kComplete);
}

TEST(Mutation, CaptureThatLacksSomething) {
  TestCapture capture = writes();
  capture.drops = 1;
  expect_fails(capture.judge(), Check::kComplete);
  capture.drops = 0;
  capture.frames.back().cut = 4;
  expect_fails(capture.judge(), Check::kComplete);
  capture.frames.back().cut = 0;
  auto file = capture.file();
  file.resize(file.size() - 4);  // inside the statistics block
  expect_fails(TestCapture::judge_bytes(file), Check::kComplete);
  capture.frames.clear();
  expect_fails(capture.judge(), Check::kComplete);
}

TEST(Mutation, OneDirectionOnly) {
  TestCapture capture = writes();
  std::erase_if(capture.frames, [](const TestFrame& f) {
    return f.roce().opcode == static_cast<uint8_t>(Opcode::kAcknowledge);
  });
  expect_fails(capture.judge(), Check::kAcknowledged);
  capture = writes();
  std::erase_if(capture.frames, [](const TestFrame& f) {
    return f.roce().opcode != static_cast<uint8_t>(Opcode::kAcknowledge);
  });
  expect_fails(capture.judge(), Check::kAcks);
}

}  // namespace
}  // namespace understudy
