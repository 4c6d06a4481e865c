// Handshakes that cannot be served: each ends with a text that names the service, never with a
// crash or a hang.
#include <gtest/gtest.h>

#include <functional>

#include "ctrl/peers/perftest/perftest.h"
#include "ctrl/peers/rdma_core/pingpong.h"
#include "ctrl/peers/services/service_peer.h"
#include "tests/ctrl/peers/recording.h"

namespace understudy {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

PerftestKey client_key() {
  PerftestKey key;
  key.qpn = 0x12;
  key.psn = Psn(0x123456);
  key.rkey = 0x362;
  key.address = 0x404f7000;
  key.gid = IpAddress::parse("10.9.0.200").value();
  return key;
}

std::string text_of(const PerftestKey& key) {
  const auto bytes = format_perftest_key(key);
  return {bytes.begin(), bytes.end()};
}

std::string changed(std::string text, size_t at, char to) {
  text.at(at) = to;
  return text;
}

const std::string kVersion("6.06\0\0\0\0\0\0\0\0\0\0\0\0", 16);
const std::string kHello =
    kVersion + std::string("\0\0\x10\0\0\0\0\x40", 8) + std::string("3\0", 2);
const std::string kKey = text_of(client_key());
const std::string kPingpong("0000:000014:a32692:00000000000000000000ffff0a0900c8\0", 52);

struct Case {
  const char* name;
  ServiceKind kind;
  std::string sent;
  bool closes;  ///< the failure comes when the client closes
  const char* text;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class BadHandshake : public testing::TestWithParam<Case> {};

TEST_P(BadHandshake, EndsWithAText) {
  for (const size_t piece : {size_t{1}, size_t{100000}}) {
    ServicePeer peer(recorded_service(GetParam().kind));
    const auto sent = bytes_of(GetParam().sent);
    for (size_t at = 0; at < sent.size() && !peer.finished(); at += piece) {
      peer.on_bytes(Time(), std::span(sent).subspan(at, std::min(piece, sent.size() - at)));
      for (size_t i = peer.take_requests().size(); i > 0; --i) {
        peer.on_endpoint(Time(), {0x40011, Psn(1), 0x1000, 7});
      }
    }
    if (GetParam().closes) {
      EXPECT_FALSE(peer.finished()) << peer.failure();
      peer.on_closed(Time());
    }
    EXPECT_TRUE(peer.finished());
    EXPECT_NE(peer.failure().find(GetParam().text), std::string::npos) << peer.failure();
    EXPECT_EQ(peer.failure().rfind("service w0:18515 (kind \"", 0), 0u) << peer.failure();
    // Nothing moves it any more.
    peer.on_bytes(Time(), bytes_of(kKey));
    peer.on_endpoint(Time(), {});
    peer.on_closed(Time());
    EXPECT_TRUE(peer.take_requests().empty());
  }
}

PerftestKey with(const std::function<void(PerftestKey&)>& change) {
  PerftestKey key = client_key();
  change(key);
  return key;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadHandshake,
    testing::Values(
        Case{"nothing", ServiceKind::kAuto, "", true, "closed after 0 bytes"},
        Case{"too_short", ServiceKind::kAuto, "0000", true, "closed after 4 bytes"},
        Case{"http", ServiceKind::kAuto, "GET / HTTP/1.1\r\n", false,
             "neither a pingpong nor perftest"},
        Case{"binary", ServiceKind::kAuto, std::string(64, '\0'), false, "neither"},
        Case{"pingpong_cut", ServiceKind::kAuto, kPingpong.substr(0, 40), true,
             "40 of the 52 bytes"},
        Case{"pingpong_bad_hex", ServiceKind::kAuto, changed(kPingpong, 20, 'g'), false,
             "not an ibv_rc_pingpong address"},
        Case{"pingpong_no_zero", ServiceKind::kAuto, changed(kPingpong, 51, '0'), false,
             "not an ibv_rc_pingpong address"},
        Case{"pingpong_no_gid", ServiceKind::kAuto,
             "0000:000014:a32692:" + std::string(32, '0') + std::string(1, '\0'), false,
             "sent no GID"},
        Case{"ud_pingpong_no_zero", ServiceKind::kUdPingpong, changed(kPingpong, 51, '0'), false,
             "not an ibv_ud_pingpong address"},
        Case{"ud_pingpong_cut", ServiceKind::kUdPingpong, kPingpong.substr(0, 40), true,
             "40 of the 52 bytes of an ibv_ud_pingpong address"},
        Case{"perftest_for_ud_pingpong", ServiceKind::kUdPingpong, kVersion, false,
             "the client is a perftest program; set kind"},
        Case{"pingpong_not_done", ServiceKind::kPingpong, kPingpong + "donut", false,
             "\"done\" expected, got \"donut\""},
        Case{"pingpong_leaves", ServiceKind::kPingpong, kPingpong, true, "before it said \"done\""},
        Case{"pingpong_for_perftest", ServiceKind::kSendBw, kPingpong, false,
             "the client is a pingpong; set kind = \"pingpong\" or \"auto\" for ibv_rc_pingpong, "
             "\"ud_pingpong\" for ibv_ud_pingpong, for node w0"},
        Case{"perftest_for_pingpong", ServiceKind::kPingpong, kVersion, false,
             "the client is a perftest program; set kind"},
        Case{"old_perftest", ServiceKind::kAuto, "5.31" + std::string(12, '\0'), false,
             "older than 5.70"},
        Case{"version_garbage", ServiceKind::kAuto, "6.xy" + std::string(12, '\0'), false,
             "not a perftest version"},
        Case{"mtu_code_6", ServiceKind::kAuto, kHello.substr(0, 24) + std::string("6\0", 2), false,
             "not a path MTU code: \"6.\""},
        Case{"mtu_text", ServiceKind::kAuto, kHello.substr(0, 24) + "10", false, "path MTU code"},
        Case{"key_cut", ServiceKind::kAuto, kHello + kKey.substr(0, 107), true,
             "closed during the handshake"},
        Case{"key_bad_hex", ServiceKind::kAuto, kHello + changed(kKey, 12, 'x'), false,
             "not a perftest key message"},
        Case{"key_no_colon", ServiceKind::kAuto, kHello + changed(kKey, 4, '0'), false,
             "not a perftest key message"},
        Case{"key_no_zero", ServiceKind::kAuto, kHello + changed(kKey, 107, ' '), false,
             "not a perftest key message"},
        Case{"key_without_gid", ServiceKind::kAuto,
             kHello + "0000:0001:000012:9d149f:00000362:00000000404f7000:00000000" +
                 std::string(1, '\0'),
             false, "the client sent no GID; give it a GID index (-x)"},
        Case{"key_zero_gid", ServiceKind::kAuto,
             kHello + text_of(with([](PerftestKey& k) { k.gid = IpAddress(); })), false,
             "sent no GID"},
        Case{"report_first", ServiceKind::kAuto, kHello + std::string(8, '\0'), false,
             "a report before any queue pair"},
        Case{"send_for_write", ServiceKind::kWriteBw,
             kHello + text_of(with([](PerftestKey& k) { k.rkey = 0; })), false,
             "it runs a SEND test; set kind = \"send_bw\" or \"send_lat\" for node w0"},
        Case{"read_for_send", ServiceKind::kSendLat,
             kHello + text_of(with([](PerftestKey& k) { k.out_reads = 128; })), false,
             "it runs a READ or ATOMIC test; set kind = \"read_bw\", \"read_lat\", \"atomic_bw\" "
             "or"},
        Case{"write_bw_for_send_bw", ServiceKind::kSendBw, kHello + kKey + kKey + kKey, true,
             "(3 messages, 1 queue pairs) is that of ib_write_bw, ib_read_bw"},
        Case{"send_bw_for_write_bw", ServiceKind::kWriteBw, kHello + kKey + kKey + kKey + kKey,
             true, "(4 messages, 1 queue pairs) is that of ib_send_bw, ib_send_lat"},
        Case{"flood", ServiceKind::kWriteBw, kHello + kKey + "0" + std::string(5000, 'a'), false,
             ""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BadHandshakes, GidOfAFamilyThatTheNodeLacks) {
  Service service = recorded_service(ServiceKind::kAuto);
  service.v6.reset();
  ServicePeer peer(service);
  peer.on_bytes(Time(), bytes_of(kHello + text_of(with([](PerftestKey& k) {
                                   k.gid = IpAddress::parse("fd00:9::c8").value();
                                 }))));
  EXPECT_TRUE(peer.finished());
  EXPECT_NE(peer.failure().find("GID fd00:9::c8 is IPv6 but node w0 has no IPv6 address"),
            std::string::npos)
      << peer.failure();
}

TEST(BadHandshakes, ClientThatDoesNotWaitForItsEndpointIsCutOff) {
  ServicePeer peer(recorded_service(ServiceKind::kAuto));
  peer.on_bytes(Time(), bytes_of(kHello + kKey));
  for (int i = 0; i < 5; ++i) peer.on_bytes(Time(), std::vector<uint8_t>(1000, '0'));
  EXPECT_TRUE(peer.finished());
  EXPECT_NE(peer.failure().find("without waiting for an answer"), std::string::npos);
}

TEST(BadHandshakes, RefusedEndpointIsTheClientsEnd) {
  ServicePeer peer(recorded_service(ServiceKind::kAuto));
  peer.on_bytes(Time(), bytes_of(kHello + kKey));
  ASSERT_EQ(peer.take_requests().size(), 1u);
  peer.on_refused(Time(), "10.9.0.200 is no real node");
  EXPECT_TRUE(peer.finished());
  EXPECT_EQ(peer.failure(), "service w0:18515 (kind \"auto\"): 10.9.0.200 is no real node");
}

TEST(PerftestHandshake, SmallerPathMtuWinsAndOursIsToldAsACode) {
  Service service = recorded_service(ServiceKind::kAuto);
  service.mtu = 512;
  ServicePeer small(service);
  small.on_bytes(Time(), bytes_of(kHello + kKey));
  const auto output = small.take_output();
  ASSERT_EQ(output.size(), 26u);
  EXPECT_EQ(output[24], '2');
  EXPECT_EQ(small.take_requests().at(0).mtu, 512u);
  ServicePeer large(recorded_service(ServiceKind::kAuto));
  large.on_bytes(Time(), bytes_of(kHello + kKey));
  EXPECT_EQ(large.take_requests().at(0).mtu, 1024u);  // the client's code is 3
}

TEST(PerftestHandshake, FirstPsnsFollowTheSeed) {
  Service service = recorded_service(ServiceKind::kAuto);
  const Psn one = choose_psn(service, client_key().gid, 0x12);
  EXPECT_EQ(choose_psn(service, client_key().gid, 0x12), one);
  EXPECT_NE(choose_psn(service, client_key().gid, 0x13), one);
  service.seed = 2;
  EXPECT_NE(choose_psn(service, client_key().gid, 0x12), one);
}

}  // namespace
}  // namespace understudy
