// roce-check on what passes on an interface: frames from a table, time from the table, too.
#include "tools/roce_check/live/watch.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <limits>
#include <random>
#include <vector>

#include "tests/fuzz/live_capture_drive.h"
#include "tests/tools/roce_check/conversation.h"
#include "tests/tools/roce_check/traffic.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

/// Frames pass at their times, whoever looks; the kernel's buffer is as large as it takes.
class TableCapture final : public LiveCapture {
 public:
  explicit TableCapture(std::vector<TestFrame> frames) : frames_(std::move(frames)) {
    summary_.format = "live";
    summary_.interfaces = {"table0"};
    summary_.has_drop_counts = true;
    summary_.whole_from = Time::zero() + kSettlingIn;
  }
  Time now() const override { return now_; }
  Result<void> take(Duration patience, const Taker& taker) override {
    ++takes;
    now_ = now_ + patience;
    if (at_ == frames_.size() && goes_away) return fail("table0: it went away");
    if (at_ == frames_.size() && signal_at_end != nullptr) *signal_at_end = SIGINT;
    hand_over(taker, batch);
    if (at_ >= drops_from) summary_.drops = drops;
    return {};
  }
  void take_rest(const Taker& taker) override { hand_over(taker, frames_.size()); }
  size_t left() const { return frames_.size() - at_; }

  size_t batch = 1000;  ///< frames of one take
  uint64_t takes = 0, drops = 0;
  size_t drops_from = std::numeric_limits<size_t>::max();
  bool goes_away = false;
  volatile std::sig_atomic_t* signal_at_end = nullptr;

 private:
  void hand_over(const Taker& taker, size_t most) {
    for (size_t i = 0; i < most && at_ < frames_.size() && frames_[at_].at <= now_; ++i, ++at_) {
      const TestFrame& f = frames_[at_];
      SourceFrame out;
      out.number = ++summary_.frames;
      out.at = f.at;
      out.bytes = f.bytes;
      out.original_bytes = static_cast<uint32_t>(f.bytes.size());
      taker(out);
    }
  }

  const std::vector<TestFrame> frames_;
  size_t at_ = 0;
  Time now_;
};

/// Everything happens once the capture has settled in.
std::vector<TestFrame> settled(const Conversation& c) {
  std::vector<TestFrame> out = c.capture.frames;
  for (TestFrame& f : out) f.at = f.at + kSettlingIn + Duration::ms(100);
  return out;
}

