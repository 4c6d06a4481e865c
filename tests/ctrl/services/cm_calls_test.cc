// Our own clients behind RDMA-CM against servers that the test plays.
#include "ctrl/peers/perftest/perftest_caller.h"
#include "ctrl/peers/rdma_core/rping_caller.h"
#include "tests/cm/control_rig.h"

namespace understudy {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint32_t kText = 100;
constexpr Qpn kServerQpn = 0x77;
constexpr uint32_t kServerPsn = 0x500;  ///< first one that we send

class CmCallsTest : public CmControlTest {
 protected:
  Service self(ServiceKind kind = ServiceKind::kRping) const {
    Service s;
    s.node = "w";
    s.v4 = kNode;
    s.port = kPort;
    s.kind = kind;
    s.mtu = config.fabric.mtu;
    return s;
  }
  CmControl::CallerId ping(uint64_t pings = 2) {
    return cm.dial(1, kPort, std::make_unique<RpingCaller>(self(), kClient, kText, pings));
  }
  /// Any frame of the real node: its MAC is known from then on.
  void hear() {
    CmRtu of_nobody;
    send(of_nobody);
  }
  CmRep reply(const CmReq& req, Qpn qpn = kServerQpn) const {
    CmRep rep;
    rep.local_comm_id = 55 + req.local_comm_id;
    rep.remote_comm_id = req.local_comm_id;
    rep.qpn = qpn;
    rep.starting_psn = kServerPsn;
    rep.responder_resources = req.initiator_depth;
    rep.initiator_depth = req.responder_resources;
    rep.rnr_retry_count = 7;
    rep.ca_guid = 0xc;
    return rep;
  }
  template <typename M>
  M of_server(const CmReq& req) const {
    M m;
    m.local_comm_id = reply(req).local_comm_id;
    m.remote_comm_id = req.local_comm_id;
    return m;
  }
  CmRej rejection(const CmReq& req, RejReason reason) const {
    CmRej rej;
    rej.remote_comm_id = req.local_comm_id;
    rej.reason = reason;
    return rej;
  }
  /// Dials, and takes the call.
  CmReq connect(uint64_t pings = 2) {
    hear();
    ping(pings);
    advance(Duration::us(300));
    const auto req = sent<CmReq>();
    send(reply(req));
    sent<CmRtu>();
    return req;
  }
  /// Packets of the connection, and their RETH or payload as the server sees them.
  std::vector<uint8_t> payload_of(const Parsed& p) const {
    return {p.bytes.data() + p.roce.payload,
            p.bytes.data() + p.roce.payload + p.roce.payload_bytes};
  }
  void server_sends(const CmReq& req, uint32_t psn, const std::vector<uint8_t>& bytes) {
    RoceFields f;
    f.opcode = Opcode::kSendOnly;
    f.dest_qpn = req.qpn;
    f.psn = Psn(req.starting_psn).advance(psn);
    f.ack_request = true;
    receive(f, bytes);
    advance(Duration::us(300));
  }
  RoceFields about(const CmReq& req, Opcode opcode, uint32_t psn,
                   std::span<const uint8_t> message) {
    RpingMessage where;
    std::memcpy(&where, message.data(), sizeof where);
    RoceFields f;
    f.opcode = opcode;
    f.dest_qpn = req.qpn;
    f.psn = Psn(req.starting_psn).advance(psn);
    f.va = where.address.get();
    f.rkey = where.rkey.get();
    f.dma_length = where.length.get();
    f.ack_request = true;
    return f;
  }
  /// One ping as rping's server answers it, up to its last SEND; `change` what it WRITEs back.
  void answer_ping(const CmReq& req, uint32_t number,
                   const std::function<void(std::vector<uint8_t>&)>& change = {}) {
    auto out = data_sent();
    std::erase_if(out, [](const Parsed& p) { return p.roce.opcode != uint8_t(Opcode::kSendOnly); });
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].roce.psn.value(), kServerPsn + 2 * number);
    EXPECT_EQ(out[0].roce.dest_qpn, kServerQpn);
    const auto source = payload_of(out[0]);
    ASSERT_EQ(source.size(), kRpingMessageBytes);
    acknowledge(req.qpn, kServerPsn + 2 * number);
    receive(about(req, Opcode::kReadRequest, 4 * number, source), {});
    advance(Duration::us(300));
    out = data_sent();
    ASSERT_EQ(out.size(), 1u);
    auto text = payload_of(out[0]);
    ASSERT_EQ(text.size(), kText);
    const std::string head = "rdma-ping-" + std::to_string(number) + ": ";
    EXPECT_EQ(std::string(text.begin(), text.begin() + static_cast<long>(head.size())), head);
    EXPECT_EQ(text.back(), 0);
    server_sends(req, 4 * number + 1, std::vector<uint8_t>(kRpingMessageBytes));
    out = data_sent();
    std::erase_if(out, [](const Parsed& p) { return p.roce.opcode != uint8_t(Opcode::kSendOnly); });
    ASSERT_EQ(out.size(), 1u);
    acknowledge(req.qpn, kServerPsn + 2 * number + 1);
    if (change) change(text);
    receive(about(req, Opcode::kWriteOnly, 4 * number + 2, payload_of(out[0])), text);
    server_sends(req, 4 * number + 3, std::vector<uint8_t>(kRpingMessageBytes));
  }
};

