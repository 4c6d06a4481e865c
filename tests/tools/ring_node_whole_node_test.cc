// What ring_node as a whole node and the peer that it calls say to each other.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ctrl/peers/ring/ring_peer.h"
#include "ctrl/peers/ring/ring_watch.h"
#include "tests/rigs/node_jobs.h"
#include "tools/rigs/ring_node/ring/oob.h"
#include "tools/rigs/ring_node/whole_node/node_client.h"
#include "tools/rigs/ring_node/whole_node/node_schedule.h"

namespace understudy {
namespace {

struct Recorder : RingObserver {
  void on_ring_ready(uint32_t, uint32_t real, uint32_t) override { ready.insert(real); }
  void on_ring_result(uint32_t, uint32_t real, const RingResultMessage& m) override {
    results.emplace_back(real, m.bytes);
  }
  void on_ring_done(uint32_t, uint32_t, uint32_t) override { ++done; }
  void on_ring_lost(uint32_t, uint32_t real) override { lost.push_back(real); }
  std::optional<RingLinkEnd> on_ring_meeting(uint32_t, const RingLinkEnd& end) override {
    const bool sends = end.direction == RingDirection::kClientSends;
    const uint32_t from = sends ? end.of->client_rank : end.of->peer_rank;
    const uint32_t to = sends ? end.of->peer_rank : end.of->client_rank;
    ends.insert_or_assign({from, to, end.channel, sends}, end);
    const auto other = ends.find({from, to, end.channel, !sends});
    return other == ends.end() ? std::nullopt : std::optional(other->second);
  }
  std::set<uint32_t> ready;
  std::vector<std::pair<uint32_t, uint64_t>> results;
  unsigned done = 0;
  std::vector<uint32_t> lost;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, bool>, RingLinkEnd> ends;
};

/// Of a tree over four nodes, in which programs play `programs`.
RingOffer tree_offer(uint32_t node, std::vector<uint32_t> programs) {
  RingOffer offer;
  offer.job = 3;
  offer.message.name = "j";
  offer.message.client_rank = node;
  offer.message.real_ranks = std::move(programs);
  offer.message.mtu = 2048;
  offer.client_addresses = {address_of(node)};
  offer.node = std::make_shared<NodeJobMessage>(job_of(
      communicator(4), {{400000, {operation(Collective::kAllReduce, Algorithm::kTree)}}}, node));
  return offer;
}

RingOffer ring_offer() {
  RingOffer offer;
  offer.message.name = "ring";
  offer.message.ranks = 4;
  offer.message.peer_rank = 1;
  offer.message.real_ranks = {0};
  offer.message.operations = {{.bytes = 4096, .warmup = 0, .iterations = 1}};
  offer.client_addresses = {address_of(0)};
  return offer;
}

/// A client and the peer that it has called.
template <typename Client>
struct Call {
  Call(std::vector<RingOffer> offers, Client made, RingObserver& observer)
      : peer(address_of(3), std::move(offers), observer), client(std::move(made)) {}
  void exchange() {
    for (bool moved = true; moved;) {
      const auto up = client.take_output();
      peer.on_bytes(Time(), up);
      for (const EndpointRequest& request : peer.take_requests()) {
        requests.push_back(request);
        peer.on_endpoint(Time(), {.qpn = static_cast<Qpn>(0x100 + requests.size()),
                                  .psn = Psn(0),
                                  .address = 0x200000,
                                  .rkey = 0x40});
      }
      const auto down = peer.take_output();
      client.on_bytes(down);
      moved = !up.empty() || !down.empty();
    }
  }
  RingPeer peer;
  Client client;
  std::vector<EndpointRequest> requests;
};

void connect_all(NodeClient& client, uint32_t node) {
  for (uint32_t l = 0; l < client.job()->links.size(); ++l) {
    RingLinkEnd end;
    end.qpn = 0x20 + l;
    end.mtu = 4096;
    end.gid = address_of(node);
    if (client.job()->links[l].client_sends) {
      end.fifo_address = 0x1000 + l;
      end.fifo_rkey = 5;
    }
    client.connect(l, end);
  }
}

TEST(WholeNode, IsToldItsJobAndConnectsAllLinks) {
  Recorder recorder;
  Call<NodeClient> call({tree_offer(0, {0})}, NodeClient("", address_of(0)), recorder);
  call.exchange();
  ASSERT_TRUE(call.client.job()) << call.client.failure() << call.peer.failure();
  const NodeJobMessage expected = *tree_offer(0, {0}).node;
  EXPECT_EQ(call.client.job()->links, expected.links);
  EXPECT_EQ(call.client.job()->kinds.front().operations.front().algorithm, Algorithm::kTree);
  EXPECT_TRUE(node_kinds(*call.client.job()));
  connect_all(call.client, 0);
  call.exchange();
  ASSERT_TRUE(call.client.all_connected()) << call.client.failure() << call.peer.failure();
  ASSERT_EQ(call.requests.size(), expected.links.size());
  for (size_t l = 0; l < expected.links.size(); ++l) {
    const EndpointRequest& request = call.requests[l];
    EXPECT_EQ(request.local, expected.links[l].remote.front());
    EXPECT_EQ(request.ring->emulated_rank, expected.links[l].peer_rank);
    EXPECT_EQ(request.ring->real_sends, expected.links[l].client_sends);
    EXPECT_EQ(request.mtu, 2048u);
  }
  call.client.send_ready();
  call.exchange();
  EXPECT_TRUE(call.client.peer_ready());
  call.client.send_result({.operation = 0, .bytes = 400000, .times_ns = {5, 6}, .wrong = {}});
  call.client.send_done();
  call.exchange();
  EXPECT_EQ(call.peer.failure(), "");
  EXPECT_TRUE(call.peer.finished());
  EXPECT_EQ(recorder.results, (std::vector<std::pair<uint32_t, uint64_t>>{{0, 400000}}));
}

TEST(WholeNode, TwoProgramsMeetThroughTheirPeers) {
  Recorder recorder;
  Call<NodeClient> one({tree_offer(0, {0, 2}), tree_offer(2, {0, 2})},
                       NodeClient("", address_of(0)), recorder);
  Call<NodeClient> other({tree_offer(0, {0, 2}), tree_offer(2, {0, 2})},
                         NodeClient("j", address_of(2)), recorder);
  one.exchange();
  connect_all(one.client, 0);
  one.exchange();
  EXPECT_FALSE(one.client.all_connected());
  EXPECT_EQ(one.peer.waits(), 3u);
  EXPECT_FALSE(one.peer.meet());
  other.exchange();
  connect_all(other.client, 2);
  other.exchange();
  EXPECT_TRUE(other.client.all_connected()) << other.client.failure() << other.peer.failure();
  EXPECT_TRUE(one.peer.meet());
  one.exchange();
  ASSERT_TRUE(one.client.all_connected()) << one.client.failure();
  const auto& links = one.client.job()->links;
  for (size_t l = 0; l < links.size(); ++l) {
    const RingLinkEnd& theirs = *one.client.connected()[l];
    EXPECT_EQ(theirs.gid, links[l].remote.front());
    if (links[l].peer_rank != 2) continue;
    EXPECT_LT(theirs.qpn, 0x40u);  // the program's own
  }
  one.client.send_ready();
  one.exchange();
  EXPECT_FALSE(one.client.peer_ready());  // the other one is not
  other.client.send_ready();
  other.exchange();
  EXPECT_EQ(recorder.ready, (std::set<uint32_t>{0, 2}));
  one.peer.begin();
  one.exchange();
  EXPECT_TRUE(one.client.peer_ready());
}

TEST(WholeNode, OneThatIsGoneIsMissed) {
  Recorder jobs;
  RingWatch watch(jobs);
  Call<NodeClient> one({tree_offer(0, {0, 2})}, NodeClient("", address_of(0)), watch);
  Call<NodeClient> other({tree_offer(2, {0, 2})}, NodeClient("", address_of(2)), watch);
  one.exchange();
  connect_all(one.client, 0);
  one.exchange();
  other.exchange();
  other.peer.on_closed(Time());
  ASSERT_TRUE(one.peer.waits());
  const auto why = watch.why_not(*one.peer.waits());
  ASSERT_TRUE(why);
  one.peer.call_off(*why);
  one.exchange();
  EXPECT_NE(one.client.failure().find("rank 2 has gone"), std::string::npos);
}

std::string after_hello(std::vector<RingOffer> offers, NodeClient client) {
  Recorder recorder;
  Call<NodeClient> call(std::move(offers), std::move(client), recorder);
  call.exchange();
  return call.client.failure();
}

TEST(WholeNode, MistakesHaveTheirSentences) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(after_hello({tree_offer(0, {0})}, NodeClient("other", address_of(0))), "is called \"other\"");
  has(after_hello({tree_offer(0, {0})}, NodeClient("", address_of(2))),
      "no job in which 10.9.0.4 has a rank and 10.9.0.3 is a real node");
  has(after_hello({tree_offer(0, {0}), tree_offer(0, {0})}, NodeClient("", address_of(0))),
      "more than one job (name one)");
  has(after_hello({ring_offer()}, NodeClient("", address_of(0))),
      "job \"ring\" is a ring all-reduce, whose rank calls both of its neighbours");

