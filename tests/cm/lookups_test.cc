// Services of datagrams: a SIDR_REQ asks for a queue pair, a SIDR_REP tells it.
#include "dataplane/cm/lookups.h"

#include <gtest/gtest.h>

#include "tests/cm/rig.h"

namespace understudy {
namespace {

constexpr uint64_t kDatagrams = rdma_service_id(PortSpace::kUdp, 7174);

CmLookupsConfig seeded(uint64_t seed) {
  CmLookupsConfig config;
  config.seed = seed;
  return config;
}

class CmLookupsTest : public testing::Test {
 protected:
  CmLookupsTest() { server_.listen(kServerEnds.local, kDatagrams); }

  static CmLookup question() { return {kClientEnds, kDatagrams, {1, 2, 3}}; }
  static CmLookupAnswer good() { return {SidrStatus::kSuccess, 0x40010, 0x01234567, {9, 8}}; }

  static std::vector<CmSend> carry(CmLookups& from, CmLookups& to, const CmEnds& ends, Time now) {
    const auto sends = from.take_sends();
    for (const CmSend& send : sends) to.on_mad(now, ends, send.bytes);
    return sends;
  }
  std::vector<CmSend> to_server() { return carry(client_, server_, kServerEnds, now_); }
  std::vector<CmSend> to_client() { return carry(server_, client_, kClientEnds, now_); }
  static CmLookupEvent only(CmLookups& side, CmLookupEventKind kind) {
    const auto events = side.take_events();
    EXPECT_EQ(events.size(), 1u);
    if (events.empty()) return {};
    EXPECT_EQ(events[0].kind, kind);
    return events[0];
  }
  void advance(Duration by) {
    now_ = now_ + by;
    client_.on_time(now_);
    server_.on_time(now_);
  }

  CmLookups client_{seeded(0xa)}, server_{seeded(0xb)};
  Time now_ = Time::zero() + Duration::s(1);
  const Duration wait_ = CmLookupsConfig{}.wait;
};

// rules: A9.2 A9.13
TEST_F(CmLookupsTest, AQuestionIsAnsweredWithAQueuePair) {
  const CmId c = client_.ask(now_, question());
  ASSERT_NE(c, 0u);
  const auto asked = to_server();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(message_of<CmSidrReq>(asked[0]).request_id, c);
  const CmLookupEvent event = only(server_, CmLookupEventKind::kAsked);
  EXPECT_EQ(event.ends, kServerEnds);
  EXPECT_EQ(event.request.service_id, kDatagrams);
  EXPECT_EQ(event.request.private_data[2], 3);
  ASSERT_TRUE(server_.answer(now_, event.id, good()));
  EXPECT_FALSE(server_.answer(now_, event.id, good()));
  const auto told = to_client();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(parse_mad(told[0].bytes)->transaction_id, parse_mad(asked[0].bytes)->transaction_id);
  const CmLookupEvent answered = only(client_, CmLookupEventKind::kAnswered);
  EXPECT_EQ(answered.id, c);
  EXPECT_EQ(answered.reply.status, SidrStatus::kSuccess);
  EXPECT_EQ(answered.reply.qpn, 0x40010u);
  EXPECT_EQ(answered.reply.qkey, 0x01234567u);
  EXPECT_EQ(answered.reply.private_data[1], 8);
  EXPECT_EQ(client_.size(), 0u);
  EXPECT_TRUE(client_.deadline().is_never());
  advance(wait_ * 2);
  EXPECT_EQ(server_.size(), 0u);
  EXPECT_TRUE(server_.take_events().empty());
}

// rules: A9.6 A9.13
TEST_F(CmLookupsTest, AQuestionThatComesAgainGetsTheSameAnswerAndIsNoNewOne) {
  client_.ask(now_, question());
  const auto first = to_server();
  const CmId s = only(server_, CmLookupEventKind::kAsked).id;
  advance(wait_);
  EXPECT_EQ(to_server().at(0).bytes, first.at(0).bytes);
  EXPECT_TRUE(server_.take_events().empty());  // the consumer has been asked
  EXPECT_TRUE(server_.take_sends().empty());
  server_.answer(now_, s, good());
  const auto lost = server_.take_sends();
  advance(wait_);
  to_server();
  const auto again = to_client();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].bytes, lost.at(0).bytes);
  EXPECT_EQ(only(client_, CmLookupEventKind::kAnswered).reply.qpn, 0x40010u);
  EXPECT_TRUE(server_.take_events().empty());
}

// rules: A9.9 A9.13
TEST_F(CmLookupsTest, AQuestionWithoutAnswerIsAskedSixteenTimes) {
  const CmId c = client_.ask(now_, question());
  size_t sent = client_.take_sends().size();
  for (int i = 0; i < 15; ++i) {
    advance(wait_ - Duration::ps(1));
    EXPECT_TRUE(client_.take_sends().empty());
    advance(Duration::ps(1));
    sent += client_.take_sends().size();
    EXPECT_TRUE(client_.take_events().empty());
  }
  EXPECT_EQ(sent, 16u);
  advance(wait_);
  EXPECT_EQ(only(client_, CmLookupEventKind::kFailed).id, c);
  EXPECT_EQ(client_.size(), 0u);
}