// rules: A9.5
TEST_F(CmCallsTest, RpingsClientFromReqToDrep) {
  const CmReq req = connect();
  EXPECT_EQ(req.service_id, rdma_service_id(PortSpace::kTcp, kPort));
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.primary.local_gid, kNode);
  EXPECT_EQ(req.primary.remote_gid, kClient);
  EXPECT_FALSE(req.flow_control);
  const auto header = parse_rdma_header(req.private_data);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->src, kNode);
  EXPECT_EQ(header->dst, kClient);
  answer_ping(req, 0);
  EXPECT_TRUE(callers.empty());
  answer_ping(req, 1);
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_EQ(callers[0].failure, "");
  EXPECT_FALSE(cm.quiet());
  const auto dreq = sent<CmDreq>();
  EXPECT_EQ(dreq.remote_qpn, kServerQpn);
  send(of_server<CmDrep>(req));
  EXPECT_TRUE(cm.quiet());
  EXPECT_TRUE(reports.empty());  // of services
}

TEST_F(CmCallsTest, TextThatComesBackChangedIsNamed) {
  const CmReq req = connect();
  answer_ping(req, 0);
  answer_ping(req, 1, [](std::vector<uint8_t>& text) { text[60] ^= 1; });
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_NE(callers[0].failure.find("after 1 of 2 messages: what the server sent is not what was"),
            std::string::npos)
      << callers[0].failure;
}

TEST_F(CmCallsTest, AServerThatClosesInTheTestIsNamed) {
  const CmReq req = connect();
  answer_ping(req, 0);
  auto dreq = of_server<CmDreq>(req);
  dreq.remote_qpn = req.qpn;
  send(dreq);
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_EQ(
      callers[0].failure.rfind("client of 10.0.0.1:7174 (rping) on node w: the server closed"), 0u)
      << callers[0].failure;
}

// rules: A9.7
TEST_F(CmCallsTest, ACallThatNobodyTakesIsDialledAgain) {
  hear();
  const auto id = ping();
  for (const RejReason reason : {RejReason::kInvalidServiceId, RejReason::kStaleConnection}) {
    advance(Duration::us(300));
    const auto req = sent<CmReq>();
    send(rejection(req, reason));
    EXPECT_NE(cm.refusal(id).find(rej_reason_name(reason)), std::string::npos);
    advance(Duration::ms(199));
    EXPECT_EQ(seen, sink.sent.size());
    advance(Duration::ms(1));
  }
  EXPECT_TRUE(callers.empty());
  sent<CmReq>();
}

// rules: A9.7
TEST_F(CmCallsTest, OtherRejectionsEndTheClientWithTheirReason) {
  hear();
  const auto id = ping();
  advance(Duration::us(300));
  send(rejection(sent<CmReq>(), RejReason::kConsumer));
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_EQ(callers[0].id, id);
  EXPECT_NE(callers[0].failure.find("the server rejected: "), std::string::npos);
  EXPECT_NE(callers[0].failure.find("(28)"), std::string::npos);
  EXPECT_EQ(cm.refusal(id), "");
  advance(Duration::s(1));
  EXPECT_EQ(seen, sink.sent.size());
}

// rules: A9.9
TEST_F(CmCallsTest, AServerThatAnswersNothingIsNamed) {
  hear();
  ping();
  advance(Duration::us(300));
  const auto req = sent<CmReq>();
  for (int i = 0; i < 15; ++i) {
    now = now + cm_time(20) + cm_time(19);
    advance(Duration::us(300));
    EXPECT_EQ(sent<CmReq>().local_comm_id, req.local_comm_id);
  }
  EXPECT_TRUE(callers.empty());
  now = now + cm_time(20) + cm_time(19);
  advance(Duration::us(300));
  EXPECT_EQ(sent<CmRej>().reason, RejReason::kTimeout);
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_NE(callers[0].failure.find("does not answer"), std::string::npos) << callers[0].failure;
}

// rules: A9.8
TEST_F(CmCallsTest, AServerThatSaysThatItTakesLongIsWaitedFor) {
  hear();
  ping();
  advance(Duration::us(300));
  const auto req = sent<CmReq>();
  CmMra mra;
  mra.local_comm_id = 55;
  mra.remote_comm_id = req.local_comm_id;
  mra.service_timeout = 22;
  send(mra);
  now = now + cm_time(22) + cm_time(20);
  poll();
  EXPECT_EQ(seen, sink.sent.size());  // not repeated, though it would be without
  send(reply(req));
  sent<CmRtu>();
  EXPECT_EQ(counted("repeated"), 0u);
}

