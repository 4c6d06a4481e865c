// Peers against recordings of the unmodified programs: our answers have to be the recorded
// server's, byte by byte, when the queue pairs and memory are the recorded ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "ctrl/peers/rdma_core/pingpong.h"
#include "ctrl/peers/services/service_peer.h"
#include "tests/ctrl/peers/recording.h"

namespace understudy {
namespace {

struct Case {
  const char* name;
  ServiceKind kind;
  Behaviour behaviour;
  size_t queue_pairs;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " as " << service_kind_name(c.kind);
}

class Replay : public testing::TestWithParam<Case> {
 protected:
  /// What the recorded server had: parsed from its answer.
  static EndpointReady recorded_endpoint(const std::vector<uint8_t>& answer) {
    if (const auto key = parse_perftest_key(answer)) {
      return {key->qpn, key->psn, key->address, key->rkey};
    }
    const auto address = parse_pingpong(answer);
    EXPECT_TRUE(address.has_value());
    return {address->qpn, address->psn, 0, 0};
  }

  /// Feeds the client's side in pieces of `piece` bytes and checks each answer.
  void run(size_t piece) {
    const auto writes = load_recording(GetParam().name);
    ServicePeer peer(recorded_service(GetParam().kind));
    size_t client_messages = 0;
    for (size_t i = 0; i < writes.size(); ++i) {
      SCOPED_TRACE("line " + std::to_string(i + 1));
      const auto& bytes = writes[i].bytes;
      if (!writes[i].from_client) continue;  // compared below, or "done"
      ++client_messages;
      for (size_t at = 0; at < bytes.size(); at += piece) {
        ASSERT_TRUE(peer.take_output().empty()) << "an answer before the message was complete";
        peer.on_bytes(Time(), std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      }
      for (const EndpointRequest& request : peer.take_requests()) {
        ASSERT_LT(i + 1, writes.size());
        requests_.push_back(request);
        peer.on_endpoint(Time(), recorded_endpoint(writes[i + 1].bytes));
      }
      for (const EndpointStart& start : peer.take_starts()) {
        starts_.emplace_back(client_messages, start);
      }
      const auto output = peer.take_output();
      const bool said_done = bytes.size() == 5;
      ASSERT_EQ(peer.failure(), "");
      ASSERT_EQ(peer.finished(), said_done);
      if (said_done) {
        EXPECT_TRUE(output.empty());
      } else if (bytes.size() == kPerftestReportField) {  // the recorded answer is garbage
        EXPECT_EQ(output, std::vector<uint8_t>(kPerftestReportField, 0));
      } else {
        EXPECT_EQ(std::string(output.begin(), output.end()),
                  std::string(writes[i + 1].bytes.begin(), writes[i + 1].bytes.end()));
      }
    }
    peer.on_closed(Time());
    EXPECT_TRUE(peer.finished());
    EXPECT_EQ(peer.failure(), "");
  }

  std::vector<EndpointRequest> requests_;
  std::vector<std::pair<size_t, EndpointStart>> starts_;  ///< after how many messages
};

TEST_P(Replay, AnswersAsTheRecordedServer) {
  run(1000);
  ASSERT_EQ(requests_.size(), GetParam().queue_pairs);
  const bool v6 = std::string(GetParam().name) == "write_bw_gid6";
  const bool pingpong = std::string(GetParam().name) == "pingpong";
  for (const EndpointRequest& request : requests_) {
    EXPECT_EQ(request.behaviour, GetParam().behaviour);
    EXPECT_EQ(request.local.text(), v6 ? "::1" : "10.9.0.1");
    EXPECT_EQ(request.remote.text(), v6 ? "::1" : "10.9.0.200");
    EXPECT_EQ(request.mtu, pingpong ? 1024u : 4096u);
    EXPECT_EQ(request.region_bytes, uint64_t{1} << 31);  // any message fits that may be sent
    EXPECT_EQ(request.timeout, 14);
    EXPECT_EQ(request.min_rnr_timer, 12);
    EXPECT_NE(request.remote_qpn, 0u);
  }
}

TEST_P(Replay, OneByteAtATime) { run(1); }

TEST_P(Replay, OnlyTheServerOfWriteLatSpeaksFirst) {
  run(1000);
  if (GetParam().behaviour == Behaviour::kWriteEcho) {
    // Version, two numbers, MTU, two keys, and the first key that the connected client sends.
    ASSERT_EQ(starts_.size(), 1u);
    EXPECT_EQ(starts_[0].first, 7u);
    EXPECT_EQ(starts_[0].second.qpn, 0x15u);
    EXPECT_EQ(starts_[0].second.opening_bytes, 4096u);
    EXPECT_EQ(starts_[0].second.remote_rkey, 0x735u);
    EXPECT_EQ(starts_[0].second.remote_address, 0x552aaea000u);
  } else {
    EXPECT_TRUE(starts_.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recordings, Replay,
    testing::Values(Case{"pingpong", ServiceKind::kAuto, Behaviour::kSendEcho, 1},
                    Case{"pingpong", ServiceKind::kPingpong, Behaviour::kSendEcho, 1},
                    Case{"write_bw", ServiceKind::kAuto, Behaviour::kMemoryTarget, 1},
                    Case{"write_bw", ServiceKind::kWriteBw, Behaviour::kMemoryTarget, 1},
                    Case{"write_bw_q4", ServiceKind::kAuto, Behaviour::kMemoryTarget, 4},
                    Case{"write_bw_gid6", ServiceKind::kAuto, Behaviour::kMemoryTarget, 1},
                    Case{"write_lat", ServiceKind::kWriteLat, Behaviour::kWriteEcho, 1},
                    Case{"send_bw", ServiceKind::kAuto, Behaviour::kReceiveSink, 1},
                    Case{"send_bw", ServiceKind::kSendBw, Behaviour::kReceiveSink, 1},
                    Case{"send_bw_q3", ServiceKind::kSendBw, Behaviour::kReceiveSink, 3},
                    Case{"send_lat", ServiceKind::kSendLat, Behaviour::kSendEcho, 1},
                    Case{"read_bw", ServiceKind::kAuto, Behaviour::kMemoryTarget, 1},
                    Case{"read_bw", ServiceKind::kReadBw, Behaviour::kMemoryTarget, 1},
                    Case{"read_lat", ServiceKind::kAuto, Behaviour::kMemoryTarget, 1},
                    Case{"read_lat", ServiceKind::kReadLat, Behaviour::kMemoryTarget, 1}));

TEST(ReplayDetails, TheClientsQueuePairReachesTheRequest) {
  const auto writes = load_recording("write_lat");
  ServicePeer peer(recorded_service(ServiceKind::kWriteLat));
  for (const auto& write : writes) {
    if (write.from_client) peer.on_bytes(Time(), write.bytes);
    const auto requests = peer.take_requests();
    if (requests.empty()) continue;
    EXPECT_EQ(requests[0].remote_qpn, 0x16u);
    EXPECT_EQ(requests[0].remote_psn, Psn(0xcfba31));
    EXPECT_GE(requests[0].region_bytes, uint64_t{1} << 31);
    return;
  }
  FAIL() << "no queue pair was asked for";
}

/// ibv_ud_pingpong's exchange is the same as ibv_rc_pingpong's: only the service's kind tells.
TEST(ReplayDetails, ADatagramQueuePairIsAskedForWhereTheServiceIsOne) {
  const auto writes = load_recording("pingpong");
  ServicePeer peer(recorded_service(ServiceKind::kUdPingpong));
  peer.on_bytes(Time(), writes.front().bytes);
  const auto requests = peer.take_requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].behaviour, Behaviour::kDatagramEcho);
  EXPECT_EQ(requests[0].qkey, 0x11111111u);  // ud_pingpong.c
  EXPECT_EQ(requests[0].mtu, 4096u);
  EXPECT_EQ(requests[0].region_bytes, 0u);
  peer.on_endpoint(Time(), {0x40011, Psn(1), 0, 0});
  const auto answer = parse_pingpong(peer.take_output());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->qpn, 0x40011u);
  EXPECT_TRUE(peer.endpoints_outlive_connection());
}

}  // namespace
}  // namespace understudy
