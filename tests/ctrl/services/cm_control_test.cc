// Services behind RDMA-CM: what their clients get, from the first request to the end of the run.
#include "ctrl/peers/rdma_core/ucmatose.h"
#include "tests/cm/control_rig.h"

namespace understudy {
namespace {

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
  req.service_id = rdma_service_id(PortSpace::kTcp, 7174);  // its clients want connections
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

// rules: A9.8 A9.4
TEST_F(CmControlTest, ASlowServiceSaysThatItTakesLong) {
  send(request(7175));
  const auto mra = sent<CmMra>();
  EXPECT_EQ(mra.remote_comm_id, 100u);
  EXPECT_EQ(mra.subject, CmSubject::kReq);
  EXPECT_EQ(cm_time(mra.service_timeout), Duration::ns(4096) * (1 << 14));  // 67 ms
  const Time asked = now - Duration::us(300);
  advance(Duration::ms(59));
  EXPECT_EQ(sink.sent.size(), seen);
  advance(Duration::ms(1));
  EXPECT_LT(now, asked + Duration::ms(61));
  const auto rep = sent<CmRep>();
  send(to<CmRtu>(rep));
  EXPECT_EQ(counted("established"), 1u);
}

// rules: A9.8
TEST_F(CmControlTest, ASlowServiceThatIsFastEnoughSaysNothing) {
  auto req = request(7175);
  req.remote_cm_response_timeout = 14;
  send(req);
  EXPECT_EQ(sink.sent.size(), seen);
  advance(Duration::ms(60));
  sent<CmRep>();
}

// rules: A9.7
TEST_F(CmControlTest, WhoGivesUpBeforeASlowServiceAcceptsLeavesNothing) {
  for (uint32_t id = 1; id <= 2 * shard.queue_pairs(); ++id) {
    send(request(7175, id, 0x100 + id));
    const auto mra = sent<CmMra>();
    CmRej rej;
    rej.local_comm_id = id;
    rej.remote_comm_id = mra.local_comm_id;
    rej.reason = RejReason::kTimeout;
    send(rej);
    sink.sent.clear();
    seen = 0;
  }
  EXPECT_EQ(reports.size(), 2u * shard.queue_pairs());
  advance(Duration::ms(100));
  EXPECT_TRUE(sink.sent.empty());  // nobody is accepted any more
  send(request(7174, 9999, 0x9999));
  sent<CmRep>();
}

// rules: A5.10
TEST_F(CmControlTest, TheCreditsOfAClientThatCountsThemAreObeyed) {
  for (const bool counts : {false, true}) {
    SCOPED_TRACE(counts);
    auto req = request(7471, 200 + counts, 0x30u + counts);
    req.flow_control = counts;
    send(req);
    const auto rep = sent<CmRep>();
    EXPECT_FALSE(rep.flow_control);  // receives of ours never run out
    send(to<CmRtu>(rep));
    // Without a word of credits one message asks for them; two are granted, then all.
    EXPECT_EQ(data_sent().size(), counts ? 1u : kUcmatoseMessages);
    if (!counts) continue;
    acknowledge(rep.qpn, 0x1000, 2, 1);
    EXPECT_EQ(data_sent().size(), 2u);
    acknowledge(rep.qpn, 0x1002, kNoCredits, 3);
    EXPECT_EQ(data_sent().size(), kUcmatoseMessages - 3);
  }
}

// rules: A9.10
TEST_F(CmControlTest, WhoStandsAtTheEndOfTheRunIsToldThatItIsOver) {
  send(request(7174));
  const auto rep = sent<CmRep>();
  send(to<CmRtu>(rep));
  send(request(7175, 101, 0x21));
  sent<CmMra>();
  EXPECT_FALSE(cm.quiet());
  cm.hang_up(now);
  advance(Duration::us(300));
  EXPECT_EQ(sent<CmDreq>().remote_qpn, 0x20u);
  EXPECT_EQ(sent<CmRej>().remote_comm_id, 101u);
  EXPECT_FALSE(cm.quiet());
  send(to<CmDrep>(rep));
  EXPECT_TRUE(cm.quiet());
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_NE(reports[0].error, "");  // it had not been accepted
  EXPECT_EQ(reports[1].error, "");
  send(request(7174, 102, 0x22));
  EXPECT_EQ(sent<CmRej>().reason, RejReason::kNoResources);
  cm.finish(now);
  EXPECT_EQ(reports.size(), 2u);
}

}  // namespace
}  // namespace understudy
