// perftest's clients with -R: what connections by RDMA-CM get, which of them belong
// together, and who closes them.
#include "ctrl/peers/perftest/perftest_cm.h"

#include <gtest/gtest.h>

#include "tests/ctrl/peers/recording.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

Service service_of_kind(ServiceKind kind) {
  Service service = recorded_service(kind);
  service.memory = MemoryKind::kBacked;
  return service;
}

CmClient client(Qpn qpn, const char* address = "10.9.0.200") {
  CmClient c;
  c.local = *IpAddress::parse("10.9.0.1");
  c.remote = *IpAddress::parse(address);
  c.port = 18515;
  c.remote_qpn = qpn;
  c.responder_resources = 3;
  return c;
}

Bytes version(const std::string& text) {
  Bytes bytes(text.begin(), text.end());
  bytes.resize(kPerftestVersionSize);
  return bytes;
}

Bytes key(Qpn qpn, size_t size = kPerftestBinaryKeySize) {
  PerftestKey k;
  k.qpn = qpn;
  k.out_reads = qpn == 0 ? 0 : 5;
  k.rkey = qpn == 0 ? 0 : 0x4711;
  k.address = qpn == 0 ? 0 : 0x123456789000;
  return format_perftest_binary_key(k, size);
}

/// One client's connections to a service.
class CmSession {
 public:
  explicit CmSession(ServiceKind kind) : service(service_of_kind(kind)) {
    EXPECT_EQ(service.on_request(Time(), 1, client(0x11))->behaviour, Behaviour::kMessages);
    service.on_endpoint(Time(), 1, {0x40001, Psn(1), 0, 0});
    service.on_established(Time(), 1);
  }
  /// The answer to a message; empty if there is none.
  Bytes ask(const Bytes& message) {
    service.on_message(Time(), 1, message);
    const auto answers = service.take_messages();
    EXPECT_LE(answers.size(), 1u);
    if (answers.empty()) return {};
    EXPECT_EQ(answers[0].id, 1u);
    return answers[0].bytes;
  }
  /// Up to where the client connects its queue pairs.
  void greet(const std::string& text = "6.06", size_t key_size = kPerftestBinaryKeySize) {
    EXPECT_EQ(ask(version(text)), version(text));
    for (const Bytes& echoed : {Bytes{0, 0, 0x10, 0}, Bytes{0, 0, 0, 0x40}, Bytes{'5', 0}}) {
      EXPECT_EQ(ask(echoed), echoed);
    }
    EXPECT_EQ(ask(Bytes(key_size)), Bytes(key_size));
  }
  EndpointRequest connect_test(CmService::Id id, Qpn qpn) {
    const auto request = service.on_request(Time(), id, client(qpn));
    EXPECT_TRUE(request);
    service.on_endpoint(Time(), id, {0x40000 + id, Psn(2), 0x9000, 0x99});
    return *request;
  }
  PerftestCmService service;
};

TEST(PerftestCm, AWholeBandwidthTest) {
  CmSession session(ServiceKind::kAuto);
  session.greet();
  const EndpointRequest request = session.connect_test(2, 0x77);
  EXPECT_EQ(request.behaviour, Behaviour::kMemoryTarget);
  EXPECT_EQ(request.remote_qpn, 0x77u);
  EXPECT_EQ(request.memory, MemoryKind::kBacked);
  EXPECT_GE(request.region_bytes, uint64_t{1} << 31);
  EXPECT_EQ(session.ask(key(0)), key(0));
  for (int i = 0; i < 4; ++i) {
    const auto answer = parse_perftest_binary_key(session.ask(key(0x77)));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->qpn, 0x40002u);
    EXPECT_EQ(answer->address, 0x9000u);
    EXPECT_EQ(answer->rkey, 0x99u);
    EXPECT_EQ(answer->out_reads, 5u);
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(session.ask(Bytes(kPerftestReportField, 1)), Bytes(kPerftestReportField));
  }
  EXPECT_TRUE(session.service.take_closes().empty());
  EXPECT_FALSE(session.ask(key(0x77)).empty());
  EXPECT_EQ(session.service.take_closes(), (std::vector<CmService::Id>{2, 1}));
  EXPECT_EQ(session.service.on_closed(Time(), 2), "");
  EXPECT_EQ(session.service.on_closed(Time(), 1), "");
  EXPECT_TRUE(session.service.take_starts().empty());
}

