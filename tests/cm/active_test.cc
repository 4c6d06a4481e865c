// The communication manager of a client: its requests, and what becomes of them.
#include <gtest/gtest.h>

#include "tests/cm/rig.h"

namespace understudy {
namespace {

// rules: A9.4 A9.5
TEST(CmActive, ReqRepRtuMakeAConnection) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  const auto sent = rig.to_server();
  ASSERT_EQ(sent.size(), 1u);
  const auto req = message_of<CmReq>(sent[0]);
  EXPECT_EQ(req.local_comm_id, c);
  EXPECT_EQ(req.qpn, 0x20u);
  EXPECT_EQ(req.starting_psn, 0x111111u);
  EXPECT_EQ(mtu_bytes(req.path_mtu), 1024u);
  EXPECT_EQ(req.primary.local_gid, kClientEnds.local);
  EXPECT_EQ(req.primary.remote_gid, kServerEnds.local);

  const CmEvent asked = CmRig::only(rig.server, CmEventKind::kRequest);
  EXPECT_EQ(asked.ends, kServerEnds);
  EXPECT_EQ(std::get<CmReq>(asked.message).private_data[2], 3);
  ASSERT_TRUE(rig.server.accept(rig.now, asked.id, CmRig::acceptance()));
  EXPECT_FALSE(rig.server.accept(rig.now, asked.id, CmRig::acceptance()));
  const auto answer = rig.to_client();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(parse_mad(answer[0].bytes)->transaction_id, parse_mad(sent[0].bytes)->transaction_id);
  const auto rep = message_of<CmRep>(answer[0]);
  EXPECT_EQ(rep.local_comm_id, asked.id);
  EXPECT_EQ(rep.remote_comm_id, c);
  EXPECT_EQ(rep.qpn, 0x40010u);
  EXPECT_EQ(rep.starting_psn, 0x222222u);

  const CmEvent replied = CmRig::only(rig.client, CmEventKind::kReply);
  EXPECT_EQ(replied.id, c);
  EXPECT_EQ(std::get<CmRep>(replied.message).private_data[0], 9);
  EXPECT_TRUE(rig.server.take_events().empty());  // not before the RTU
  ASSERT_TRUE(rig.client.confirm(rig.now, c));
  CmRig::only(rig.client, CmEventKind::kEstablished);
  const auto last = rig.to_server();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(message_of<CmRtu>(last[0]).remote_comm_id, asked.id);
  CmRig::only(rig.server, CmEventKind::kEstablished);
  EXPECT_TRUE(rig.client.deadline().is_never());
  EXPECT_TRUE(rig.server.deadline().is_never());
}

TEST(CmActive, IdsAreOfTheRangeThatTheAgentWasGiven) {
  CmAgentConfig config = rig_config(0xc);
  config.ids = {0xabc0'0000, 0x0000'0003};  // of four ids, of which the program has three
  CmAgent agent(config);
  std::set<CmId> drawn;
  for (Qpn qpn = 1; qpn <= 3; ++qpn) {
    CmConnect request = CmRig().request();
    request.qpn = qpn;
    drawn.insert(*agent.connect(Time::zero(), request));
  }
  EXPECT_EQ(drawn.size(), 3u);
  for (const CmId id : drawn) EXPECT_TRUE(config.ids.contains(id)) << id;
  EXPECT_FALSE(config.ids.contains(0xabc1'0000));
  EXPECT_TRUE(CmIdRange().contains(0));
}

// rules: A9.6
TEST(CmActive, ADuplicateRepGetsTheRtuAgain) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.accept(rig.now, s, CmRig::acceptance());
  const auto rep = rig.to_client().at(0).bytes;
  rig.client.confirm(rig.now, CmRig::only(rig.client, CmEventKind::kReply).id);
  CmRig::only(rig.client, CmEventKind::kEstablished);
  const auto rtu = rig.client.take_sends().at(0).bytes;  // lost
  rig.advance(kWait);
  const auto repeated = rig.to_client();
  ASSERT_EQ(repeated.size(), 1u);
  EXPECT_EQ(repeated[0].bytes, rep);
  const auto again = rig.to_server();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].bytes, rtu);
  EXPECT_TRUE(rig.client.take_events().empty());
  CmRig::only(rig.server, CmEventKind::kEstablished);
}

