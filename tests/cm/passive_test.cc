// The communication manager of a server: who is answered, how, and who is refused.
#include <gtest/gtest.h>

#include "tests/cm/rig.h"
#include "tests/rigs/pcap_frames.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

// rules: A9.4
TEST(CmPassive, DataStandForAnRtuThatWasLost) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.accept(rig.now, s, CmRig::acceptance(0x40010));
  rig.server.on_data(rig.now, 0x40011);  // another queue pair's
  EXPECT_TRUE(rig.server.take_events().empty());
  rig.server.on_data(rig.now, 0x40010);
  EXPECT_EQ(CmRig::only(rig.server, CmEventKind::kEstablished).id, s);
  rig.server.on_data(rig.now, 0x40010);
  EXPECT_TRUE(rig.server.take_events().empty());
  EXPECT_TRUE(rig.server.deadline().is_never());
}

// rules: A9.4
TEST(CmPassive, RpingsRecordedExchangeIsAnsweredAsLinuxAnsweredIt) {
  CmAgent server(rig_config(0x505400fffe0a0901));
  const CmEnds ends{*IpAddress::parse("10.9.0.1"), *IpAddress::parse("10.9.0.2")};
  server.listen(ends.local, kService);
  std::vector<std::vector<uint8_t>> mads;
  const std::string folder = std::string(UNDERSTUDY_TEST_DATA) + "/rxe/";
  for (const auto& frame : pcap_frames(folder + "rxe_rping_3x1000.pcap")) {
    const Parsed p(frame);
    if (p.kind != FrameKind::kRoce || p.roce.dest_qpn != kGsiQpn) continue;
    const auto* at = frame.data() + p.roce.payload;
    mads.emplace_back(at, at + p.roce.payload_bytes);
  }
  ASSERT_EQ(mads.size(), 5u);
  const auto linux_rep = std::get<CmRep>(parse_mad(mads[1])->message);
  const Time now;
  server.on_mad(now, ends, mads[0]);
  const CmId id = CmRig::only(server, CmEventKind::kRequest).id;
  CmAccept accept;
  accept.qpn = linux_rep.qpn;
  accept.psn = Psn(linux_rep.starting_psn);
  accept.responder_resources = accept.initiator_depth = 1;
  ASSERT_TRUE(server.accept(now, id, accept));
  auto sent = server.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  auto ours = message_of<CmRep>(sent[0]);
  EXPECT_EQ(ours.failover, 1);  // alternate paths: not supported; Linux says accepted
  ours.failover = 0;
  ours.local_comm_id = linux_rep.local_comm_id;
  const uint64_t tid = parse_mad(sent[0].bytes)->transaction_id;
  EXPECT_TRUE(std::ranges::equal(format_mad({tid, 0, ours}), mads[1]));
  for (const size_t step : {2u, 3u}) {  // RTU and DREQ, to our id
    auto mad = *parse_mad(mads[step]);
    std::visit(
        [&](auto& m) {
          if constexpr (requires { m.remote_comm_id; }) m.remote_comm_id = id;
        },
        mad.message);
    server.on_mad(now, ends, format_mad(mad));
  }
  const auto events = server.take_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, CmEventKind::kEstablished);
  EXPECT_EQ(events[1].kind, CmEventKind::kDisconnected);
  sent = server.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  auto drep = message_of<CmDrep>(sent[0]);
  drep.local_comm_id = linux_rep.local_comm_id;
  EXPECT_TRUE(
      std::ranges::equal(format_mad({parse_mad(sent[0].bytes)->transaction_id, 0, drep}), mads[4]));
}

// rules: A9.6
TEST(CmPassive, ADuplicateReqGetsTheSameRepAgain) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  const auto req = rig.client.take_sends().at(0).bytes;
  rig.server.on_mad(rig.now, kServerEnds, req);
  rig.server.accept(rig.now, CmRig::only(rig.server, CmEventKind::kRequest).id,
                    CmRig::acceptance());
  const auto first = rig.server.take_sends();
  rig.server.on_mad(rig.now + Duration::us(1), kServerEnds, req);
  const auto again = rig.server.take_sends();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].bytes, first.at(0).bytes);
  EXPECT_TRUE(rig.server.take_events().empty());
  EXPECT_EQ(rig.server.counters().duplicates, 1u);
  EXPECT_EQ(rig.server.connections(), 1u);
}