TEST(PerftestCm, LongKeysFrom629On) {
  CmSession session(ServiceKind::kReadBw);
  Bytes test(kPerftestTestSize);
  test[11] = static_cast<uint8_t>(PerftestVerb::kRead);
  test[15] = 1;
  EXPECT_EQ(session.ask(version("6.29")), version("6.29"));
  for (const Bytes& echoed : {Bytes{0, 0, 0x10, 0}, Bytes{0, 0, 0, 0x40}, Bytes{'5', 0}, test}) {
    EXPECT_EQ(session.ask(echoed), echoed);
  }
  EXPECT_EQ(session.ask(Bytes(64)), Bytes(64));
  session.connect_test(2, 0x77);
  const Bytes answer = session.ask(key(0x77, 64));
  ASSERT_EQ(answer.size(), 64u);
  EXPECT_EQ(parse_perftest_binary_key(answer)->qpn, 0x40002u);
}

TEST(PerftestCm, TheServerOfWriteLatLearnsWhereToWriteFromTheKeys) {
  CmSession session(ServiceKind::kWriteLat);
  session.greet();
  EXPECT_EQ(session.connect_test(2, 0x77).behaviour, Behaviour::kWriteEcho);
  for (int i = 0; i < 2; ++i) session.ask(key(0x77));
  EXPECT_TRUE(session.service.take_starts().empty());
  session.ask(key(0x77));
  const auto starts = session.service.take_starts();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].qpn, 0x40002u);
  EXPECT_EQ(starts[0].remote_rkey, 0x4711u);
  EXPECT_EQ(starts[0].remote_address, 0x123456789000u);
  EXPECT_EQ(starts[0].opening_bytes, 4096u);
}

TEST(PerftestCm, ConnectionsOfOneAddressBelongTogether) {
  CmSession session(ServiceKind::kAuto);
  // Before the client is about to connect its queue pairs, and from elsewhere at any time: others.
  EXPECT_EQ(session.service.on_request(Time(), 5, client(1))->behaviour, Behaviour::kMessages);
  session.greet();
  EXPECT_EQ(session.service.on_request(Time(), 6, client(2, "10.9.0.201"))->behaviour,
            Behaviour::kMessages);
  EXPECT_EQ(session.connect_test(7, 3).behaviour, Behaviour::kMemoryTarget);
  EXPECT_EQ(session.connect_test(8, 4).behaviour, Behaviour::kMemoryTarget);
  session.ask(key(3));
  EXPECT_EQ(session.service.on_request(Time(), 9, client(5))->behaviour, Behaviour::kMessages);
}

TEST(PerftestCm, AQueuePairThatNobodyConnectedEndsTheTest) {
  CmSession session(ServiceKind::kAuto);
  session.greet();
  session.connect_test(2, 0x77);
  EXPECT_TRUE(session.ask(key(0x78)).empty());
  EXPECT_EQ(session.service.take_closes(), (std::vector<CmService::Id>{2, 1}));
  EXPECT_NE(session.service.on_closed(Time(), 1).find("has not been connected by RDMA-CM"),
            std::string::npos);
  EXPECT_EQ(session.service.on_closed(Time(), 2), "");
}

TEST(PerftestCm, AClientThatLeavesInItsTestIsNamed) {
  CmSession session(ServiceKind::kAuto);
  session.greet();
  session.connect_test(2, 0x77);
  for (int i = 0; i < 3; ++i) session.ask(key(0x77));
  EXPECT_NE(session.service.on_closed(Time(), 1).find("closed before the end of its test"),
            std::string::npos);
  EXPECT_EQ(session.service.take_closes(), std::vector<CmService::Id>{2});
  // What comes late moves nothing.
  session.service.on_message(Time(), 1, key(0x77));
  EXPECT_TRUE(session.service.take_messages().empty());
  EXPECT_EQ(session.service.on_closed(Time(), 2), "");
}

TEST(PerftestCm, AMessageOfTheWrongSizeEndsTheTest) {
  CmSession session(ServiceKind::kAuto);
  session.greet();
  session.connect_test(2, 0x77);
  EXPECT_TRUE(session.ask(Bytes(57)).empty());
  EXPECT_NE(session.service.on_closed(Time(), 1).find("a message of 57 bytes"), std::string::npos);
}

}  // namespace
}  // namespace understudy