// rules: A9.13
TEST_F(CmLookupsTest, ServicesThatAreNotThereAreRefused) {
  CmLookup other = question();
  other.service_id = kDatagrams + 1;
  client_.ask(now_, other);
  to_server();
  to_client();
  EXPECT_EQ(only(client_, CmLookupEventKind::kAnswered).reply.status, SidrStatus::kUnsupported);
  server_.ignore(kServerEnds.local, kDatagrams);
  client_.ask(now_, question());
  to_server();
  EXPECT_TRUE(server_.take_events().empty());
  to_client();
  EXPECT_EQ(only(client_, CmLookupEventKind::kAnswered).reply.status, SidrStatus::kUnsupported);
}

// rules: A9.13
TEST_F(CmLookupsTest, ARefusalTellsNoQueuePair) {
  client_.ask(now_, question());
  to_server();
  CmLookupAnswer bad = good();
  bad.status = SidrStatus::kNoQp;
  server_.answer(now_, only(server_, CmLookupEventKind::kAsked).id, bad);
  const auto reply = message_of<CmSidrRep>(to_client().at(0));
  EXPECT_EQ(reply.status, SidrStatus::kNoQp);
  EXPECT_EQ(reply.qpn, 0u);
  EXPECT_EQ(reply.qkey, 0u);
  EXPECT_EQ(reply.private_data[0], 9);
}

TEST_F(CmLookupsTest, WhatIsForgottenIsRefusedOrAskedNoMore) {
  client_.ask(now_, question());
  to_server();
  const CmId s = only(server_, CmLookupEventKind::kAsked).id;
  server_.forget(now_, s);
  server_.forget(now_, s);
  EXPECT_EQ(message_of<CmSidrRep>(to_client().at(0)).status, SidrStatus::kReject);
  client_.take_events();
  const CmId c = client_.ask(now_, question());
  client_.forget(now_, c);
  EXPECT_EQ(client_.size(), 0u);
  to_server();
  server_.answer(now_, only(server_, CmLookupEventKind::kAsked).id, good());
  to_client();
  EXPECT_TRUE(client_.take_events().empty());
}

// rules: A9.1
TEST_F(CmLookupsTest, ANumberThatAPeerUsesAnewIsANewQuestion) {
  CmSidrReq request;
  request.request_id = 5;
  request.service_id = kDatagrams;
  server_.on_mad(now_, kServerEnds, mad_with(request, 1));
  server_.answer(now_, only(server_, CmLookupEventKind::kAsked).id, good());
  server_.on_mad(now_, kServerEnds, mad_with(request, 2));
  const CmId s = only(server_, CmLookupEventKind::kAsked).id;
  EXPECT_EQ(server_.size(), 1u);
  server_.take_sends();
  server_.answer(now_, s, good());
  EXPECT_EQ(parse_mad(server_.take_sends().at(0).bytes)->transaction_id, 2u);
}

TEST_F(CmLookupsTest, RepliesOfOthersAreNone) {
  const CmId c = client_.ask(now_, question());
  CmSidrRep reply;
  reply.request_id = c;
  reply.service_id = kDatagrams;
  const CmEnds stranger{kClientEnds.local, IpAddress::v4(0x0a090063)};
  client_.on_mad(now_, stranger, mad_with(reply));
  reply.service_id = kDatagrams + 1;
  client_.on_mad(now_, kClientEnds, mad_with(reply));
  reply.service_id = kDatagrams;
  reply.request_id = c + 1;
  client_.on_mad(now_, kClientEnds, mad_with(reply));
  client_.on_mad(now_, kClientEnds, mad_with(CmRtu{}));
  client_.on_mad(now_, kClientEnds, std::array<uint8_t, 3>{});
  EXPECT_TRUE(client_.take_events().empty());
  EXPECT_EQ(client_.size(), 1u);
}

TEST_F(CmLookupsTest, RequestIdsAreOfTheRangeThatWasGiven) {
  CmLookupsConfig config = seeded(0xc);
  config.ids = {0xabc0'0000, 0x0000'ffff};
  CmLookups side(config);
  const CmId a = side.ask(now_, question()), b = side.ask(now_, question());
  EXPECT_NE(a, b);
  EXPECT_TRUE(config.ids.contains(a) && config.ids.contains(b));
}

TEST_F(CmLookupsTest, ThereMayBeTooMany) {
  CmLookupsConfig config = seeded(0xc);
  config.max_lookups = 2;
  CmLookups small(config);
  small.listen(kServerEnds.local, kDatagrams);
  for (int i = 0; i < 3; ++i) client_.ask(now_, question());
  const auto replies = [&] {
    carry(client_, small, kServerEnds, now_);
    return small.take_sends();
  }();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(message_of<CmSidrRep>(replies[0]).status, SidrStatus::kReject);
  EXPECT_EQ(small.ask(now_, {kServerEnds, kDatagrams, {}}), 0u);
}

TEST_F(CmLookupsTest, AConsumerThatNeverAnswersHoldsNoPlaceForEver) {
  client_.ask(now_, question());
  to_server();
  const CmId s = only(server_, CmLookupEventKind::kAsked).id;
  advance(CmLookupsConfig{}.longest_wait);
  EXPECT_EQ(only(server_, CmLookupEventKind::kFailed).id, s);
  EXPECT_EQ(server_.size(), 0u);
  EXPECT_FALSE(server_.answer(now_, s, good()));
}

}  // namespace
}  // namespace understudy
