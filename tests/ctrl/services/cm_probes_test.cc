// The self-test's REQs for a service that nobody has, as the real node meets them.
#include "tests/cm/control_rig.h"

namespace understudy {
namespace {

class CmProbesTest : public CmControlTest {
 protected:
  void ask() {
    cm.probe(kNode, kClient, [this] { ++answers; });
  }
  /// Any frame of the real node: its MAC is known from then on.
  void hear() {
    CmRtu of_nobody;
    send(of_nobody);
  }
  CmReq asked() {
    hear();
    ask();
    advance(Duration::us(400));
    return sent<CmReq>();
  }
  /// QPNs that are neither a queue pair's nor a question's.
  size_t free_qpns() {
    std::vector<Qpn> taken;
    while (const Qpn qpn = control.take_qpn()) taken.push_back(qpn);
    for (const Qpn qpn : taken) control.return_qpn(qpn);
    return taken.size();
  }
  void expect_nothing_left() {
    advance(Duration::ms(1));
    EXPECT_EQ(free_qpns(), shard.queue_pairs());
    EXPECT_TRUE(cm.quiet());
    EXPECT_TRUE(reports.empty());
    EXPECT_TRUE(lines.empty());
  }

  int answers = 0;
};

TEST_F(CmProbesTest, ARejectionIsAnAnswer) {
  const CmReq req = asked();
  EXPECT_EQ(req.service_id, kNobodysService);
  EXPECT_FALSE(rdma_port(req.service_id, PortSpace::kTcp));
  EXPECT_FALSE(rdma_port(req.service_id, PortSpace::kUdp));
  EXPECT_EQ(req.primary.local_gid, kNode);
  EXPECT_EQ(req.primary.remote_gid, kClient);
  EXPECT_EQ(answers, 0);
  EXPECT_EQ(free_qpns(), shard.queue_pairs() - 1);
  CmRej rej;
  rej.remote_comm_id = req.local_comm_id;
  rej.reason = RejReason::kInvalidServiceId;
  send(rej);
  EXPECT_EQ(answers, 1);
  advance(Duration::s(3));
  EXPECT_EQ(seen, sink.sent.size()) << "said more";
  EXPECT_EQ(answers, 1);
  expect_nothing_left();
}

TEST_F(CmProbesTest, AReplyIsOneTooAndIsRejected) {
  const CmReq req = asked();
  CmRep rep;
  rep.local_comm_id = 77;
  rep.remote_comm_id = req.local_comm_id;
  rep.qpn = 0x99;
  rep.ca_guid = 0xc;
  send(rep);
  EXPECT_EQ(answers, 1);
  const auto rej = sent<CmRej>();
  EXPECT_EQ(rej.subject, CmSubject::kRep);
  EXPECT_EQ(rej.remote_comm_id, 77u);
  expect_nothing_left();
}

TEST_F(CmProbesTest, WithoutAnAnswerItIsTakenBackAfterASecond) {
  for (int round = 0; round < 3; ++round) {
    const CmReq req = asked();
    advance(Duration::ms(998));
    EXPECT_EQ(seen, sink.sent.size());
    advance(Duration::ms(2));
    const auto taken_back = sent<CmRej>();
    EXPECT_EQ(taken_back.local_comm_id, req.local_comm_id);
    EXPECT_EQ(taken_back.reason, RejReason::kTimeout);
    CmRej late;
    late.remote_comm_id = req.local_comm_id;
    late.reason = RejReason::kInvalidServiceId;
    send(late);
    EXPECT_EQ(answers, 0) << "nobody waits any more";
    expect_nothing_left();
  }
  EXPECT_EQ(counted("timeouts"), 0u);
}

TEST_F(CmProbesTest, TheMacIsAskedForFirst) {
  ask();
  advance(Duration::ms(1));
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(Parsed(sink.sent[0].bytes).kind, FrameKind::kArp);
  advance(Duration::s(2));  // its time runs from the REQ on
  seen = sink.sent.size();
  hear();
  sent<CmReq>();
  EXPECT_EQ(Parsed(sink.sent.back().bytes).view.dst_mac, node_mac(0));
}

TEST_F(CmProbesTest, TheEndOfTheRunTakesItBack) {
  const CmReq req = asked();
  cm.hang_up(now);
  advance(Duration::us(300));
  EXPECT_EQ(sent<CmRej>().local_comm_id, req.local_comm_id);
  ask();
  advance(Duration::s(1));
  EXPECT_EQ(seen, sink.sent.size());
  EXPECT_EQ(answers, 0);
  expect_nothing_left();
}

TEST_F(CmProbesTest, AnAddressOfNobodyAsksNothing) {
  hear();
  cm.probe(*IpAddress::parse("10.0.0.77"), kClient, [this] { ++answers; });
  advance(Duration::s(2));
  EXPECT_TRUE(sink.sent.empty());
  expect_nothing_left();
}

}  // namespace
}  // namespace understudy
