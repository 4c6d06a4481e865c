// roce-check on recordings of Linux' own stack: legal behaviour, with losses, holds.
#include <gtest/gtest.h>

#include "tests/tools/roce_check/capture.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

struct Expected {
  const char* name;
  uint64_t messages;         ///< RC messages that were accepted
  uint64_t retransmissions;  ///< request packets
  uint64_t naks;             ///< all kinds but RNR
  uint64_t rnr_naks;
};

class Recordings : public testing::TestWithParam<Expected> {};

TEST_P(Recordings, Hold) {
  const auto analysis = analyse(recording(GetParam().name), {});
  ASSERT_TRUE(analysis) << analysis.error().text;
  expect_holds(*analysis);
  uint64_t messages = 0, retransmissions = 0, naks = 0, rnr = 0;
  for (const ConnectionResult& c : analysis->connections) {
    for (const DirectionResult* d : {&c.forward, &c.reverse}) {
      messages += d->messages.size();
      retransmissions += d->counts.retransmissions;
      rnr += d->counts.rnr_naks;
      for (uint64_t n : d->counts.naks) naks += n;
    }
  }
  EXPECT_EQ(messages, GetParam().messages);
  EXPECT_EQ(retransmissions, GetParam().retransmissions);
  EXPECT_EQ(naks, GetParam().naks);
  EXPECT_EQ(rnr, GetParam().rnr_naks);
}

// Messages are the programs' iterations (and the SENDs of their set-up), NAKs those that tshark
// counts. Retransmissions are request packets with a PSN below one seen before: 114 - 30 ATOMICs;
// 767 packets for 160 PSNs, of which 10 were lost before the capture saw them.
INSTANTIATE_TEST_SUITE_P(
    Rxe, Recordings,
    testing::Values(Expected{"rxe612_write_64k_x5_mtu1024", 5, 0, 0, 0},
                    Expected{"rxe_atomic_x30_serverloss10pct_ack_timeout", 30, 84, 0, 0},
                    Expected{"rxe_fadd_no_atomic_access_nak_invalid_request", 0, 0, 1, 0},
                    Expected{"rxe_fetchadd_rdmacm", 42, 0, 0, 0},
                    Expected{"rxe_rc_pingpong", 20, 0, 0, 0},
                    Expected{"rxe_read_4k_mtu1024_rdmacm", 42, 0, 0, 0},
                    Expected{"rxe_read_badrkey_nak_remote_access", 0, 0, 1, 0},
                    Expected{"rxe_rping_3x1000", 18, 0, 0, 0},
                    Expected{"rxe_send_4k_mtu1024_rdmacm", 32, 0, 0, 0},
                    Expected{"rxe_uc_write_4k", 10, 0, 0, 0}, Expected{"rxe_ucmatose", 12, 0, 0, 0},
                    Expected{"rxe_ud_send_1k", 0, 0, 0, 0},
                    Expected{"rxe_write_16k_x10_clientloss6pct_nak_seq", 10, 617, 9, 0},
                    Expected{"rxe_write_4k_mtu1024_rdmacm", 28, 0, 0, 0},
                    Expected{"rxe_write_64k_x5_mtu1024", 5, 0, 0, 0},
                    Expected{"rxe_write_badrkey_nak_remote_access", 0, 0, 1, 0},
                    Expected{"rxe_write_ipv6_linklocal", 5, 0, 0, 0}),
    [](const auto& info) { return std::string(info.param.name); });

// This recording was stopped while both sides still retried.
TEST(RecordingOfEndlessRnr, IsIncompleteButLegal) {
  const auto strict = analyse(recording("rxe_send_rnr_nak"), {});
  ASSERT_TRUE(strict);
  expect_fails(*strict, Check::kAcknowledged);
  for (size_t i = 0; i < kChecks; ++i) {
    if (static_cast<Check>(i) != Check::kAcknowledged) {
      EXPECT_NE(strict->findings.verdict(static_cast<Check>(i)), Verdict::kFails) << i;
    }
  }
  const auto open = analyse(recording("rxe_send_rnr_nak"), {.open_end = true});
  ASSERT_TRUE(open);
  expect_holds(*open);
  EXPECT_EQ(
      open->connections[0].forward.counts.rnr_naks + open->connections[0].reverse.counts.rnr_naks,
      121u);
}

// As between two real nodes, whose packets come in on one port and leave by the other.
TEST(Recordings, HoldWhereTwoInterfacesSeeThem) {
  for (const char* name : {"rxe_ucmatose", "rxe_rping_3x1000", "rxe_send_4k_mtu1024_rdmacm"}) {
    const TestCapture once = TestCapture::load(recording(name));
    TestCapture twice = once;
    twice.frames.clear();
    for (const TestFrame& frame : once.frames) {
      for (const uint32_t interface : {0u, 1u}) {
        twice.frames.push_back(frame);
        twice.frames.back().interface = interface;
        twice.frames.back().at = frame.at + Duration::ns(interface);
      }
    }
    const Analysis alone = once.judge(), analysis = twice.judge();
    EXPECT_TRUE(analysis.findings.hold()) << name << '\n' << all_examples(analysis);
    EXPECT_EQ(analysis.connections.size(), 2 * alone.connections.size()) << name;
  }
}

