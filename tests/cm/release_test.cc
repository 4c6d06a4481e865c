// How connections end: by DREQ and DREP, in time-wait, or because the peer has forgotten them.
#include <gtest/gtest.h>

#include "tests/cm/rig.h"

namespace understudy {
namespace {

// rules: A9.6 A9.10
TEST(CmRelease, ADuplicateDreqGetsADrepAlsoWhenTheConnectionIsForgotten) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  ASSERT_TRUE(rig.client.disconnect(rig.now, c));
  const auto dreq = rig.to_server().at(0).bytes;
  EXPECT_EQ(CmRig::only(rig.server, CmEventKind::kDisconnected).id, s);
  const auto drep = rig.server.take_sends().at(0).bytes;
  for (const Duration later : {Duration::ms(1), Duration::s(100)}) {
    rig.server.on_mad(rig.now + later, kServerEnds, dreq);
    const auto again = rig.server.take_sends();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].bytes, drep);
  }
  CmRig::only(rig.server, CmEventKind::kReleased);
  EXPECT_EQ(rig.server.connections(), 0u);
}

// rules: A9.10
TEST(CmRelease, DreqAndDrepCloseAConnectionWhoseNumberRests) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  ASSERT_TRUE(rig.server.disconnect(rig.now, s));
  EXPECT_FALSE(rig.server.disconnect(rig.now, s));
  EXPECT_TRUE(rig.server.take_events().empty());
  const auto dreq = message_of<CmDreq>(rig.to_client().at(0));
  EXPECT_EQ(dreq.remote_qpn, 0x20u);
  EXPECT_EQ(CmRig::only(rig.client, CmEventKind::kDisconnected).id, c);
  message_of<CmDrep>(rig.to_server().at(0));
  EXPECT_EQ(CmRig::only(rig.server, CmEventKind::kDisconnected).id, s);
  rig.advance(cm_time(kAckTimeout) - Duration::ps(1));
  EXPECT_TRUE(rig.server.take_events().empty());
  EXPECT_EQ(rig.server.connections(), 1u);
  rig.advance(Duration::ps(1));
  CmRig::only(rig.server, CmEventKind::kReleased);
  CmRig::only(rig.client, CmEventKind::kReleased);
  EXPECT_EQ(rig.server.connections() + rig.client.connections(), 0u);
}

// rules: A9.9 A9.10
TEST(CmRelease, ADreqWithoutAnswerEndsTheConnectionAllTheSame) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  rig.server.disconnect(rig.now, s);
  rig.advance(kWait * 15);
  EXPECT_EQ(rig.server.take_sends().size(), 16u);
  rig.advance(kWait);
  CmRig::only(rig.server, CmEventKind::kDisconnected);
}

// rules: A9.10
TEST(CmRelease, BothMayCloseAtOnce) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  rig.server.disconnect(rig.now, s);
  rig.client.disconnect(rig.now, c);
  rig.to_client();
  rig.to_server();
  rig.to_client();
  CmRig::only(rig.server, CmEventKind::kDisconnected);
  CmRig::only(rig.client, CmEventKind::kDisconnected);
}

// rules: A9.10
TEST(CmRelease, ADreqForAnotherQueuePairDoesNotClose) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  CmDreq dreq;
  dreq.local_comm_id = c;
  dreq.remote_comm_id = s;
  dreq.remote_qpn = 0x40011;
  rig.server.on_mad(rig.now, kServerEnds, mad_with(dreq));
  EXPECT_TRUE(rig.server.take_events().empty());
  EXPECT_TRUE(rig.server.take_sends().empty());
  dreq.remote_qpn = 0x40010;
  const CmEnds stranger{kServerEnds.local, *IpAddress::parse("10.9.0.66")};
  rig.server.on_mad(rig.now, stranger, mad_with(dreq));
  EXPECT_TRUE(rig.server.take_events().empty());
}

