// RDMA-CM of a port as its clients meet it: datagrams and packets in, datagrams and packets out,
// queue pairs made and removed, all under virtual time.
#include "ctrl/session/cm_control.h"

#include <gtest/gtest.h>

#include "ctrl/build/rail.h"
#include "ctrl/config/load.h"
#include "ctrl/peers/ucmatose.h"
#include "dataplane/cm/rdma_cm.h"
#include "tests/engine_rig.h"

namespace understudy {
namespace {

constexpr char kConfig[] = R"(format = 1
[fabric]
mtu = 2048
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "gpu"
real = true
link = { rate = "unlimited", latency = "1us" }
[[node]]
name = "w"
link = { rate = "unlimited", latency = "1us" }
[[port]]
real = "gpu"
device = "virtual"
[[service]]
node = "w"
port = 7471
kind = "ucmatose"
[[service]]
node = "w"
port = 7174
kind = "rping"
[[service]]
node = "w"
port = 18515
kind = "pingpong"
)";
const IpAddress kClient = *IpAddress::parse("10.0.0.1"), kNode = *IpAddress::parse("10.0.0.2");

class CmControlTest : public testing::Test {
 protected:
  CmControlTest()
      : config(*load_config_text(kConfig, "test")),
        shard(emulator_shard(config, 0, MacAddress{})),
        control(shard),
        endpoints(config, {&control}),
        cm(config, 0, control, endpoints,
           {[this](const ServiceReport& r) { reports.push_back(r); },
            [this](const std::string& line) { lines.push_back(line); }}) {
    cm.listen();
    addressing.src_mac = node_mac(0);
    addressing.dst_mac = shard.nodes()[1].mac;
    addressing.src = kClient;
    addressing.dst = kNode;
  }

  /// Lets time pass; control looks in every 100 us.
  void advance(Duration by) {
    const Time until = now + by;
    while (now < until) {
      now = std::min(until, now + Duration::us(100));
      poll();
    }
  }
  void poll() {
    for (int i = 0; i < 3; ++i) {
      cm.poll(now);
      control.poll();
      sink.now = now;
      shard.poll(now, sink);
    }
  }
  void receive(const RoceFields& fields, std::span<const uint8_t> payload) {
    const auto frame = roce_frame(addressing, fields, payload);
    const std::span<const uint8_t> frames[] = {frame};
    shard.rx({now, Duration(), frames});
  }
  void send(CmMessage message, uint64_t tid = 5) {
    RoceFields fields;
    fields.opcode = Opcode::kUdSendOnly;
    fields.dest_qpn = fields.src_qpn = kGsiQpn;
    fields.qkey = kGsiQkey;
    receive(fields, format_mad({tid, 0, std::move(message)}));
    advance(Duration::us(300));
  }
  void send_data(Qpn qpn, uint32_t psn, uint32_t bytes) {
    RoceFields fields;
    fields.opcode = Opcode::kSendOnly;
    fields.dest_qpn = qpn;
    fields.psn = Psn(psn);
    fields.ack_request = true;
    receive(fields, std::vector<uint8_t>(bytes));
    advance(Duration::us(300));
  }
  void acknowledge(Qpn qpn, uint32_t psn) {
    RoceFields fields;
    fields.opcode = Opcode::kAcknowledge;
    fields.dest_qpn = qpn;
    fields.psn = Psn(psn);
    fields.syndrome = kNoCredits;
    receive(fields, {});
    advance(Duration::us(300));
  }
  /// The next packet that left, which is a datagram with such a message.
  template <typename M>
  M sent() {
    for (; seen < sink.sent.size(); ++seen) {
      const Parsed p(sink.sent[seen].bytes);
      if (p.kind != FrameKind::kRoce || p.roce.dest_qpn != kGsiQpn) continue;
      ++seen;
      EXPECT_EQ(p.view.src, kNode);
      EXPECT_EQ(p.view.dst, kClient);
      const auto mad = parse_mad({p.bytes.data() + p.roce.payload, p.roce.payload_bytes});
      EXPECT_TRUE(mad);
      if (!std::holds_alternative<M>(mad->message)) {
        ADD_FAILURE() << "it is a " << cm_attribute_name(cm_attribute(mad->message));
        return {};
      }
      return std::get<M>(mad->message);
    }
    ADD_FAILURE() << "no datagram was sent";
    return {};
  }
  /// Packets of connections that left since the last call.
  std::vector<Parsed> data_sent() {
    std::vector<Parsed> out;
    for (; seen < sink.sent.size(); ++seen) {
      Parsed p(sink.sent[seen].bytes);
      if (p.kind == FrameKind::kRoce && p.roce.dest_qpn != kGsiQpn) out.push_back(std::move(p));
    }
    return out;
  }

