// The ring peer and ring_node's out-of-band client against each other, and the peer against bytes
// that a client should not send.
#include "ctrl/peers/ring/ring_peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/peers/ring/ring_watch.h"
#include "dataplane/base/big_endian.h"
#include "tools/rigs/ring_node/ring/oob.h"

namespace understudy {
namespace {

const IpAddress kReal = *IpAddress::parse("10.9.0.200");
const IpAddress kEmulated = *IpAddress::parse("10.9.0.2");

class Recorder : public RingObserver {
 public:
  void on_ring_ready(uint32_t job, uint32_t real, uint32_t emulated) override {
    lines.push_back("ready " + std::to_string(job) + " " + std::to_string(real) + " " +
                    std::to_string(emulated));
  }
  void on_ring_result(uint32_t job, uint32_t real, const RingResultMessage& result) override {
    lines.push_back("result " + std::to_string(job) + " " + std::to_string(real) + " " +
                    std::to_string(result.bytes));
    results.push_back(result);
  }
  void on_ring_done(uint32_t job, uint32_t real, uint32_t emulated) override {
    lines.push_back("done " + std::to_string(job) + " " + std::to_string(real) + " " +
                    std::to_string(emulated));
  }
  void on_ring_lost(uint32_t job, uint32_t real) override {
    lines.push_back("lost " + std::to_string(job) + " " + std::to_string(real));
  }
  std::vector<std::string> lines;
  std::vector<RingResultMessage> results;
};

RingOffer offer(uint32_t ranks, uint32_t real, uint32_t emulated, uint32_t channels) {
  RingOffer out;
  out.job = 7;
  out.client_addresses = {kReal};
  RingJobMessage& m = out.message;
  m.name = "allreduce";
  m.ranks = ranks;
  m.client_rank = real;
  m.peer_rank = emulated;
  m.real_ranks = {real};
  m.channels = channels;
  m.operations = {{.bytes = 4096, .warmup = 1, .iterations = 2},
                  {.bytes = 1 << 20, .warmup = 0, .iterations = 1}};
  m.mtu = 1024;
  m.seed = UINT64_MAX;  // does not fit a double: must survive as an integer
  m.exact = true;
  m.data_traffic_class = 104;
  m.control_traffic_class = 192;
  return out;
}

RingLinkEnd client_end(uint32_t channel, RingDirection direction) {
  RingLinkEnd end;
  end.channel = channel;
  end.direction = direction;
  end.qpn = 17 + channel * 2 + (direction == RingDirection::kPeerSends ? 1 : 0);
  end.mtu = 4096;
  end.gid = kReal;
  if (direction == RingDirection::kClientSends) {
    end.fifo_address = 0x7f0000001000 + channel * uint64_t{0x100000};
    end.fifo_rkey = 0x1000 + channel;
  }
  return end;
}

/// Both machines in memory; bytes cross in pieces of `piece`.
struct Pair {
  explicit Pair(RingOffer o, size_t piece_bytes = 1 << 20, RingObserver* observer = nullptr)
      : peer(kEmulated, {std::move(o)}, observer == nullptr ? recorder : *observer),
        client("", kReal),
        piece(piece_bytes) {}

  void exchange() {
    for (bool moved = true; moved;) {
      moved = false;
      const auto up = client.take_output();
      for (size_t at = 0; at < up.size(); at += piece) {
        peer.on_bytes(Time(), std::span(up).subspan(at, std::min(piece, up.size() - at)));
      }
      for (const EndpointRequest& request : peer.take_requests()) {
        requests.push_back(request);
        peer.on_endpoint(Time(), {.qpn = static_cast<Qpn>(0x100 + requests.size()),
                                  .psn = Psn(0),
                                  .address = 0x200000 * requests.size(),
                                  .rkey = static_cast<Rkey>(0x40 + requests.size())});
      }
      const auto down = peer.take_output();
      for (size_t at = 0; at < down.size(); at += piece) {
        client.on_bytes(std::span(down).subspan(at, std::min(piece, down.size() - at)));
      }
      moved = !up.empty() || !down.empty();
    }
  }

  void connect_all() {
    for (uint32_t c = 0; c < client.job()->channels; ++c) {
      for (RingDirection d : client.directions()) client.connect(client_end(c, d));
    }
  }