// rules: A5.10
TEST_F(CmCallsTest, TheCreditsOfAServerThatCountsThemAreObeyed) {
  for (const bool counts : {false, true}) {
    SCOPED_TRACE(counts);
    hear();
    PerftestClientTest test;
    test.kind = ServiceKind::kSendBw;
    auto caller = std::make_unique<PerftestCaller>(self(test.kind), kClient, test);
    cm.dial(1, kPort, std::move(caller));
    advance(Duration::us(300));
    const auto req = sent<CmReq>();
    auto rep = reply(req, kServerQpn + counts);
    rep.local_comm_id += counts;
    rep.flow_control = counts;
    send(rep);
    sent<CmRtu>();
    ASSERT_EQ(data_sent().size(), 1u);  // perftest's version
    acknowledge(req.qpn, kServerPsn, 0, 1);
    std::vector<uint8_t> version = {'6', '.', '0', '6'};
    version.resize(kPerftestVersionSize);
    server_sends(req, 0, version);
    // The next message needs a credit; the first one after none is the one that asks for more.
    const auto out = data_sent();
    const auto sends = std::count_if(out.begin(), out.end(), [](const Parsed& p) {
      return p.roce.opcode == uint8_t(Opcode::kSendOnly);
    });
    EXPECT_EQ(sends, 1);
    seen = sink.sent.size();
  }
}

TEST_F(CmCallsTest, WhatTheServerSaysBeforeItClosesIsHeard) {
  hear();
  PerftestClientTest test;
  cm.dial(1, kPort, std::make_unique<PerftestCaller>(self(test.kind), kClient, test));
  advance(Duration::us(300));
  const auto req = sent<CmReq>();
  send(reply(req));
  sent<CmRtu>();
  std::vector<uint8_t> version = {'6', '.', '0', '6'};
  version.resize(kPerftestVersionSize);
  RoceFields f;
  f.opcode = Opcode::kSendOnly;
  f.dest_qpn = req.qpn;
  f.psn = Psn(req.starting_psn);
  receive(f, version);
  auto dreq = of_server<CmDreq>(req);
  dreq.remote_qpn = req.qpn;
  give(dreq);
  for (int i = 0; i < 5; ++i) {  // all of it reaches control at once
    now = now + Duration::us(10);
    shard.poll(now, sink);
  }
  advance(Duration::us(300));
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_NE(callers[0].failure.find("closed after 1 of"), std::string::npos) << callers[0].failure;
}

TEST_F(CmCallsTest, AServerWithoutReadsCannotBeReadFrom) {
  hear();
  PerftestClientTest test;
  test.kind = ServiceKind::kReadBw;
  cm.dial(1, kPort, std::make_unique<PerftestCaller>(self(test.kind), kClient, test));
  advance(Duration::us(300));
  const auto channel = sent<CmReq>();
  EXPECT_EQ(channel.initiator_depth, 0);
  send(reply(channel));
  sent<CmRtu>();
  std::vector<uint8_t> version = {'6', '.', '0', '6'};
  version.resize(kPerftestVersionSize);
  uint32_t psn = 0;
  for (const auto& answer :
       {version, std::vector<uint8_t>{0, 0, 16, 0}, std::vector<uint8_t>{0, 0, 0, 64},
        std::vector<uint8_t>{'4', 0}, std::vector<uint8_t>(kPerftestBinaryKeySize)}) {
    ASSERT_FALSE(data_sent().empty());
    acknowledge(channel.qpn, kServerPsn + psn);
    data_sent();
    if (psn == 4) seen = sink.sent.size();
    server_sends(channel, psn++, answer);
  }
  const auto req = sent<CmReq>();
  EXPECT_EQ(req.initiator_depth, 16);
  EXPECT_EQ(mtu_bytes(req.path_mtu), 2048u);
  auto rep = reply(req, kServerQpn + 1);
  rep.responder_resources = 0;
  send(rep);
  EXPECT_EQ(sent<CmRej>().subject, CmSubject::kRep);
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_NE(callers[0].failure.find("the server answers no READ"), std::string::npos);
  EXPECT_EQ(sent<CmDreq>().remote_qpn, kServerQpn);  // the channel is closed too
}

TEST_F(CmCallsTest, TheRealNodesMacIsAskedForBeforeTheFirstCall) {
  ping();
  advance(Duration::ms(1));
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(Parsed(sink.sent[0].bytes).kind, FrameKind::kArp);
  seen = 1;
  hear();
  sent<CmReq>();
  EXPECT_EQ(Parsed(sink.sent.back().bytes).view.dst_mac, node_mac(0));
}

// rules: A9.7 A9.10
TEST_F(CmCallsTest, TheEndOfTheRunTakesACallBackAndClosesTheOthers) {
  connect();
  data_sent();
  ping();
  advance(Duration::us(300));
  const auto second = sent<CmReq>();
  cm.hang_up(now);
  advance(Duration::us(300));
  EXPECT_EQ(sent<CmDreq>().remote_qpn, kServerQpn);
  const auto rej = sent<CmRej>();
  EXPECT_EQ(rej.local_comm_id, second.local_comm_id);
  EXPECT_EQ(rej.reason, RejReason::kTimeout);
  EXPECT_TRUE(callers.empty());  // they are not done
  cm.finish(now);
  EXPECT_TRUE(reports.empty());
}

}  // namespace
}  // namespace understudy