  CmReq request(uint16_t port, uint32_t id = 100, Qpn qpn = 0x20) const {
    CmReq req;
    req.local_comm_id = id;
    req.service_id = rdma_service_id(PortSpace::kTcp, port);
    req.ca_guid = 0xc;
    req.qpn = qpn;
    req.responder_resources = 1;
    req.initiator_depth = 40;
    req.local_cm_response_timeout = req.remote_cm_response_timeout = 10;  // 4 ms
    req.starting_psn = 0x1000;
    req.retry_count = req.rnr_retry_count = 7;
    req.path_mtu = 3;
    req.max_cm_retries = 3;
    req.primary.local_gid = kClient;
    req.primary.remote_gid = kNode;
    req.primary.ack_timeout = 10;
    format_rdma_header({1234, kClient, kNode}, req.private_data);
    return req;
  }
  template <typename M>
  static M to(const CmRep& rep) {
    M m;
    m.local_comm_id = rep.remote_comm_id;
    m.remote_comm_id = rep.local_comm_id;
    return m;
  }
  static CmDreq dreq_to(const CmRep& rep) {
    CmDreq dreq = to<CmDreq>(rep);
    dreq.remote_qpn = rep.qpn;
    return dreq;
  }

  uint64_t counted(const std::string& name) const {
    for (const auto& [n, count] : cm.counters()) {
      if (n == name) return count;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  Config config;
  Shard shard;
  ShardControl control;
  ServiceEndpoints endpoints;
  std::vector<ServiceReport> reports;
  std::vector<std::string> lines;
  CmControl cm;
  RigSink sink;
  RoceAddressing addressing;
  Time now;
  size_t seen = 0;
};

// rules: A9.4 A9.10
TEST_F(CmControlTest, UcmatosesClientIsServedFromReqToTimeWait) {
  send(request(7471));
  const auto rep = sent<CmRep>();
  EXPECT_EQ(rep.remote_comm_id, 100u);
  EXPECT_EQ(rep.responder_resources, 16);  // fewer than the client would like
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_TRUE(data_sent().empty());  // not before the client is ready
  send(to<CmRtu>(rep));
  auto data = data_sent();
  ASSERT_EQ(data.size(), kUcmatoseMessages);
  EXPECT_EQ(data[0].roce.psn.value(), 0x1000u);  // where the client's REQ says
  EXPECT_EQ(data[0].roce.dest_qpn, 0x20u);
  EXPECT_EQ(data[0].roce.payload_bytes, kUcmatoseMessageBytes);
  acknowledge(rep.qpn, 0x1000 + kUcmatoseMessages - 1);
  for (uint32_t i = 0; i < kUcmatoseMessages; ++i) {
    send_data(rep.qpn, rep.starting_psn + i, 100);
  }
  EXPECT_EQ(data_sent().size(), kUcmatoseMessages);  // ACKs
  seen = 0;
  sent<CmRep>();
  EXPECT_EQ(sent<CmDreq>().remote_qpn, 0x20u);
  EXPECT_TRUE(reports.empty());
  send(to<CmDrep>(rep));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind, "ucmatose");
  EXPECT_EQ(reports[0].client, "10.0.0.1");
  EXPECT_EQ(reports[0].error, "");
  // Its queue pair is in error: what comes late is not answered, and after time-wait it is gone.
  data_sent();
  send_data(rep.qpn, rep.starting_psn + kUcmatoseMessages, 100);
  EXPECT_TRUE(data_sent().empty());
  const auto unknown = [&] {
    return shard.counters().drops[static_cast<size_t>(Drop::kUnknownQpn)];
  };
  EXPECT_EQ(unknown(), 0u);
  advance(Duration::ms(5));
  send_data(rep.qpn, rep.starting_psn + kUcmatoseMessages, 100);
  EXPECT_EQ(unknown(), 1u);
}

// rules: A9.4 A4.22
TEST_F(CmControlTest, TheClientsFirstPacketStandsForItsRtu) {
  send(request(7471));
  const auto rep = sent<CmRep>();
  send_data(rep.qpn, rep.starting_psn, 100);
  EXPECT_EQ(counted("established"), 1u);
  EXPECT_EQ(data_sent().size(), 1 + kUcmatoseMessages);
  advance(Duration::ms(100));
  EXPECT_EQ(counted("repeated"), 0u);  // the REP is not sent again
}

// rules: A9.7
TEST_F(CmControlTest, WhoCannotBeServedIsToldWhy) {
  send(request(18515));  // its clients come by TCP
  EXPECT_EQ(sent<CmRej>().reason, RejReason::kInvalidServiceId);
  auto req = request(7471, 101);
  req.path_mtu = 5;
  send(req);
  EXPECT_EQ(sent<CmRej>().reason, RejReason::kInvalidMtu);
  req = request(7471, 102);
  req.private_data.fill(0);
  send(req);
  EXPECT_EQ(sent<CmRej>().reason, RejReason::kConsumer);
  req = request(7174, 103);
  req.responder_resources = 0;
  send(req);
  EXPECT_EQ(sent<CmRej>().reason, RejReason::kConsumer);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("READ"), std::string::npos);
  EXPECT_EQ(reports.size(), 2u);
}

// rules: A9.7 A9.10
TEST_F(CmControlTest, QueuePairsComeBackAfterTimeWait) {
  uint32_t id = 1;
  size_t taken = 0;
  for (const uint32_t queue_pairs = shard.queue_pairs(); taken < queue_pairs; ++taken, ++id) {
    send(request(7174, id, 0x100 + id));
    const auto rep = sent<CmRep>();
    ASSERT_NE(rep.qpn, 0u) << id;
    send(dreq_to(rep));
    sent<CmDrep>();
    sink.sent.clear();
    seen = 0;
  }
  advance(Duration::ms(5));
  for (int i = 0; i < 10; ++i, ++id) {  // there is no fresh number left
    send(request(7174, id, 0x100 + id));
    sent<CmRep>();
  }
  EXPECT_EQ(reports.size(), taken);
}

// rules: A9.7
TEST_F(CmControlTest, AFloodOfRequestsLeavesConnectionsThatStandAlone) {
  send(request(7174));
  const auto rep = sent<CmRep>();
  send(to<CmRtu>(rep));
  for (uint32_t i = 0; i < 2 * shard.queue_pairs(); ++i) {
    RoceFields fields;
    fields.opcode = Opcode::kUdSendOnly;
    fields.dest_qpn = fields.src_qpn = kGsiQpn;
    fields.qkey = kGsiQkey;
    receive(fields, format_mad({i, 0, request(7174, 1000 + i, 0x1000 + i)}));
    if (i % 32 == 0) advance(Duration::us(100));
  }
  sink.sent.clear();
  seen = 0;
  send_data(rep.qpn, rep.starting_psn, 16);
  EXPECT_FALSE(data_sent().empty());
  EXPECT_GT(counted("rejected"), shard.queue_pairs() / 2);
  // Nobody confirms: the REPs are repeated, given up, and the queue pairs return.
  advance(Duration::ms(60));
  send(request(7174, 99, 0x99));
  bool accepted = false;
  for (const SentFrame& frame : sink.sent) {
    const Parsed p(frame.bytes);
    if (p.kind != FrameKind::kRoce || p.roce.dest_qpn != kGsiQpn) continue;
    const auto mad = parse_mad({p.bytes.data() + p.roce.payload, p.roce.payload_bytes});
    const auto* r = std::get_if<CmRep>(&mad->message);
    accepted = accepted || (r != nullptr && r->remote_comm_id == 99);
  }
  EXPECT_TRUE(accepted);
}

// rules: A9.13
TEST_F(CmControlTest, DatagramServicesDoNotExistHere) {
  CmSidrReq req;
  req.request_id = 8;
  req.service_id = rdma_service_id(PortSpace::kUdp, 7174);
  send(req);
  EXPECT_EQ(sent<CmSidrRep>().status, SidrStatus::kUnsupported);
}

TEST_F(CmControlTest, AConnectionThatStandsAtTheEndIsReported) {
  send(request(7174));
  send(to<CmRtu>(sent<CmRep>()));
  cm.finish(now);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].port, 7174);
  EXPECT_EQ(reports[0].to, now);
}

}  // namespace
}  // namespace understudy