// rules: A9.7
TEST(CmPassive, ARequestThatCannotBeIsRejectedWithItsReason) {
  struct Case {
    const char* what;
    void (*change)(CmReq&);
    RejReason reason;
  };
  const Case cases[] = {
      {"service", [](CmReq& r) { ++r.service_id; }, RejReason::kInvalidServiceId},
      {"datagram port space",
       [](CmReq& r) { r.service_id = rdma_service_id(PortSpace::kUdp, 7174); },
       RejReason::kInvalidServiceId},
      {"UC", [](CmReq& r) { r.transport_type = 1; }, RejReason::kInvalidTransportType},
      {"GID", [](CmReq& r) { r.primary.remote_gid = *IpAddress::parse("10.9.0.77"); },
       RejReason::kInvalidGid},
      {"MTU 0", [](CmReq& r) { r.path_mtu = 0; }, RejReason::kInvalidMtu},
      {"MTU 6", [](CmReq& r) { r.path_mtu = 6; }, RejReason::kInvalidMtu},
      {"MTU above ours", [](CmReq& r) { r.path_mtu = 5; }, RejReason::kInvalidMtu},
  };
  for (const Case& c : cases) {
    auto config = rig_config(0xb);
    config.max_mtu = 2048;
    CmRig rig(config);
    const CmId id = *rig.client.connect(rig.now, rig.request());
    auto mad = *parse_mad(rig.client.take_sends().at(0).bytes);
    c.change(std::get<CmReq>(mad.message));
    rig.server.on_mad(rig.now, kServerEnds, format_mad(mad));
    EXPECT_TRUE(rig.server.take_events().empty()) << c.what;
    EXPECT_EQ(rig.server.connections(), 0u) << c.what;
    const auto answer = rig.to_client();
    ASSERT_EQ(answer.size(), 1u) << c.what;
    const auto rej = message_of<CmRej>(answer[0]);
    EXPECT_EQ(rej.reason, c.reason) << c.what;
    EXPECT_EQ(rej.subject, CmSubject::kReq) << c.what;
    EXPECT_EQ(rej.remote_comm_id, id) << c.what;
    if (c.reason == RejReason::kInvalidMtu) {
      EXPECT_EQ(rej.info_length, 1);
      EXPECT_EQ(rej.info[0], 4 << 4);  // 2048 would do
    }
    const auto events = rig.client.take_events();
    ASSERT_EQ(events.size(), 2u) << c.what;
    EXPECT_EQ(events[0].kind, CmEventKind::kRejected);
    EXPECT_EQ(std::get<CmRej>(events[0].message).reason, c.reason);
    EXPECT_EQ(events[1].kind, CmEventKind::kReleased);
    EXPECT_EQ(rig.client.connections(), 0u);
  }
}

// rules: A9.7
TEST(CmPassive, TheConsumersOwnRejectionCarriesItsData) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  const uint8_t why[] = {4, 2};
  ASSERT_TRUE(rig.server.reject(rig.now, s, RejReason::kConsumer, why));
  EXPECT_EQ(rig.server.connections(), 0u);
  rig.to_client();
  const auto events = rig.client.take_events();
  ASSERT_EQ(events.size(), 2u);
  const auto& rej = std::get<CmRej>(events[0].message);
  EXPECT_EQ(rej.reason, RejReason::kConsumer);
  EXPECT_EQ(rej.private_data[1], 2);
}