  Recorder recorder;
  RingPeer peer;
  RingClient client;
  size_t piece;
  std::vector<EndpointRequest> requests;
};

void run_whole_job(Pair& pair) {
  pair.exchange();
  ASSERT_TRUE(pair.client.job().has_value()) << pair.client.failure();
  pair.connect_all();
  pair.exchange();
  ASSERT_TRUE(pair.client.all_connected()) << pair.client.failure();
  pair.client.send_ready();
  pair.exchange();
  ASSERT_TRUE(pair.client.peer_ready()) << pair.client.failure();
  pair.client.send_result({.operation = 0, .bytes = 4096, .times_ns = {5, 6}, .wrong = 0});
  pair.client.send_result({.operation = 1, .bytes = 1 << 20, .times_ns = {9}, .wrong = {}});
  pair.client.send_done();
  pair.exchange();
  EXPECT_TRUE(pair.peer.finished());
  EXPECT_EQ(pair.peer.failure(), "");
  EXPECT_EQ(pair.client.failure(), "");
}

TEST(RingPeer, RunsAJobWithTheClientHoweverTheBytesAreCut) {
  for (size_t piece : {size_t{1}, size_t{3}, size_t{1} << 20}) {
    Pair pair(offer(4, 0, 1, 2), piece);
    run_whole_job(pair);
    EXPECT_EQ(*pair.client.job(), offer(4, 0, 1, 2).message);
    EXPECT_EQ(pair.recorder.lines, (std::vector<std::string>{"ready 7 0 1", "result 7 0 4096",
                                                             "result 7 0 1048576", "done 7 0 1"}));
    ASSERT_EQ(pair.recorder.results.size(), 2u);
    EXPECT_EQ(pair.recorder.results[0].times_ns, (std::vector<uint64_t>{5, 6}));
    EXPECT_EQ(pair.recorder.results[0].wrong, 0u);
    EXPECT_EQ(pair.recorder.results[1].wrong, std::nullopt);
  }
}

/// Of several real ranks none begins before all are ready; results may be another one's.
TEST(RingPeer, HoldsAReadyClientUntilAllRealRanksAre) {
  RingOffer several = offer(4, 0, 1, 1);
  several.message.real_ranks = {0, 3};
  Pair pair(several);
  pair.exchange();
  pair.connect_all();
  pair.exchange();
  EXPECT_EQ(pair.peer.waits(), std::nullopt);
  pair.client.send_ready();
  pair.exchange();
  EXPECT_EQ(pair.recorder.lines, std::vector<std::string>{"ready 7 0 1"});
  EXPECT_EQ(pair.peer.waits(), 7u);
  EXPECT_FALSE(pair.client.peer_ready());
  pair.peer.begin();
  pair.exchange();
  EXPECT_EQ(pair.peer.waits(), std::nullopt);
  EXPECT_TRUE(pair.client.peer_ready());
  pair.client.send_result({.operation = 0, .bytes = 4096, .times_ns = {5, 6}});
  pair.client.send_result({.operation = 0, .bytes = 4096, .times_ns = {5, 6}, .rank = 3});
  pair.exchange();
  EXPECT_EQ(pair.recorder.lines.back(), "result 7 3 4096");
  pair.client.send_result({.operation = 0, .bytes = 4096, .times_ns = {5, 6}, .rank = 2});
  pair.exchange();
  EXPECT_EQ(pair.peer.failure(), "result of rank 2, which is no real one");
}

void get_ready(Pair& pair) {
  pair.exchange();
  pair.connect_all();
  pair.exchange();
  pair.client.send_ready();
  pair.exchange();
}

RingOffer offer_of_two(uint32_t real, uint32_t emulated) {
  RingOffer several = offer(4, real, emulated, 1);
  several.message.real_ranks = {0, 3};
  return several;
}

TEST(RingPeer, SaysThatAClientHasGoneThatWaited) {
  for (int way = 0; way < 3; ++way) {
    Pair pair(offer_of_two(0, 1));
    get_ready(pair);
    if (way == 0) {
      pair.peer.on_closed(Time());
    } else {
      std::vector<uint8_t> bytes;
      if (way == 1) append_ring_oob(RingErrorMessage{"no more"}, bytes);
      if (way == 2) append_ring_oob(RingDoneMessage{}, bytes);
      pair.peer.on_bytes(Time(), bytes);
    }
    EXPECT_TRUE(pair.peer.finished());
    EXPECT_EQ(pair.recorder.lines, (std::vector<std::string>{"ready 7 0 1", "lost 7 0"})) << way;
    EXPECT_EQ(pair.peer.waits(), std::nullopt);
  }
  Pair early(offer_of_two(0, 1)), late(offer_of_two(0, 1));
  early.exchange();
  early.peer.on_closed(Time());  // it may come again
  EXPECT_TRUE(early.recorder.lines.empty());
  get_ready(late);
  late.peer.begin();
  late.peer.on_closed(Time());
  EXPECT_EQ(late.recorder.lines, std::vector<std::string>{"ready 7 0 1"});
}

TEST(RingWatch, AJobThatLostAWaitingRankDoesNotBegin) {
  Recorder jobs;
  RingWatch watch(jobs);
  Pair first(offer_of_two(0, 1), 1 << 20, &watch), second(offer_of_two(3, 2), 1 << 20, &watch);
  get_ready(first);
  EXPECT_EQ(watch.why_not(7), std::nullopt);
  first.peer.on_closed(Time());
  get_ready(second);
  EXPECT_EQ(jobs.lines, std::vector<std::string>{"ready 7 0 1"});  // never both
  EXPECT_EQ(watch.why_not(8), std::nullopt);
  ASSERT_TRUE(watch.why_not(7).has_value());
  EXPECT_EQ(second.peer.waits(), 7u);
  second.peer.call_off(*watch.why_not(7));
  second.exchange();
  EXPECT_TRUE(second.peer.finished());
  EXPECT_EQ(second.peer.failure(), "rank 0 has gone before all real ranks were ready");
  EXPECT_NE(second.client.failure().find("rank 0 has gone"), std::string::npos);
}

TEST(RingPeer, AsksForReceivingEndpointsWhereTheRealRankSends) {
  Pair pair(offer(4, 0, 1, 2));
  run_whole_job(pair);
  ASSERT_EQ(pair.requests.size(), 2u);
  const EndpointRequest& r = pair.requests[1];
  EXPECT_EQ(r.behaviour, Behaviour::kRing);
  EXPECT_EQ(r.local, kEmulated);
  EXPECT_EQ(r.remote, kReal);
  EXPECT_EQ(r.remote_qpn, 19u);
  EXPECT_EQ(r.mtu, 1024u);  // the smaller one
  EXPECT_EQ(r.sender.traffic_class, 192);
  EXPECT_EQ(r.timeout, 20);
  EXPECT_EQ(r.region_bytes, 4u << 20);
  ASSERT_TRUE(r.ring.has_value());
  EXPECT_EQ(r.ring->job, 7u);
  EXPECT_EQ(r.ring->emulated_rank, 1u);
  EXPECT_EQ(r.ring->real_rank, 0u);
  EXPECT_EQ(r.ring->channel, 1u);
  EXPECT_TRUE(r.ring->real_sends);
  EXPECT_EQ(r.ring->fifo_address, 0x7f0000101000u);
  EXPECT_EQ(r.ring->fifo_rkey, 0x1001u);
  const RingLinkEnd& theirs = pair.client.connected()[1];
  EXPECT_EQ(theirs.qpn, 0x102u);
  EXPECT_EQ(theirs.gid, kEmulated);
  EXPECT_EQ(theirs.mtu, 1024u);
  EXPECT_EQ(theirs.fifo_address, 0u);  // receivers have no memory for credits
}

TEST(RingPeer, AsksForSendingEndpointsBeforeTheRealRank) {
  Pair pair(offer(4, 0, 3, 1));
  run_whole_job(pair);
  ASSERT_EQ(pair.requests.size(), 1u);
  EXPECT_FALSE(pair.requests[0].ring->real_sends);
  EXPECT_EQ(pair.requests[0].sender.traffic_class, 104);
  EXPECT_EQ(pair.requests[0].region_bytes, 131072u);
  EXPECT_EQ(pair.client.connected()[0].fifo_address, 0x200000u);
  EXPECT_EQ(pair.client.connected()[0].fifo_rkey, 0x41u);
}

TEST(RingPeer, CarriesBothDirectionsInARingOfTwo) {
  Pair pair(offer(2, 1, 0, 2));
  run_whole_job(pair);
  ASSERT_EQ(pair.requests.size(), 4u);
  EXPECT_EQ(std::ranges::count_if(pair.requests, [](auto& r) { return r.ring->real_sends; }), 2);
}

/// What the peer says when a client sends `messages` to it, one after the other.
std::string failure_after(const std::vector<RingOobMessage>& messages) {
  Recorder recorder;
  RingPeer peer(kEmulated, {offer(4, 0, 1, 2)}, recorder);
  std::vector<uint8_t> bytes;
  for (const auto& message : messages) append_ring_oob(message, bytes);
  peer.on_bytes(Time(), bytes);
  EXPECT_EQ(peer.finished(), !peer.failure().empty());
  return peer.failure();
}

RingHelloMessage good_hello() {
  RingHelloMessage hello;
  hello.address = kReal;
  return hello;
}

RingConnectMessage good_connect() {
  return RingConnectMessage{client_end(0, RingDirection::kClientSends)};
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(RingPeer, RefusesMessagesOutOfOrder) {
  EXPECT_CONTAINS(failure_after({RingReadyMessage{}}), "\"ready\" out of order, expected hello");
  EXPECT_CONTAINS(failure_after({good_hello(), good_hello()}), "\"hello\" out of order");
  EXPECT_CONTAINS(failure_after({good_hello(), RingReadyMessage{}}), "0 of 2 links connected");
  EXPECT_CONTAINS(failure_after({good_hello(), RingDoneMessage{}}), "\"done\" out of order");
  EXPECT_CONTAINS(failure_after({RingErrorMessage{"no device"}}), "no device");
  EXPECT_EQ(failure_after({good_hello(), good_connect()}), "");
}

TEST(RingPeer, RefusesStrangers) {
  RingHelloMessage hello = good_hello();
  hello.version = 3;
  EXPECT_CONTAINS(failure_after({hello}), "version 3");
  hello = good_hello();
  hello.job = "other";
  EXPECT_CONTAINS(failure_after({hello}), "\"other\"");
  hello = good_hello();
  hello.address = kEmulated;
  EXPECT_CONTAINS(failure_after({hello}), "10.9.0.2");
}

TEST(RingPeer, RefusesLinksThatTheJobDoesNotHave) {
  const auto failure = [](auto change) {
    RingConnectMessage connect = good_connect();
    change(connect);
    return failure_after({good_hello(), connect});
  };
  EXPECT_CONTAINS(failure([](auto& c) { c.channel = 2; }), "has 2 channels");
  EXPECT_CONTAINS(failure([](auto& c) { c.direction = RingDirection::kPeerSends; }),
                  "no neighbours in this direction");
  EXPECT_CONTAINS(failure([](auto& c) { c.gid = *IpAddress::parse("10.9.0.201"); }), "10.9.0.201");
  EXPECT_CONTAINS(failure([](auto& c) { c.mtu = 1500; }), "1500");
  EXPECT_CONTAINS(failure([](auto& c) { c.fifo_rkey = 0; }), "memory for credits");
  EXPECT_CONTAINS(failure_after({good_hello(), good_connect(), good_connect()}), "already");
}

TEST(RingPeer, RefusesResultsThatTheJobDoesNotHave) {
  for (const RingResultMessage& result :
       {RingResultMessage{.operation = 2, .bytes = 4096, .times_ns = {1, 2}, .wrong = 0},
        RingResultMessage{.operation = 0, .bytes = 8192, .times_ns = {1, 2}, .wrong = 0},
        RingResultMessage{.operation = 0, .bytes = 4096, .times_ns = {1}, .wrong = 0}}) {
    Pair pair(offer(4, 0, 1, 1));
    pair.exchange();
    pair.connect_all();
    pair.exchange();
    pair.client.send_ready();
    pair.client.send_result(result);
    pair.exchange();
    EXPECT_CONTAINS(pair.peer.failure(), "result of operation");
    EXPECT_CONTAINS(pair.client.failure(), "result of operation");  // and the client is told
    EXPECT_TRUE(pair.recorder.results.empty());
  }
}

std::string failure_of_text(std::string_view json, uint32_t length) {
  Recorder recorder;
  RingPeer peer(kEmulated, {offer(4, 0, 1, 2)}, recorder);
  const Be32 head(length);
  std::vector<uint8_t> bytes(sizeof head + json.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::ranges::copy(json, bytes.begin() + sizeof head);
  peer.on_bytes(Time(), bytes);
  return peer.failure();
}

TEST(RingPeer, RefusesBytesThatAreNoMessage) {
  const auto failure = [](std::string_view json) {
    return failure_of_text(json, static_cast<uint32_t>(json.size()));
  };
  EXPECT_CONTAINS(failure("{\"type\":"), "not JSON");
  EXPECT_CONTAINS(failure("[1]"), "not a JSON object");
  EXPECT_CONTAINS(failure("{}"), "\"type\" is missing");
  EXPECT_CONTAINS(failure("{\"type\":\"hallo\"}"), "\"hallo\"");
  EXPECT_CONTAINS(failure(R"({"type":"hello","job":""})"), "\"version\" is missing");
  EXPECT_CONTAINS(failure(R"({"type":"hello","version":-1})"), "\"version\" must be an integer");
  EXPECT_CONTAINS(failure(R"({"type":"hello","version":1,"job":3})"), "\"job\" must be a string");
  EXPECT_CONTAINS(failure(R"({"type":"hello","version":1,"job":"","address":"x"})"), "\"address\"");
  EXPECT_CONTAINS(failure_of_text("", kRingOobMaxMessage + 1), "longer than");
  EXPECT_EQ(failure_of_text("{\"type\"", 100), "");  // the rest may still come
}

TEST(RingPeer, NamesAnEarlyEndOfTheConnection) {
  Pair pair(offer(4, 0, 1, 1));
  pair.exchange();
  pair.peer.on_closed(Time());
  EXPECT_TRUE(pair.peer.finished());
  EXPECT_CONTAINS(pair.peer.failure(), "before it was done");
  pair.client.on_closed();
  EXPECT_CONTAINS(pair.client.failure(), "closed the connection");
}

TEST(RingPeer, TellsTheClientThatAnEndpointIsRefused) {
  Pair pair(offer(4, 0, 1, 1));
  pair.exchange();
  pair.connect_all();
  pair.peer.on_bytes(Time(), pair.client.take_output());
  pair.peer.on_refused(Time(), "no queue pair left");
  pair.exchange();
  EXPECT_CONTAINS(pair.client.failure(), "no queue pair left");
}

TEST(RingClient, RefusesPeersThatBreakTheProtocol) {
  const auto failure = [](const std::vector<RingOobMessage>& messages) {
    RingClient client("", kReal);
    std::vector<uint8_t> bytes;
    for (const auto& message : messages) append_ring_oob(message, bytes);
    client.on_bytes(bytes);
    return client.failure();
  };
  const RingJobMessage job = offer(4, 0, 1, 1).message;
  EXPECT_EQ(failure({job}), "");
  EXPECT_CONTAINS(failure({RingReadyMessage{}}), "out of order");
  EXPECT_CONTAINS(failure({job, job}), "out of order");
  EXPECT_CONTAINS(failure({job, RingConnectedMessage{}}), "\"qpn\"");
  RingJobMessage far = job;
  far.peer_rank = 2;
  EXPECT_CONTAINS(failure({far}), "no neighbours");
  RingJobMessage odd = job;
  odd.operations[0].bytes = 4098;
  EXPECT_CONTAINS(failure({odd}), "multiple of 4");
  RingJobMessage slices = job;
  slices.cutting.slice_steps = 3;
  EXPECT_CONTAINS(failure({slices}), "slice_steps");
}

TEST(RingClient, NoticesNeighboursThatDisagree) {
  const RingJobMessage job = offer(4, 0, 1, 1).message;
  RingJobMessage other = job;
  other.peer_rank = 3;
  EXPECT_EQ(job_difference(job, other), "");
  other.seed = 5;
  EXPECT_CONTAINS(job_difference(job, other), "settings");
  other.operations.pop_back();
  EXPECT_CONTAINS(job_difference(job, other), "operations");
}

}  // namespace
}  // namespace understudy