// rules: A9.7
TEST(CmActive, AnActiveConsumerMayRejectTheReply) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.accept(rig.now, s, CmRig::acceptance());
  rig.to_client();
  CmRig::only(rig.client, CmEventKind::kReply);
  ASSERT_TRUE(rig.client.reject(rig.now, c, RejReason::kConsumer));
  EXPECT_FALSE(rig.client.confirm(rig.now, c));
  const auto rej = message_of<CmRej>(rig.to_server().at(0));
  EXPECT_EQ(rej.subject, CmSubject::kRep);
  EXPECT_EQ(CmRig::only(rig.server, CmEventKind::kRejected).id, s);
  rig.advance(cm_time(kAckTimeout));
  CmRig::only(rig.server, CmEventKind::kReleased);
  CmRig::only(rig.client, CmEventKind::kReleased);
}

// rules: A9.7
TEST(CmActive, ARepThatBelongsToNoRequestIsRejected) {
  CmRig rig;
  CmRep rep;
  rep.local_comm_id = 5;
  rep.remote_comm_id = 6;
  rig.client.on_mad(rig.now, kClientEnds, mad_with(rep));
  const auto sent = rig.client.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  const auto rej = message_of<CmRej>(sent[0]);
  EXPECT_EQ(rej.reason, RejReason::kInvalidCommId);
  EXPECT_EQ(rej.subject, CmSubject::kRep);
  EXPECT_EQ(rej.remote_comm_id, 5u);
}

// rules: A9.8
TEST(CmActive, AnMraProlongsTheWaitByItsTime) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.advance(kWait);
  EXPECT_EQ(rig.to_server().size(), 1u);  // the server's consumer takes its time
  const auto answer = rig.to_client();
  ASSERT_EQ(answer.size(), 1u);
  const auto mra = message_of<CmMra>(answer[0]);
  EXPECT_EQ(mra.subject, CmSubject::kReq);
  EXPECT_EQ(mra.remote_comm_id, c);
  EXPECT_EQ(rig.client.deadline(), rig.now + cm_time(mra.service_timeout) + kWait);
  rig.advance(cm_time(mra.service_timeout) + kWait - Duration::ps(1));
  EXPECT_TRUE(rig.client.take_sends().empty());
  EXPECT_TRUE(rig.server.accept(rig.now, s, CmRig::acceptance()));
  rig.to_client();
  CmRig::only(rig.client, CmEventKind::kReply);
}

// rules: A9.9
TEST(CmActive, AReqIsRepeatedAsOftenAsItSaysAndThenGivenUp) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  const auto first = rig.client.take_sends().at(0).bytes;
  EXPECT_EQ(cm_time(20), Duration::ns(4096) * (1 << 20));
  for (int i = 0; i < 15; ++i) {
    rig.advance(kWait - Duration::ps(1));
    EXPECT_TRUE(rig.client.take_sends().empty());
    rig.advance(Duration::ps(1));
    const auto again = rig.client.take_sends();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].bytes, first);
  }
  EXPECT_TRUE(rig.client.take_events().empty());
  rig.advance(kWait);
  EXPECT_EQ(CmRig::only(rig.client, CmEventKind::kFailed).id, c);
  const auto sent = rig.client.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  const auto rej = message_of<CmRej>(sent[0]);
  EXPECT_EQ(rej.reason, RejReason::kTimeout);
  EXPECT_EQ(rej.info_length, 8);
  EXPECT_EQ(rej.info[7], 0xa);  // the GUID
  EXPECT_EQ(rig.client.counters().repeated, 15u);
  rig.advance(cm_time(kAckTimeout));
  CmRig::only(rig.client, CmEventKind::kReleased);
  EXPECT_EQ(rig.client.connections(), 0u);
}

// rules: A9.7 A9.9
TEST(CmActive, ARequestThatIsTakenBackEndsAsIfItsTimeWereOver) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  ASSERT_TRUE(rig.client.reject(rig.now, c, RejReason::kConsumer));
  EXPECT_FALSE(rig.client.reject(rig.now, c, RejReason::kConsumer));
  const auto rej = message_of<CmRej>(rig.to_server().at(0));
  EXPECT_EQ(rej.reason, RejReason::kTimeout);
  EXPECT_EQ(rej.info_length, 8);
  EXPECT_EQ(CmRig::only(rig.server, CmEventKind::kRejected).id, s);
  rig.advance(cm_time(kAckTimeout));
  CmRig::only(rig.client, CmEventKind::kReleased);
}

TEST(CmActive, AnIdThatWasTakenBeforeNamesTheConnection) {
  CmRig rig;
  auto request = rig.request();
  request.id = rig.client.take_id();
  EXPECT_EQ(rig.client.connect(rig.now, request), request.id);
  request.qpn = 0x21;
  const CmId first = std::exchange(request.id, 0);
  EXPECT_NE(rig.client.connect(rig.now, request), first);
  EXPECT_EQ(rig.client.connections(), 2u);
}

}  // namespace
}  // namespace understudy