// rules: A9.7
TEST(CmPassive, MoreConnectionsThanAllowedAreRejectedAndTheirMemoryIsBounded) {
  auto config = rig_config(0xb);
  config.max_connections = 10;
  CmRig rig(config);
  CmReq req;
  req.service_id = kService;
  req.ca_guid = 1;
  req.path_mtu = 3;
  req.primary.remote_gid = kServerEnds.local;
  int rejected = 0;
  for (uint32_t i = 1; i <= 1000; ++i) {
    req.local_comm_id = i;
    req.qpn = i;
    rig.server.on_mad(rig.now, kServerEnds, mad_with(req));
    for (const CmSend& s : rig.server.take_sends()) {
      EXPECT_EQ(message_of<CmRej>(s).reason, RejReason::kNoResources);
      ++rejected;
    }
  }
  EXPECT_EQ(rejected, 990);
  EXPECT_EQ(rig.server.connections(), 10u);
  EXPECT_EQ(rig.server.take_events().size(), 10u);
  rig.advance(Duration::s(1'000));  // nobody decided: all of them are given up
  EXPECT_EQ(rig.server.connections(), 0u);
  for (const CmEvent& e : rig.server.take_events()) EXPECT_EQ(e.kind, CmEventKind::kFailed);
}

// rules: A9.8
TEST(CmPassive, AnMraForARepProlongsThePassiveSidesWait) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.accept(rig.now, s, CmRig::acceptance());
  CmMra mra;
  mra.local_comm_id = c;
  mra.remote_comm_id = s;
  mra.subject = CmSubject::kReq;  // of the wrong message: no effect
  mra.service_timeout = 22;
  const Time before = rig.server.deadline();
  rig.server.on_mad(rig.now, kServerEnds, mad_with(mra));
  EXPECT_EQ(rig.server.deadline(), before);
  mra.subject = CmSubject::kRep;
  rig.server.on_mad(rig.now, kServerEnds, mad_with(mra));
  EXPECT_EQ(rig.server.deadline(), before + cm_time(22));
}

// rules: A9.9
TEST(CmPassive, ARepIsRepeatedAsOftenAsTheReqAllows) {
  auto config = rig_config(0xb);
  config.max_retries = 3;  // counts for our own requests only
  CmRig rig(config);
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.accept(rig.now, s, CmRig::acceptance());
  EXPECT_EQ(rig.server.take_sends().size(), 1u);
  rig.advance(kWait * 15);
  EXPECT_EQ(rig.server.take_sends().size(), 15u);
  EXPECT_TRUE(rig.server.take_events().empty());
  rig.advance(kWait);
  EXPECT_EQ(message_of<CmRej>(rig.server.take_sends().at(0)).subject, CmSubject::kRep);
  CmRig::only(rig.server, CmEventKind::kFailed);
  rig.advance(cm_time(kAckTimeout));
  CmRig::only(rig.server, CmEventKind::kReleased);
}

// rules: A9.7 A9.9
TEST(CmPassive, ATimeoutRejThatNamesNoIdFindsTheConnectionByGuid) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.advance(kWait * 16);  // the client gives up; only its last word comes through
  CmRej rej = message_of<CmRej>(rig.client.take_sends().back());
  EXPECT_EQ(rej.local_comm_id, c);
  EXPECT_EQ(rej.remote_comm_id, 0u);
  rig.server.take_events();
  CmRig fresh;
  fresh.client.connect(fresh.now, fresh.request());
  fresh.to_server();
  EXPECT_EQ(CmRig::only(fresh.server, CmEventKind::kRequest).id, s);
  rej.info[0] = 1;
  fresh.server.on_mad(fresh.now, kServerEnds, mad_with(rej));
  EXPECT_EQ(fresh.server.connections(), 1u);  // another adapter's
  rej.info[0] = 0;
  fresh.server.on_mad(fresh.now, kServerEnds, mad_with(rej));
  CmRig::only(fresh.server, CmEventKind::kRejected);
  EXPECT_EQ(fresh.server.connections(), 0u);
}

// rules: A9.12
TEST(CmPassive, ALapIsAnsweredNotSupportedAndTheConnectionStands) {
  CmRig rig;
  const auto [s, c] = rig.establish();
  CmLap lap;
  lap.local_comm_id = c;
  lap.remote_comm_id = s;
  rig.server.on_mad(rig.now, kServerEnds, mad_with(lap, 1234));
  auto sent = rig.server.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  auto apr = message_of<CmApr>(sent[0]);
  EXPECT_EQ(apr.status, AprStatus::kUnsupported);
  EXPECT_EQ(apr.local_comm_id, s);
  EXPECT_EQ(apr.remote_comm_id, c);
  EXPECT_EQ(parse_mad(sent[0].bytes)->transaction_id, 1234u);
  EXPECT_TRUE(rig.server.take_events().empty());
  lap.remote_comm_id = s + 1;
  rig.server.on_mad(rig.now, kServerEnds, mad_with(lap));
  apr = message_of<CmApr>(rig.server.take_sends().at(0));
  EXPECT_EQ(apr.status, AprStatus::kInvalidCommId);
  EXPECT_TRUE(rig.server.disconnect(rig.now, s));
}

// rules: A9.13
TEST(CmPassive, WhoLooksForADatagramServiceIsToldThatThereIsNone) {
  CmRig rig;
  // Not of the datagram port space, and not where a service of connections listens.
  for (const uint64_t service : {rdma_service_id(PortSpace::kUdp, 7174), kService}) {
    CmSidrReq req;
    req.request_id = 99;
    req.service_id = service;
    rig.server.on_mad(rig.now, kServerEnds, mad_with(req, 4321));
    const auto sent = rig.server.take_sends();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(parse_mad(sent[0].bytes)->transaction_id, 4321u);
    const auto rep = message_of<CmSidrRep>(sent[0]);
    EXPECT_EQ(rep.status, SidrStatus::kUnsupported);
    EXPECT_EQ(rep.request_id, 99u);
    EXPECT_EQ(rep.service_id, service);
    EXPECT_EQ(rep.qpn, 0u);
  }
  EXPECT_EQ(rig.server.connections(), 0u);
}