  Recorder recorder;
  Call<RingClient> neighbour({tree_offer(0, {0})}, RingClient("", address_of(0)), recorder);
  neighbour.exchange();
  has(neighbour.client.failure(), "job \"j\" is no plain ring all-reduce");
  has(neighbour.client.failure(), "--peer");

  RingPeer peer(address_of(3), {tree_offer(0, {0})}, recorder);
  std::vector<uint8_t> old;
  RingHelloMessage hello;
  hello.version = 1;
  hello.address = address_of(0);
  append_ring_oob(hello, old);
  peer.on_bytes(Time(), old);
  has(peer.failure(), "client speaks version 1, this is version 2");
}

TEST(WholeNode, WrongConnectsAreRefused) {
  const auto failure = [](auto change) {
    Recorder recorder;
    RingPeer peer(address_of(3), {tree_offer(0, {0})}, recorder);
    NodeClient client("", address_of(0));
    peer.on_bytes(Time(), client.take_output());
    client.on_bytes(peer.take_output());
    const NodeJobMessage::Link& link = client.job()->links.front();
    RingConnectMessage m;
    m.channel = link.channel;
    m.direction = link.client_sends ? RingDirection::kClientSends : RingDirection::kPeerSends;
    m.of = RingLinkEnd::Ranks{link.rank, link.peer_rank, link.index};
    m.qpn = 9;
    m.mtu = 4096;
    m.gid = address_of(0);
    m.fifo_address = link.client_sends ? 1 : 0;
    m.fifo_rkey = link.client_sends ? 1 : 0;
    change(m);
    std::vector<uint8_t> bytes;
    append_ring_oob(m, bytes);
    peer.on_bytes(Time(), bytes);
    peer.on_bytes(Time(), bytes);
    return peer.failure();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(failure([](auto& m) { m.of->peer_rank = 0; }), "the job has no such link");
  has(failure([](auto& m) { m.of->index = 1; }), "the job has no such link");
  has(failure([](auto& m) { m.of.reset(); }), "does not say between which ranks");
  has(failure([](auto& m) { m.gid = address_of(1); }), "is not that of the rank's NIC, 10.9.0.1");
  has(failure([](auto& m) { m.mtu = 1000; }), "is no path MTU");
  has(failure([](auto&) {}), "is connected already");
}

TEST(NodeJobMessage, SurvivesTheWire) {
  Operation v = operation(Collective::kAllToAllV);
  v.pair_bytes = {0, 5, UINT64_MAX, 7};
  Communicator c = communicator(2, 1, 2);
  c.version = NcclVersion{22};
  c.buffers.simple = 1 << 20;
  c.orders = {{0}};
  NodeJobMessage job = job_of(communicator(2, 1, 2), {{8, {operation(Collective::kReduce)}}}, 1);
  job.communicator = c;
  job.kinds.push_back({12, {v, operation(Collective::kScatter)}});
  job.by_iteration = true;
  job.inside_rate = Rate::bits_per_second(10);
  job.inside_latency = Duration::ps(11);
  job.traffic_class = 104;
  const EntryStep late{Duration::ps(1), false, Duration::ps(2), Duration::ps(3), Duration::ps(4)};
  job.steps = {{EntryStep{}, late}, 2};
  job.exact = true;
  job.seed = UINT64_MAX;
  job.program_ranks = {0, 1};
  std::vector<uint8_t> bytes;
  append_ring_oob(job, bytes);
  RingOobReader reader;
  reader.push(bytes);
  const auto read = reader.next();
  ASSERT_TRUE(read) << read.error().text;
  const auto& got = std::get<NodeJobMessage>(**read);
  EXPECT_EQ(got.communicator.version, c.version);
  EXPECT_EQ(got.communicator.buffers.simple, c.buffers.simple);
  EXPECT_EQ(got.communicator.orders, c.orders);
  EXPECT_EQ(got.node, 1u);
  ASSERT_EQ(got.kinds.size(), 2u);
  EXPECT_EQ(got.kinds[1].operations[0].pair_bytes, v.pair_bytes);
  EXPECT_EQ(got.kinds[1].operations[1].collective, Collective::kScatter);
  EXPECT_EQ(got.links, job.links);
  EXPECT_TRUE(got.exact);
  EXPECT_EQ(got.seed, job.seed);
  EXPECT_EQ(got.program_ranks, job.program_ranks);
  EXPECT_TRUE(got.by_iteration);
  EXPECT_EQ(got.inside_rate, job.inside_rate);
  EXPECT_EQ(got.inside_latency, job.inside_latency);
  EXPECT_EQ(got.traffic_class, 104);
  EXPECT_EQ(got.steps.first, job.steps.first);
  EXPECT_EQ(got.steps.per_iteration, 2u);
}

TEST(NodeJobMessage, OfAPeerThatTellsNoStepsIsRead) {
  std::vector<uint8_t> bytes;
  append_ring_oob(job_of(communicator(2), {{8, {operation(Collective::kAllReduce)}}}, 0), bytes);
  std::string text(bytes.begin() + 4, bytes.end());
  const size_t at = text.find("\"steps\":");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 7, "\"other\"");
  const auto read = parse_ring_oob({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_TRUE(std::get<NodeJobMessage>(*read).steps.first.empty());
}

TEST(NodeJobMessage, WrongFieldsAreNamed) {
  const auto failure = [](const std::string& from, const std::string& to) {
    std::vector<uint8_t> bytes;
    append_ring_oob(job_of(communicator(2), {{8, {operation(Collective::kAllReduce)}}}, 0), bytes);
    std::string text(bytes.begin() + 4, bytes.end());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    const auto read = parse_ring_oob({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    return read ? std::string() : read.error().text;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(failure("\"all_reduce\"", "\"all_reduced\""), "unknown word, \"all_reduced\"");
  has(failure("\"algorithm\":\"ring\"", "\"algorithm\":\"auto\""), "must be told");
  has(failure("\"gpus\":1", "\"gpus\":0"), "\"gpus\" must be an integer");
  has(failure("\"client_sends\":true", "\"client_sends\":1"), "must be true or false");
  has(failure("\"node\":0", "\"node\":2"), "\"node\" must be an integer in 0..1");
  has(failure("\"pair_bytes\":[]", "\"pair_bytes\":[1]"), "must name each pair of ranks");
  has(failure("\"steps_per_iteration\":1", "\"steps_per_iteration\":0"), "must be an integer");
  has(failure("\"steps\":[]", "\"steps\":[5]"), "must hold objects");
  has(failure("\"communicator\":{", "\"communicator\":5,\"x\":{"), "must be an object");
}

}  // namespace
}  // namespace understudy
