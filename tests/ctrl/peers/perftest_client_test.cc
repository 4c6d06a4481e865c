// Our client of perftest: against recorded servers its messages have the recorded client's sizes in
// the recorded order; against our own server both come to the end of their test.
#include <gtest/gtest.h>

#include "ctrl/peers/perftest/perftest_caller.h"
#include "ctrl/peers/perftest/perftest_client.h"
#include "ctrl/peers/perftest/perftest_cm.h"
#include "ctrl/peers/services/service_peer.h"
#include "tests/ctrl/peers/recording.h"

namespace understudy {
namespace {

Service client_node(ServiceKind kind) {
  Service service;
  service.node = "w3";
  service.v4 = IpAddress::parse("10.9.0.200");
  service.port = 18515;
  service.kind = kind;
  return service;
}

PerftestClient client_of(ServiceKind kind, uint32_t queue_pairs) {
  PerftestClientTest test;
  test.kind = kind;
  test.bytes = 4096;
  test.iterations = 50;
  test.queue_pairs = queue_pairs;
  return PerftestClient(client_node(kind), *IpAddress::parse("10.9.0.1"), test);
}

/// The dataplane of a client: gives queue pairs, and ends their traffic as soon as it is started.
class Dataplane {
 public:
  explicit Dataplane(PerftestClient& client) : client_(client) {}
  void serve() {
    for (const EndpointRequest& request : client_.take_requests()) {
      if (request.reserve) {
        ++reserved;
        client_.on_endpoint(
            Time(), {0x40000u + reserved, request.local_psn, 0x1000u * reserved, reserved << 8});
      } else {
        connected.push_back(request);
        client_.on_endpoint(Time(), {request.reserved, request.local_psn, 0, 0});
      }
    }
    for (const EndpointStart& start : client_.take_starts()) {
      started.push_back(start);
      TrafficResult result{start.qpn, 50, Time::zero(), Time::zero() + Duration::ms(1),
                           WorkStatus::kSuccess};
      if (started.size() == failing) result.status = WorkStatus::kRetryExceeded;
      client_.on_traffic(Time(), result);
    }
  }
  uint32_t reserved = 0;
  size_t failing = 0;  ///< which start fails, counted from 1
  std::vector<EndpointRequest> connected;
  std::vector<EndpointStart> started;