struct Lines {
  std::vector<std::string> said;
  WatchOptions options(Duration duration = Duration::s(3)) {
    WatchOptions out;
    out.interval = Duration::ms(500);
    out.duration = duration;
    out.say = [this](const std::string& line) { said.push_back(line); };
    return out;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Live, HoldsAndSaysHowItStands) {
  TableCapture capture(settled(eventful()));
  Lines lines;
  const Watched watched = watch(capture, talk_options(), lines.options());
  expect_holds(watched.analysis);
  EXPECT_FALSE(watched.broken);
  ASSERT_EQ(lines.said.size(), 6u);
  EXPECT_TRUE(contains(lines.said[0], "0.500 s  0 packets, 0/s; 0 connections; violations 0"))
      << lines.said[0];
  EXPECT_TRUE(contains(lines.said[5], "3.000 s  ")) << lines.said[5];
  EXPECT_TRUE(
      contains(lines.said[5], "1 connections; violations 0, suspicions 0, notes 0; dropped 0"))
      << lines.said[5];
  const std::string text = report_text(watched.analysis, "table0");
  EXPECT_TRUE(contains(text, "table0: live, ")) << text;
}

// The line of the interval in which it passed names it; once.
TEST(Live, AViolationIsSaidAtOnce) {
  Conversation c = eventful();
  std::vector<TestFrame> frames = settled(c);
  frames[c.at("ack of sends")].bytes.back() ^= 1;  // its ICRC
  TableCapture capture(std::move(frames));
  Lines lines;
  const Watched watched = watch(capture, talk_options(), lines.options(Duration::s(6)));
  expect_fails(watched.analysis, Check::kIcrc);
  size_t said = 0, line = 0;
  for (size_t i = 0; i < lines.said.size(); ++i) {
    if (!contains(lines.said[i], "ICRC is wrong")) continue;
    ++said;
    line = i;
  }
  EXPECT_EQ(said, 1u);
  EXPECT_LT(line, lines.said.size() - 3);
  EXPECT_TRUE(contains(lines.said[line - 1], "violations 1")) << lines.said[line - 1];
}

TEST(Live, DropsOfTheKernelMakeItIncomplete) {
  TableCapture capture(settled(eventful()));
  capture.drops_from = 10;
  capture.drops = 7;
  Lines lines;
  const Watched watched = watch(capture, talk_options(), lines.options());
  expect_fails(watched.analysis, Check::kComplete);
  EXPECT_TRUE(contains(lines.said.back(), "dropped 7")) << lines.said.back();
  EXPECT_TRUE(contains(report_text(watched.analysis, "t"), "7 frames were dropped by the capture"));
}

// A gap that nobody asked for is not in the capture: no fault of a connection, but it is said.
TEST(Live, AGapIsNoFaultOfTheConnection) {
  Conversation c = eventful();
  c.capture.erase(c.at("middle"));
  TableCapture capture(settled(c));
  const Watched watched = watch(capture, talk_options(), Lines{}.options());
  EXPECT_EQ(watched.analysis.findings.count(Rule::kA4_2), 0u);
  EXPECT_EQ(watched.analysis.findings.count(Rule::kComplete), 1u) << all_examples(watched.analysis);
}

// Wherever it begins: what was on its way is no fault.
TEST(Live, BeginsAnywhere) {
  std::vector<TestCapture> all = {eventful().capture, congested().capture};
  for (const char* name : {"rxe612_write_64k_x5_mtu1024", "rxe_read_4k_mtu1024_rdmacm",
                           "rxe_rping_3x1000", "rxe_atomic_x30_serverloss10pct_ack_timeout",
                           "rxe_write_16k_x10_clientloss6pct_nak_seq", "rxe_rc_pingpong"}) {
    all.push_back(TestCapture::load(recording(name)));
  }
  uint64_t before = 0;
  for (const TestCapture& good : all) {
    const size_t frames = good.frames.size();
    for (size_t first = 1; first < frames; first += 1 + frames / 30) {
      std::vector<TestFrame> rest(good.frames.begin() + static_cast<std::ptrdiff_t>(first),
                                  good.frames.end());
      const Duration since = rest.front().at - Time::zero();
      for (TestFrame& f : rest) f.at = f.at - since;
      TableCapture capture(std::move(rest));
      capture.batch = 50;
      WatchOptions options;
      options.duration = Duration::s(60);
      const Watched watched = watch(capture, talk_options(), options);
      EXPECT_EQ(capture.left(), 0u);
      EXPECT_TRUE(watched.analysis.findings.hold()) << "from frame " << first + 1 << '\n'
                                                    << all_examples(watched.analysis);
      for (const ConnectionResult& c : watched.analysis.connections) {
        before += c.forward.counts.sent_before + c.reverse.counts.sent_before;
      }
    }
  }
  EXPECT_GT(before, 10u);
}

// Answers to what it shows would be in it.
TEST(Live, MarksFromItsBeginningOnAreToBeAnswered) {
  Conversation c = congested();
  for (const char* cnp : {"cnp 3", "cnp 2", "cnp 1"}) c.capture.erase(c.at(cnp));
  c.wait(kSettlingIn).client(Opcode::kWriteOnly, talk_psn(4), 64, 64).ack(talk_psn(4), 5);
  TableCapture capture(c.capture.frames);
  const Watched watched = watch(capture, talk_options(), Lines{}.options());
  EXPECT_EQ(watched.analysis.findings.count(Rule::kA6_2), 1u) << all_examples(watched.analysis);
}

TEST(Live, ASignalEndsItAndTheRestIsTaken) {
  volatile std::sig_atomic_t signal = 0;
  TableCapture capture(settled(eventful()));
  capture.batch = 1;
  WatchOptions options;
  options.interval = Duration::s(10);
  options.signal = &signal;
  signal = SIGTERM;
  const Watched nothing = watch(capture, talk_options(), options);
  EXPECT_EQ(capture.takes, 0u);
  EXPECT_EQ(nothing.analysis.source.frames, 0u);
  expect_fails(nothing.analysis, Check::kComplete);  // no packet at all
  signal = 0;
  capture.signal_at_end = &signal;
  const Watched all = watch(capture, talk_options(), options);
  EXPECT_EQ(all.analysis.source.frames, eventful().capture.frames.size());
  expect_holds(all.analysis);
}

TEST(Live, EndsInMidRun) {
  Conversation c;
  c.client(Opcode::kWriteFirst, talk_psn(0), 1024, 2048)
      .client(Opcode::kWriteLast, talk_psn(1), 1024);
  c.ack(talk_psn(1), 1).client(Opcode::kWriteFirst, talk_psn(2), 1024, 2048);
  TableCapture capture(settled(c));
  expect_holds(watch(capture, talk_options(), Lines{}.options()).analysis);
}

TEST(Live, AnInterfaceThatGoesAway) {
  TableCapture capture(settled(eventful()));
  capture.goes_away = true;
  WatchOptions options;
  options.duration = Duration::s(3600);
  const Watched watched = watch(capture, talk_options(), options);
  ASSERT_TRUE(watched.broken);
  EXPECT_EQ(*watched.broken, "table0: it went away");
  EXPECT_EQ(capture.left(), 0u);
  expect_holds(watched.analysis);
}

TEST(Live, InterfaceThatIsNotThere) {
  const auto capture = open_live_capture("no_such_if0");
  ASSERT_FALSE(capture);
  EXPECT_TRUE(contains(capture.error().text, "no_such_if0: ")) << capture.error().text;
}

// In the kernel tags are taken out before; here they stand in the frames.
TEST(Live, TheFilterLetsRocePacketsThrough) {
  pcap_t* const dead = pcap_open_dead(DLT_EN10MB, 65535);
  bpf_program program{};
  ASSERT_EQ(pcap_compile(dead, &program, live_filter(), 1, PCAP_NETMASK_UNKNOWN), 0)
      << pcap_geterr(dead);
  const auto passes = [&](const std::vector<uint8_t>& frame) {
    const auto size = static_cast<bpf_u_int32>(frame.size());
    const pcap_pkthdr header{{}, size, size};
    return pcap_offline_filter(&program, &header, frame.data()) != 0;
  };
  const auto tagged = [](std::vector<uint8_t> frame, std::vector<uint8_t> tag) {
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    return frame;
  };
  for (const bool v6 : {false, true}) {
    RoceAddressing a;
    a.src = v6 ? *IpAddress::parse("2001:db8::1") : IpAddress::v4(0x0a000001);
    a.dst = v6 ? *IpAddress::parse("2001:db8::2") : IpAddress::v4(0x0a000002);
    RoceFields f;
    f.opcode = Opcode::kAcknowledge;
    std::vector<uint8_t> frame(roce_frame_bytes(a, f.opcode, 0));
    begin_roce(frame.data(), a, f, 0);
    finish_roce(frame.data(), a, f.opcode, 0);
    const auto in_vlan = tagged(frame, {0x81, 0, 0x60, 7});
    EXPECT_TRUE(passes(frame)) << v6;
    EXPECT_TRUE(passes(in_vlan)) << v6;
    EXPECT_TRUE(passes(tagged(in_vlan, {0x88, 0xa8, 0, 9}))) << v6;
    const size_t port = 14u + (v6 ? 40u : 20u) + 2;
    frame[port + 1] ^= 1;
    EXPECT_FALSE(passes(frame)) << v6;
    EXPECT_FALSE(passes(tagged(frame, {0x81, 0, 0x60, 7}))) << v6;
  }
  pcap_freecode(&program);
  pcap_close(dead);
}

/// tests/fuzz/live_capture_drive.h says what must hold.
TEST(Live, AnythingMayPass) {
  std::mt19937_64 random(28);
  uint64_t packets = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<uint8_t> bytes(3 + random() % 400);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    // Opcodes that are known, mostly.
    for (size_t i = 5; i < bytes.size(); i += 9) bytes[i] %= 18;
    packets += drive_live_capture(bytes).roce;
  }
  EXPECT_GT(packets, 1000U);
}

}  // namespace
}  // namespace understudy