// rules: A9.7
TEST(CmPassive, AServiceThatIsIgnoredAgainIsNotThere) {
  CmRig rig;
  rig.server.ignore(kServerEnds.local, kService);
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  EXPECT_TRUE(rig.server.take_events().empty());
  EXPECT_EQ(message_of<CmRej>(rig.to_client().at(0)).reason, RejReason::kInvalidServiceId);
}

TEST(CmPassive, DatagramsThatAreNoMessageAreCounted) {
  CmRig rig;
  auto bytes = mad_with(CmRtu{});
  rig.server.on_mad(rig.now, kServerEnds, bytes);
  EXPECT_EQ(rig.server.counters().unexpected, 1u);
  bytes[1] = 3;
  rig.server.on_mad(rig.now, kServerEnds, bytes);
  EXPECT_EQ(rig.server.counters().malformed, 1u);
  EXPECT_EQ(rig.server.counters().received, 2u);
  EXPECT_TRUE(rig.server.take_sends().empty());
}

// rules: A9.8
TEST(CmPassive, AnAnswerThatTakesLongerThanThePeerWaitsIsAnnounced) {
  CmRig rig;
  const CmId c = *rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  const Duration delay = Duration::s(60);
  ASSERT_TRUE(rig.server.announce(rig.now, s, delay));
  const auto sent = rig.to_client();
  ASSERT_EQ(sent.size(), 1u);
  const auto mra = message_of<CmMra>(sent[0]);
  EXPECT_EQ(mra.subject, CmSubject::kReq);
  EXPECT_EQ(mra.local_comm_id, s);
  EXPECT_EQ(mra.remote_comm_id, c);
  EXPECT_EQ(mra.service_timeout, 24);  // 4.096 us << 24 is 68.7 s, << 23 too little
  rig.advance(delay);
  EXPECT_TRUE(rig.client.take_sends().empty());
  ASSERT_TRUE(rig.server.accept(rig.now, s, CmRig::acceptance()));
  rig.to_client();
  CmRig::only(rig.client, CmEventKind::kReply);
}

// rules: A9.8
TEST(CmPassive, AnAnswerInTimeIsNotAnnouncedUnlessThePeerAsksAgain) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  const auto req = rig.to_server().at(0).bytes;
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  ASSERT_TRUE(rig.server.announce(rig.now, s, cm_time(20)));  // just what the REQ allows
  EXPECT_TRUE(rig.server.take_sends().empty());
  rig.server.on_mad(rig.now + Duration::ms(1), kServerEnds, req);
  const auto sent = rig.server.take_sends();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(message_of<CmMra>(sent[0]).service_timeout, 20);
}

// rules: A9.8 A9.9
TEST(CmPassive, AnAnnouncedAnswerThatNeverComesIsGivenUp) {
  CmRig rig;
  rig.client.connect(rig.now, rig.request());
  rig.to_server();
  const CmId s = CmRig::only(rig.server, CmEventKind::kRequest).id;
  rig.server.announce(rig.now, s, Duration::s(60));
  rig.server.take_sends();
  EXPECT_EQ(rig.server.deadline(), rig.now + Duration::s(60) + kWait * 16);
  rig.advance(Duration::s(60) + kWait * 16);
  EXPECT_EQ(message_of<CmRej>(rig.server.take_sends().at(0)).reason, RejReason::kTimeout);
  CmRig::only(rig.server, CmEventKind::kFailed);
  EXPECT_FALSE(rig.server.announce(rig.now, s, Duration::s(1)));
}

// rules: A9.9
TEST(CmPassive, TheTimesCodeIsTheSmallestThatIsLongEnough) {
  EXPECT_EQ(cm_code(Duration()), 0);
  for (uint8_t code = 0; code < 31; ++code) {
    EXPECT_EQ(cm_code(cm_time(code)), code);
    EXPECT_EQ(cm_code(cm_time(code) + Duration::ps(1)), code + 1);
  }
  EXPECT_EQ(cm_code(cm_time(31) * 2), 31);
}

// rules: A9.2
TEST(CmPassive, WhetherCreditsCountIsToldBothWays) {
  for (const bool counts : {false, true}) {
    CmRig rig;
    auto request = rig.request();
    request.flow_control = counts;
    rig.client.connect(rig.now, request);
    rig.to_server();
    const CmEvent asked = CmRig::only(rig.server, CmEventKind::kRequest);
    EXPECT_EQ(std::get<CmReq>(asked.message).flow_control, counts);
    auto acceptance = CmRig::acceptance();
    acceptance.flow_control = counts;
    rig.server.accept(rig.now, asked.id, acceptance);
    rig.to_client();
    const CmEvent replied = CmRig::only(rig.client, CmEventKind::kReply);
    EXPECT_EQ(std::get<CmRep>(replied.message).flow_control, counts);
  }
}

}  // namespace
}  // namespace understudy
