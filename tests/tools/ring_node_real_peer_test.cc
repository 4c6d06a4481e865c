// Ring ranks that are all real, out of band: what a rank says to the previous one that calls it,
// and what it does not take.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/rigs/ring_node/ring/oob.h"
#include "tools/rigs/ring_node/ring/real_peer.h"

namespace understudy {
namespace {

const IpAddress kPrevious = *IpAddress::parse("10.9.0.1");
const IpAddress kOurs = *IpAddress::parse("10.9.0.2");

RingJobMessage ring(uint32_t ranks, uint32_t channels) {
  RingJobMessage m;
  m.name = "ring";
  m.ranks = ranks;
  m.channels = channels;
  m.operations = {{.bytes = 4096, .warmup = 1, .iterations = 2}};
  return m;
}

RingLinkEnd sender_end(uint32_t channel) {
  RingLinkEnd end;
  end.channel = channel;
  end.qpn = 17 + channel;
  end.mtu = 4096;
  end.gid = kPrevious;
  end.fifo_address = 0x7f0000001000 + channel * uint64_t{0x100000};
  end.fifo_rkey = 0x1000 + channel;
  return end;
}

/// Our end of a link as a channel's queue pairs give it.
RingLinkEnd receiver_end(uint32_t channel) {
  RingLinkEnd end;
  end.channel = channel;
  end.direction = RingDirection::kPeerSends;
  end.qpn = 117 + channel;
  end.mtu = 2048;
  end.gid = kOurs;
  return end;
}

struct Call {
  Call(uint32_t ranks, uint32_t channels)
      : peer(real_ring(ring(ranks, channels), 0, 1)), client("", kPrevious) {}
  void exchange() {
    for (bool moved = true; moved;) {
      const auto up = client.take_output();
      peer.on_bytes(up);
      const auto down = peer.take_output();
      client.on_bytes(down);
      moved = !up.empty() || !down.empty();
    }
  }
  RealPeer peer;
  RingClient client;
};

TEST(RealPeer, DescribesTheRingWithAllRanksReal) {
  const RingJobMessage job = real_ring(ring(4, 2), 3, 0);
  EXPECT_EQ(job.client_rank, 3u);
  EXPECT_EQ(job.peer_rank, 0u);
  EXPECT_EQ(job.real_ranks, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(job.exact);
}

TEST(RealPeer, PassesBackWhatItWasTold) {
  RingJobMessage told = ring(4, 2);
  told.client_rank = 0;
  told.peer_rank = 1;
  told.real_ranks = {0, 3};
  told.seed = 5;
  RingJobMessage expected = told;
  expected.client_rank = 3;
  expected.peer_rank = 0;
  EXPECT_EQ(passed_back(told), expected);
}

TEST(RealPeer, RunsAJobWithTheClientOfThePreviousRank) {
  for (const uint32_t ranks : {2u, 4u}) {
    Call call(ranks, 2);
    call.exchange();
    ASSERT_TRUE(call.client.job().has_value()) << call.client.failure();
    EXPECT_EQ(*call.client.job(), real_ring(ring(ranks, 2), 0, 1));
    EXPECT_TRUE(call.peer.described());
    for (uint32_t c = 0; c < 2; ++c) call.client.connect(sender_end(c));
    call.exchange();
    ASSERT_TRUE(call.peer.all_asked()) << call.peer.failure();
    EXPECT_EQ(call.peer.asked()[1], sender_end(1));
    EXPECT_FALSE(call.client.all_connected());
    for (uint32_t c = 0; c < 2; ++c) call.peer.answer(receiver_end(c));
    call.exchange();
    ASSERT_TRUE(call.client.all_connected()) << call.client.failure();
    EXPECT_EQ(call.client.connected()[1].qpn, 118u);
    EXPECT_EQ(call.client.connected()[1].mtu, 2048u);
    EXPECT_EQ(call.client.connected()[1].direction, RingDirection::kClientSends);
    call.client.send_ready();
    call.exchange();
    EXPECT_TRUE(call.peer.client_ready());
    EXPECT_FALSE(call.client.peer_ready());
    call.peer.begin();
    call.exchange();
    EXPECT_TRUE(call.client.peer_ready());
    call.client.send_result({.operation = 0, .bytes = 4096, .times_ns = {5, 6}, .wrong = 0});
    call.client.send_result({.operation = 0, .bytes = 4096, .times_ns = {7, 8}, .rank = 3});
    call.exchange();
    EXPECT_FALSE(call.peer.done());
    const auto results = call.peer.take_results();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[0].rank, 0u);  // the client's own
    EXPECT_EQ(results[0].wrong, 0u);
    EXPECT_EQ(results[1].rank, 3u);  // that it passes on
    EXPECT_EQ(results[1].times_ns, (std::vector<uint64_t>{7, 8}));
    EXPECT_TRUE(call.peer.take_results().empty());
    call.client.send_done();
    call.exchange();
    EXPECT_TRUE(call.peer.done());
    call.peer.on_closed();
    EXPECT_EQ(call.peer.failure(), "");
    EXPECT_EQ(call.client.failure(), "");
  }
}

/// What a peer with two channels says when a client sends `messages` to it.
std::string failure_after(const std::vector<RingOobMessage>& messages) {
  RealPeer peer(real_ring(ring(4, 2), 0, 1));
  std::vector<uint8_t> bytes;
  for (const auto& message : messages) append_ring_oob(message, bytes);
  peer.on_bytes(bytes);
  return peer.failure();
}

RingHelloMessage hello() {
  RingHelloMessage message;
  message.address = kPrevious;
  return message;
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(RealPeer, RefusesMessagesOutOfOrder) {
  const RingConnectMessage connect{sender_end(0)};
  EXPECT_EQ(failure_after({hello(), connect}), "");
  EXPECT_CONTAINS(failure_after({connect}), "\"connect\" out of order");
  EXPECT_CONTAINS(failure_after({hello(), hello()}), "\"hello\" out of order");
  EXPECT_CONTAINS(failure_after({hello(), connect, RingReadyMessage{}}), "\"ready\" out of order");
  EXPECT_CONTAINS(failure_after({hello(), RingDoneMessage{}}), "\"done\" out of order");
  EXPECT_CONTAINS(failure_after({hello(), RingResultMessage{}}), "\"result\" out of order");
  EXPECT_CONTAINS(failure_after({hello(), RingErrorMessage{"no device"}}), "no device");
}

TEST(RealPeer, RefusesStrangersAndLinksThatTheRingDoesNotHave) {
  RingHelloMessage other = hello();
  other.version = 3;
  EXPECT_CONTAINS(failure_after({other}), "version 3");
  other = hello();
  other.job = "other";
  EXPECT_CONTAINS(failure_after({other}), "\"other\"");
  const auto failure = [](auto change) {
    RingConnectMessage connect{sender_end(0)};
    change(connect);
    return failure_after({hello(), RingConnectMessage{sender_end(1)}, connect});
  };
  EXPECT_EQ(failure([](auto&) {}), "");
  EXPECT_CONTAINS(failure([](auto& m) { m.channel = 2; }), "has 2 channels");
  EXPECT_CONTAINS(failure([](auto& m) { m.channel = 1; }), "is connected already");
  EXPECT_CONTAINS(failure([](auto& m) { m.gid = kOurs; }), "10.9.0.2");
  EXPECT_CONTAINS(failure([](auto& m) { m.fifo_rkey = 0; }), "no memory for credits");
  EXPECT_CONTAINS(failure([](auto& m) { m.direction = RingDirection::kPeerSends; }),
                  "that direction only");
}

TEST(RealPeer, SaysThatTheRankIsGoneTooEarly) {
  RealPeer peer(real_ring(ring(4, 2), 0, 1));
  peer.on_closed();
  EXPECT_CONTAINS(peer.failure(), "before it was done");
}

}  // namespace
}  // namespace understudy