 private:
  PerftestClient& client_;
};

struct Case {
  const char* name;
  ServiceKind kind;
  uint32_t queue_pairs;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class PerftestClients : public testing::TestWithParam<Case> {};

TEST_P(PerftestClients, SpeaksAsTheRecordedClient) {
  PerftestClient client = client_of(GetParam().kind, GetParam().queue_pairs);
  Dataplane dataplane(client);
  client.on_connected(Time());
  dataplane.serve();
  const auto writes = load_recording(GetParam().name);
  std::vector<uint8_t> said;
  for (const RecordedWrite& write : writes) {
    if (!write.from_client) {
      if (write.bytes.size() == kPerftestDone.size()) continue;  // both say it, nobody waits
      for (const uint8_t byte : write.bytes) client.on_bytes(Time(), std::span(&byte, 1));
      dataplane.serve();
      continue;
    }
    if (said.empty()) said = client.take_output();
    ASSERT_EQ(said.size(), write.bytes.size());
    if (const auto key = parse_perftest_key(said)) {
      EXPECT_EQ(key->gid, *IpAddress::parse("10.9.0.200"));
      EXPECT_EQ(key->out_reads > 1, GetParam().kind == ServiceKind::kReadBw);
    }
    said.clear();
  }
  EXPECT_TRUE(client.finished());
  EXPECT_EQ(client.failure(), "");
  EXPECT_EQ(dataplane.reserved, GetParam().queue_pairs);
  ASSERT_EQ(dataplane.connected.size(), GetParam().queue_pairs);
  // The server's keys, in their order.
  size_t key = 0;
  for (const RecordedWrite& write : writes) {
    const auto theirs = parse_perftest_key(write.bytes);
    if (write.from_client || !theirs || key == dataplane.connected.size()) continue;
    EXPECT_EQ(dataplane.connected[key].remote_qpn, theirs->qpn);
    EXPECT_EQ(dataplane.connected[key].remote_psn, theirs->psn);
    EXPECT_EQ(dataplane.connected[key].max_rd_atomic, theirs->out_reads);
    EXPECT_EQ(dataplane.connected[key].mtu, 4096u);
    EXPECT_EQ(dataplane.connected[key].traffic.count, 50u);
    EXPECT_EQ(dataplane.started[key].remote_address, theirs->address);
    EXPECT_EQ(dataplane.started[key].remote_rkey, theirs->rkey);
    ++key;
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, PerftestClients,
                         testing::Values(Case{"write_bw", ServiceKind::kWriteBw, 1},
                                         Case{"write_bw_q4", ServiceKind::kWriteBw, 4},
                                         Case{"send_bw", ServiceKind::kSendBw, 1},
                                         Case{"send_bw_q3", ServiceKind::kSendBw, 3},
                                         Case{"read_bw", ServiceKind::kReadBw, 1}));

TEST(PerftestClientTest, OurClientAndOurServerAgree) {
  for (const ServiceKind kind :
       {ServiceKind::kWriteBw, ServiceKind::kSendBw, ServiceKind::kReadBw}) {
    SCOPED_TRACE(service_kind_name(kind));
    PerftestClient client = client_of(kind, 3);
    Dataplane dataplane(client);
    ServicePeer server(recorded_service(kind));
    client.on_connected(Time());
    Qpn next = 0x50000;
    for (int round = 0; round < 100 && !server.finished(); ++round) {
      dataplane.serve();
      server.on_bytes(Time(), client.take_output());
      for (const EndpointRequest& request : server.take_requests()) {
        server.on_endpoint(Time(), {++next, request.local_psn, 0x10000, next});
      }
      client.on_bytes(Time(), server.take_output());
    }
    EXPECT_TRUE(client.finished());
    EXPECT_TRUE(server.finished());
    EXPECT_EQ(client.failure() + server.failure(), "");
    ASSERT_EQ(dataplane.started.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(dataplane.connected[i].remote_qpn, 0x50001 + i);
      EXPECT_EQ(dataplane.started[i].remote_rkey, 0x50001 + i);
    }
  }
}

/// Both machines by RDMA-CM: calls become requests, and messages are carried one by one.
TEST(PerftestCallerTest, OurClientAndOurServerAgreeByRdmaCm) {
  for (const ServiceKind kind :
       {ServiceKind::kWriteBw, ServiceKind::kSendBw, ServiceKind::kReadBw}) {
    SCOPED_TRACE(service_kind_name(kind));
    PerftestClientTest test;
    test.kind = kind;
    test.bytes = 4096;
    test.iterations = 50;
    test.queue_pairs = 3;
    PerftestCaller caller(client_node(kind), *IpAddress::parse("10.9.0.1"), test);
    PerftestCmService service(recorded_service(kind));
    std::vector<EndpointStart> started;
    std::vector<CmMachine::Id> closes;
    for (int round = 0; round < 100 && closes.empty(); ++round) {
      for (const CmCall& call : caller.take_calls()) {
        EXPECT_EQ(call.request.behaviour,
                  call.id == 0 ? Behaviour::kMessages : Behaviour::kTraffic);
        caller.on_endpoint(Time(), call.id, {0x40000 + call.id, Psn(1), 0x9000, 0x99});
        CmClient client;
        client.local = call.request.remote;
        client.remote = call.request.local;
        client.remote_qpn = 0x40000 + call.id;
        client.responder_resources = call.responder_resources;
        ASSERT_TRUE(service.on_request(Time(), call.id, client));
        service.on_endpoint(Time(), call.id, {0x50000 + call.id, Psn(2), 0x10000, call.id});
        caller.on_established(Time(), call.id);
        service.on_established(Time(), call.id);
      }
      for (const auto& message : caller.take_messages()) {
        service.on_message(Time(), message.id, message.bytes);
      }
      for (const auto& message : service.take_messages()) {
        caller.on_message(Time(), message.id, message.bytes);
      }
      for (const EndpointStart& start : caller.take_starts()) {
        started.push_back(start);
        caller.on_traffic(Time(), {start.qpn, 50, Time::zero(), Time::zero() + Duration::ms(1),
                                   WorkStatus::kSuccess});
      }
      closes = service.take_closes();
    }
    EXPECT_EQ(closes.size(), 4u);
    EXPECT_TRUE(caller.finished());
    EXPECT_EQ(caller.failure(), "");
    ASSERT_EQ(started.size(), 3u);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(started[i].qpn, 0x40001 + i);
      EXPECT_EQ(started[i].remote_rkey, 1 + i);
    }
  }
}

TEST(PerftestCallerTest, AMessageOfTheWrongSizeIsNamed) {
  PerftestClientTest test;
  PerftestCaller caller(client_node(test.kind), *IpAddress::parse("10.9.0.1"), test);
  caller.on_established(Time(), 0);
  caller.on_message(Time(), 0, std::vector<uint8_t>(17));
  EXPECT_NE(caller.failure().find("a message of 17 bytes where one of 16 is due"),
            std::string::npos)
      << caller.failure();
}

/// A client that has heard the recorded server's first `answers` messages.
std::string failure_after(std::vector<std::vector<uint8_t>> answers, bool close) {
  PerftestClient client = client_of(ServiceKind::kWriteBw, 1);
  Dataplane dataplane(client);
  client.on_connected(Time());
  dataplane.serve();
  for (const auto& answer : answers) {
    client.on_bytes(Time(), answer);
    dataplane.serve();
  }
  if (close) client.on_closed(Time());
  EXPECT_TRUE(client.finished());
  return client.failure();
}

TEST(PerftestClientTest, ServersThatCannotBeAreNamed) {
  std::vector<std::vector<uint8_t>> answers;
  for (const RecordedWrite& write : load_recording("write_bw")) {
    if (!write.from_client) answers.push_back(write.bytes);
  }
  const std::string start = "client of 10.9.0.1:18515 (write_bw) on node w3: ";
  EXPECT_EQ(failure_after({std::vector<uint8_t>(16, 'x')}, false).rfind(start, 0), 0u);
  EXPECT_NE(failure_after({}, true).find("closed after 0 of 17 steps"), std::string::npos);
  auto changed = answers;
  changed.resize(4);
  changed[3] = {'7', 0};
  EXPECT_NE(failure_after(changed, false).find("path MTU code"), std::string::npos);
  changed = answers;
  changed.resize(5);
  changed[4].assign(kPerftestKeySize, 0);
  EXPECT_NE(failure_after(changed, false).find("not a perftest key message"), std::string::npos);
}

TEST(PerftestClientTest, TrafficThatFailsEndsTheTest) {
  PerftestClient client = client_of(ServiceKind::kWriteBw, 1);
  Dataplane dataplane(client);
  dataplane.failing = 1;
  client.on_connected(Time());
  dataplane.serve();
  for (const RecordedWrite& write : load_recording("write_bw")) {
    if (!write.from_client) client.on_bytes(Time(), write.bytes);
    dataplane.serve();
  }
  EXPECT_TRUE(client.finished());
  EXPECT_NE(client.failure().find("retries exceeded"), std::string::npos) << client.failure();
}

}  // namespace
}  // namespace understudy