// rules: A9.11 A9.7
TEST(CmRelease, AReqWithTheQueuePairOfAConnectionMakesThatOneStale) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  // The client's machine was restarted: it knows nothing of the connection and has the number anew.
  CmRig reborn;
  const CmId again = *reborn.client.connect(rig.now, reborn.request());
  auto mad = *parse_mad(reborn.client.take_sends().at(0).bytes);
  std::get<CmReq>(mad.message).local_comm_id = again + 100;
  rig.server.on_mad(rig.now, kServerEnds, format_mad(mad));
  const auto sent = rig.server.take_sends();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(message_of<CmRej>(sent[0]).reason, RejReason::kStaleConnection);
  EXPECT_EQ(message_of<CmDreq>(sent[1]).remote_comm_id, c);
  EXPECT_EQ(rig.server.counters().stale, 1u);
  // The reborn machine answers the DREQ of a connection that it has forgotten, and asks once more.
  reborn.client.on_mad(rig.now, kClientEnds, sent[1].bytes);
  rig.server.on_mad(rig.now, kServerEnds, reborn.client.take_sends().at(0).bytes);
  EXPECT_EQ(CmRig::only(rig.server, CmEventKind::kDisconnected).id, s);
  std::get<CmReq>(mad.message).local_comm_id = again + 101;
  rig.server.on_mad(rig.now, kServerEnds, format_mad(mad));
  CmRig::only(rig.server, CmEventKind::kRequest);
}

// rules: A9.11
TEST(CmRelease, ARepeatedReqOfAConnectionInTimeWaitIsStale) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  const auto req = rig.to_server().at(0).bytes;
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.accept(rig.now, s, CmRig::acceptance());
  rig.server.disconnect(rig.now, s);
  rig.server.on_mad(rig.now, kServerEnds, mad_with([&] {
                      CmDrep drep;
                      drep.local_comm_id = message_of<CmReq>({kServerEnds, req}).local_comm_id;
                      drep.remote_comm_id = s;
                      return drep;
                    }()));
  rig.server.take_sends();
  rig.server.on_mad(rig.now, kServerEnds, req);
  const auto sent = rig.server.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(message_of<CmRej>(sent[0]).reason, RejReason::kStaleConnection);
}

// rules: A9.9 A9.10
TEST(CmRelease, ADreqGoesAgainAsSoonAsTheAgentIsToldTo) {
  CmAgentConfig config = rig_config(0xb);
  config.longest_dreq_wait = Duration::ms(250);
  CmRig rig(config);
  const auto [s, c] = rig.establish();
  rig.server.disconnect(rig.now, s);
  const auto dreq = rig.server.take_sends().at(0).bytes;  // lost
  rig.advance(Duration::ms(250) - Duration::ps(1));
  EXPECT_TRUE(rig.server.take_sends().empty());
  rig.advance(Duration::ps(1));
  const auto again = rig.to_client();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].bytes, dreq);
  rig.to_server();
  CmRig::only(rig.server, CmEventKind::kDisconnected);
}

// rules: A9.10
TEST(CmRelease, WhoGoesIsNeededUntilItsDrepComes) {
  CmRig rig;
  EXPECT_FALSE(rig.client.is_needed(rig.now, Duration::s(1)));
  rig.establish();
  rig.client.close(rig.now);
  rig.advance(Duration::s(1));
  EXPECT_TRUE(rig.client.is_needed(rig.now, Duration::s(1)));
  message_of<CmDreq>(rig.to_server().at(0));
  message_of<CmDrep>(rig.to_client().at(0));
  EXPECT_FALSE(rig.client.is_needed(rig.now, Duration::s(1)));  // the peer knows
  // The peer does not know whether its answer arrived.
  EXPECT_TRUE(rig.server.is_needed(rig.now, Duration::s(1)));
  rig.advance(Duration::s(1));
  EXPECT_FALSE(rig.server.is_needed(rig.now, Duration::s(1)));
}

// rules: A9.10
TEST(CmRelease, ADreqThatComesAgainIsAReasonToStayLonger) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  rig.client.disconnect(rig.now, c);
  const auto dreq = rig.to_server().at(0).bytes;
  rig.advance(Duration::ms(900));
  rig.server.on_mad(rig.now, kServerEnds, dreq);
  rig.advance(Duration::ms(900));
  EXPECT_TRUE(rig.server.is_needed(rig.now, Duration::s(1)));
  EXPECT_EQ(s, CmRig::only(rig.server, CmEventKind::kDisconnected).id);
}

// rules: A9.7 A9.10
TEST(CmRelease, WhoGoesRejectsWhatIsNotYetAConnection) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  rig.server.close(rig.now);
  EXPECT_EQ(message_of<CmRej>(rig.to_client().at(0)).reason, RejReason::kConsumer);
  CmRig::only(rig.server, CmEventKind::kRequest);
  EXPECT_FALSE(rig.server.is_needed(rig.now, Duration::s(1)));
  rig.client.take_events();
  rig.client.connect(rig.now, rig.request());  // nobody listens any more
  rig.to_server();
  EXPECT_EQ(message_of<CmRej>(rig.to_client().at(0)).reason, RejReason::kInvalidServiceId);
}

}  // namespace
}  // namespace understudy