TEST(Recordings, PairsConnectionsByCmAndByBehaviour) {
  const auto cm = analyse(recording("rxe_read_4k_mtu1024_rdmacm"), {});
  ASSERT_TRUE(cm);
  ASSERT_EQ(cm->connections.size(), 2u);
  for (const ConnectionResult& c : cm->connections) {
    ASSERT_NE(c.reverse.flow, kNoFlow);
    EXPECT_EQ(cm->table.flows[c.forward.flow].dest_qpn, cm->table.flows[c.reverse.flow].dest_qpn);
  }
  EXPECT_EQ(std::max(cm->connections[0].connection.pmtu, cm->connections[1].connection.pmtu),
            1024u);
  // The same without the CM packets: two connections between the same hosts.
  TestCapture capture = TestCapture::load(recording("rxe_read_4k_mtu1024_rdmacm"));
  std::erase_if(capture.frames, [](const TestFrame& f) { return !f.is_rc(); });
  const Analysis inferred = capture.judge();
  expect_holds(inferred);
  ASSERT_EQ(inferred.connections.size(), 2u);
  for (const ConnectionResult& c : inferred.connections) {
    EXPECT_EQ(inferred.table.flows[c.forward.flow].dest_qpn,
              inferred.table.flows[c.reverse.flow].dest_qpn);
  }
}

// A queue pair number that is used again for another connection: here by one side only.
TEST(Recordings, QueuePairNumbersUsedAgain) {
  TestCapture capture = TestCapture::load(recording("rxe_write_64k_x5_mtu1024"));
  const TestCapture second = capture;
  const Duration later = Duration::s(60);
  for (TestFrame frame : second.frames) {
    FrameView view;
    RoceView roce;
    ASSERT_EQ(parse_frame(frame.bytes, view, roce), FrameKind::kRoce);
    frame.at += later;
    auto& udp = *reinterpret_cast<UdpHeader*>(frame.bytes.data() + view.l4);
    if (roce.info().is_request()) {
      udp.src_port = static_cast<uint16_t>(view.udp_src + 1);  // of another client
    } else {
      frame.bth().dest_qpn = roce.dest_qpn + 1;
    }
    frame.seal();
    capture.frames.push_back(std::move(frame));
  }
  const Analysis analysis = capture.judge();
  expect_holds(analysis);
  ASSERT_EQ(analysis.connections.size(), 2u);
  for (const ConnectionResult& c : analysis.connections) {
    EXPECT_NE(c.reverse.flow, kNoFlow);
    EXPECT_EQ(c.forward.messages.size() + c.reverse.messages.size(), 5u);
    EXPECT_EQ(c.forward.counts.retransmissions + c.reverse.counts.retransmissions, 0u);
  }
}

TEST(Report, TextAndJsonSayTheSame) {
  const auto analysis = analyse(recording("rxe_write_16k_x10_clientloss6pct_nak_seq"), {});
  ASSERT_TRUE(analysis);
  const std::string text = report_text(*analysis, "x.pcap");
  EXPECT_NE(text.find("retransmissions  617 packets"), std::string::npos) << text;
  EXPECT_NE(text.find("NAK psn_sequence 9"), std::string::npos) << text;
  EXPECT_NE(text.find("the capture holds"), std::string::npos) << text;
  const std::string json = report_json(*analysis, "x.pcap");
  EXPECT_NE(json.find("\"retransmissions\": 617"), std::string::npos) << json;
  EXPECT_NE(json.find("\"holds\": true"), std::string::npos) << json;
}

// Stamps of nonsense, as damaged files have them: times stay within reach of one another.
TEST(Source, TimesOfAnotherCentury) {
  std::ifstream in(recording("rxe_rc_pingpong"), std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  constexpr size_t kFileHeader = 24, kFrameHeader = 16;
  const size_t captured = bytes[kFileHeader + 8] + (size_t{bytes[kFileHeader + 9]} << 8);
  const size_t second = kFileHeader + kFrameHeader + captured;
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(second), 4, uint8_t{0});  // 1970
  const Analysis analysis = TestCapture::judge_bytes(bytes);
  EXPECT_EQ(analysis.source.frames, 100u);
  EXPECT_LE(analysis.table.last - analysis.table.first, Duration::s(4'000'002));
  EXPECT_GE(analysis.table.last - analysis.table.first, Duration::s(3'999'999));
}

TEST(Source, ErrorsNameTheFile) {
  for (const char* path : {"/nonexistent.pcap", "/dev/null", "/"}) {
    const auto analysis = analyse(path, {});
    ASSERT_FALSE(analysis) << path;
    EXPECT_NE(analysis.error().text.find(path), std::string::npos);
  }
  const auto text_file = analyse(std::string(UNDERSTUDY_TEST_DATA) + "/rxe/README.md", {});
  ASSERT_FALSE(text_file);
  EXPECT_NE(text_file.error().text.find("neither pcap nor pcapng"), std::string::npos);
}

}  // namespace
}  // namespace understudy
