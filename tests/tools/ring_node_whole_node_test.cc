// ring_node as a whole node, without verbs: what it and the peer say to each other, and whole jobs
// of nodes whose queue pairs are replaced by memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ctrl/peers/ring/ring_peer.h"
#include "ctrl/peers/ring/ring_watch.h"
#include "tools/rigs/ring_node/ring/oob.h"
#include "tools/rigs/ring_node/whole_node/node_client.h"
#include "tools/rigs/ring_node/whole_node/node_ranks.h"
#include "tools/rigs/ring_node/whole_node/node_schedule.h"

namespace understudy {
namespace {

IpAddress address_of(uint32_t node) {
  return *IpAddress::parse("10.9.0." + std::to_string(node + 1));
}

Communicator communicator(uint32_t nodes, uint32_t gpus = 1, uint32_t channels = 1) {
  Communicator c;
  c.nodes = nodes;
  c.gpus = gpus;
  c.channels = channels;
  return c;
}

Operation operation(Collective collective, Algorithm algorithm = Algorithm::kRing,
                    Protocol protocol = Protocol::kSimple, uint64_t count = 100000) {
  Operation o;
  o.collective = collective;
  o.algorithm = algorithm;
  o.protocol = protocol;
  o.count = count;
  return o;
}

/// With all links that the operations of its ranks have.
NodeJobMessage job_of(const Communicator& c, std::vector<NodeJobMessage::Kind> kinds,
                      uint32_t node) {
  NodeJobMessage job;
  job.name = "j";
  job.communicator = c;
  job.node = node;
  job.kinds = std::move(kinds);
  job.iterations = 2;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>, NodeJobMessage::Link> links;
  for (const NodeJobMessage::Kind& kind : job.kinds) {
    for (const Operation& o : kind.operations) {
      OperationCut cut;
      if (!is_p2p(o.collective)) cut = cut_group(c, std::span(&o, 1))->front();
      for (uint32_t rank = node * c.gpus; rank < (node + 1) * c.gpus; ++rank) {
        const auto schedule = rank_schedule(c, o, cut, rank);
        for (const Connection& used : schedule->connections()) {
          if (!used.network) continue;
          const bool sends = used.direction == Direction::kSend;
          const uint32_t peer = sends ? used.to : used.from;
          auto& link = links[{used.from, used.to, used.channel, used.index}];
          link.rank = rank;
          link.peer_rank = peer;
          link.channel = used.channel;
          link.index = used.index;
          link.client_sends = sends;
          link.slots = std::max(link.slots, used.window);
          link.slot_bytes = std::max(link.slot_bytes, used.capacity);
          link.local = address_of(node);
          link.remote = address_of(c.node_of(peer));
        }
      }
    }
  }
  for (const auto& [key, link] : links) job.links.push_back(link);
  return job;
}

// --- Nodes and memory instead of queue pairs ---

/// All nodes of a communicator, each a NodeRanks. What is sent arrives, and is acknowledged, in an
/// order that a seed draws; each link keeps its own.
class Nodes {
 public:
  Nodes(const Communicator& c, const std::vector<NodeJobMessage::Kind>& kinds, uint32_t seed)
      : random_(seed) {
    for (uint32_t n = 0; n < c.nodes; ++n) {
      auto node = std::make_unique<Node>();
      node->job = job_of(c, kinds, n);
      auto made = node_kinds(node->job);
      EXPECT_TRUE(made) << made.error().text;
      if (made) node->kinds = std::move(*made);
      nodes_.push_back(std::move(node));
    }
    for (uint32_t n = 0; n < c.nodes; ++n) make_links(n);
    join_links();
    for (auto& node : nodes_) {
      std::vector<MessageLink*> links;
      for (auto& link : node->links) links.push_back(link.get());
      node->ranks = std::make_unique<NodeRanks>(node->job, node->kinds, std::move(links));
    }
  }

  /// All nodes in operations of each kind in turn, one of them before all others now and then.
  void run(uint32_t operations) {
    std::vector<uint32_t> done(nodes_.size(), 0);
    std::vector<bool> inside(nodes_.size(), false);
    for (uint64_t turn = 0; turn < 10'000'000; ++turn) {
      bool all = true, moved = false;
      for (uint32_t n = 0; n < nodes_.size(); ++n) {
        NodeRanks& ranks = *nodes_[n]->ranks;
        if (inside[n] && ranks.done()) {
          inside[n] = false;
          ++done[n];
          moved = true;
        }
        if (!inside[n] && done[n] < operations) {
          const auto kind = static_cast<uint32_t>(done[n] % nodes_[n]->kinds.size());
          ASSERT_TRUE(ranks.start(kind, now_));
          inside[n] = moved = true;
        }
        const auto progressed = ranks.progress(now_);
        ASSERT_TRUE(progressed) << progressed.error().text;
        moved = moved || *progressed;
        all = all && done[n] == operations;
      }
      moved = deliver() || moved;
      if (HasFatalFailure()) return;
      if (all && nothing_under_way()) return;
      now_ += Duration::us(1);
      idle_ = moved ? 0 : idle_ + 1;
      ASSERT_LT(idle_, 100u) << "nothing moves; node 0 " << nodes_[0]->ranks->waiting_for();
    }
    FAIL() << "it does not end";
  }

  void expect_idle() const {
    for (const auto& node : nodes_) EXPECT_TRUE(node->ranks->idle());
  }
  uint64_t messages() const { return messages_; }
  NodeRanks& ranks(uint32_t node) { return *nodes_[node]->ranks; }

 private:
  static bool HasFatalFailure() { return testing::Test::HasFatalFailure(); }

  struct Link final : MessageLink {
    Result<void> grant(uint64_t k, uint32_t capacity) override {
      far->credits[k] = {.address = 1 + k,
                         .size = capacity,
                         .rkeys = {7},
                         .nreqs = 1,
                         .tag = sender,
                         .idx = k + 1,
                         .padding = {}};
      return {};
    }
    const CreditEntry* credit(uint64_t k) override {
      const auto found = credits.find(k);
      return found == credits.end() ? nullptr : &found->second;
    }
    Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override {
      EXPECT_EQ(credit.idx, k + 1);
      wire.push_back(bytes);
      return {};
    }
    Link* far = nullptr;
    uint32_t node = 0, number = 0, sender = 0;
    std::map<uint64_t, CreditEntry> credits;
    std::deque<uint32_t> wire;  ///< messages on their way
    uint32_t unacknowledged = 0;
  };
  struct Node {
    NodeJobMessage job;
    std::vector<NodeKind> kinds;
    std::vector<std::unique_ptr<Link>> links;
    std::unique_ptr<NodeRanks> ranks;
  };

  void make_links(uint32_t n) {
    for (uint32_t l = 0; l < nodes_[n]->job.links.size(); ++l) {
      const NodeJobMessage::Link& of = nodes_[n]->job.links[l];
      auto link = std::make_unique<Link>();
      link->node = n;
      link->number = l;
      link->sender = of.client_sends ? of.rank : of.peer_rank;
      nodes_[n]->links.push_back(std::move(link));
    }
  }

  void join_links() {
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>, Link*> senders;
    for (auto& node : nodes_) {
      for (size_t l = 0; l < node->links.size(); ++l) {
        const auto& of = node->job.links[l];
        if (!of.client_sends) continue;
        senders[{of.rank, of.peer_rank, of.channel, of.index}] = node->links[l].get();
        all_.push_back(node->links[l].get());
      }
    }
    for (auto& node : nodes_) {
      for (size_t l = 0; l < node->links.size(); ++l) {
        const auto& of = node->job.links[l];
        if (of.client_sends) continue;
        Link* sender = senders[{of.peer_rank, of.rank, of.channel, of.index}];
        ASSERT_NE(sender, nullptr);
        sender->far = node->links[l].get();
        node->links[l]->far = sender;
      }
    }
  }

  bool nothing_under_way() const {
    return std::ranges::all_of(
        all_, [](const Link* link) { return link->wire.empty() && link->unacknowledged == 0; });
  }

  bool deliver() {
    bool any = false;
    for (size_t tries = 0; tries < all_.size(); ++tries) {
      Link& link = *all_[random_() % all_.size()];
      if (!link.wire.empty() && random_() % 2 == 0) {
        const uint32_t bytes = link.wire.front();
        link.wire.pop_front();
        ++link.unacknowledged;
        ++messages_;
        const auto taken =
            nodes_[link.far->node]->ranks->on_received(link.far->number, bytes, now_);
        EXPECT_TRUE(taken) << taken.error().text;
        any = true;
      } else if (link.unacknowledged > 0) {
        --link.unacknowledged;
        nodes_[link.node]->ranks->on_sent(link.number, now_);
        any = true;
      }
    }
    return any;
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Link*> all_;  ///< of senders
  Time now_;
  uint64_t messages_ = 0, idle_ = 0;
};

struct Case {
  std::string name;
  Communicator communicator;
  std::vector<Operation> operations;
};

std::vector<Case> cases() {
  using enum Collective;
  Communicator two_gpus = communicator(3, 2, 2);
  two_gpus.nics = 2;
  std::vector<Case> all = {
      {"tree", communicator(5), {operation(kAllReduce, Algorithm::kTree)}},
      {"tree by LL", communicator(6), {operation(kAllReduce, Algorithm::kTree, Protocol::kLL)}},
      {"PAT", communicator(7), {operation(kAllGather, Algorithm::kPat)}},
      {"ring by LL128",
       communicator(4, 1, 2),
       {operation(kAllGather, Algorithm::kRing, Protocol::kLL128)}},
      {"broadcast over channels", communicator(4, 1, 3), {operation(kBroadcast)}},
      {"all to all", communicator(5, 1, 2), {operation(kAllToAll)}},
      {"send and receive", communicator(3), {operation(kSendRecv)}},
      {"gather", communicator(4), {operation(kGather)}},
      {"two GPUs", two_gpus, {operation(kAllReduce, Algorithm::kTree), operation(kAllToAll)}},
  };
  return all;
}

TEST(NodeRanks, CarryOutWholeJobsInAnyOrder) {
  for (const Case& c : cases()) {
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(c.name + ", seed " + std::to_string(seed));
      std::vector<NodeJobMessage::Kind> kinds;
      for (const Operation& o : c.operations) kinds.push_back({o.bytes(), {o}});
      Nodes nodes(c.communicator, kinds, seed);
      nodes.run(6);
      if (HasFatalFailure()) return;
      nodes.expect_idle();
      EXPECT_GT(nodes.messages(), 6u);
    }
  }
}

TEST(NodeRanks, AGroupIsOneOperation) {
  std::vector<Operation> group = {
      operation(Collective::kAllReduce, Algorithm::kRing, Protocol::kSimple, 1000),
      operation(Collective::kAllReduce, Algorithm::kRing, Protocol::kSimple, 100000)};
  Nodes nodes(communicator(3, 1, 2), {{404000, group}}, 1);
  nodes.run(3);
  nodes.expect_idle();
}

TEST(NodeRanks, WaysInsideTakeTheirTime) {
  Communicator c = communicator(1, 2);
  NodeJobMessage job = job_of(c, {{0, {operation(Collective::kAllReduce)}}}, 0);
  job.inside_rate = Rate::bits_per_second(8'000'000'000);
  job.inside_latency = Duration::us(3);
  const auto kinds = node_kinds(job);
  ASSERT_TRUE(kinds) << kinds.error().text;
  NodeRanks ranks(job, *kinds, {});
  ASSERT_TRUE(ranks.takes_time());
  Time now;
  ASSERT_TRUE(ranks.start(0, now));
  EXPECT_FALSE(ranks.done());
  // Two ranks, each sends the 400,000 bytes once, at 1 GB/s.
  while (!ranks.done() && now < Time::zero() + Duration::ms(10)) {
    now += Duration::ns(100);
    ASSERT_TRUE(ranks.progress(now));
  }
  EXPECT_GT(now - Time::zero(), Duration::us(400));
  EXPECT_LT(now - Time::zero(), Duration::us(450));
}

/// A link of one node alone, by which nothing comes back by itself.
struct Mute final : MessageLink {
  Result<void> grant(uint64_t, uint32_t) override {
    ++granted;
    return {};
  }
  const CreditEntry* credit(uint64_t) override { return has_credit ? &entry : nullptr; }
  Result<void> send(uint64_t, const CreditEntry&, uint32_t) override { return {}; }
  unsigned granted = 0;
  bool has_credit = false;
  CreditEntry entry = {};
};

TEST(NodeRanks, SaysWhatIsWrong) {
  const NodeJobMessage job = job_of(communicator(2), {{0, {operation(Collective::kSendRecv)}}}, 0);
  const auto kinds = node_kinds(job);
  ASSERT_TRUE(kinds);
  std::vector<Mute> mute(job.links.size());
  std::vector<MessageLink*> links;
  uint32_t sends = 0, receives = 0;
  for (uint32_t l = 0; l < mute.size(); ++l) {
    links.push_back(&mute[l]);
    (job.links[l].client_sends ? sends : receives) = l;
  }
  NodeRanks ranks(job, *kinds, links);
  EXPECT_NE(ranks.on_received(receives, 5, Time()).error().text.find("without a credit"),
            std::string::npos);
  ASSERT_TRUE(ranks.start(0, Time()));
  EXPECT_GT(mute[receives].granted, 0u);
  EXPECT_NE(ranks.waiting_for().find("the credit for message 0"), std::string::npos);
  EXPECT_NE(ranks.on_received(receives, 5, Time()).error().text.find("the schedule says"),
            std::string::npos);
  mute[sends].has_credit = true;
  mute[sends].entry = {.address = 1,
                       .size = 1,
                       .rkeys = {1},
                       .nreqs = 1,
                       .tag = job.links[sends].rank,
                       .idx = 1,
                       .padding = {}};
  EXPECT_NE(ranks.progress(Time()).error().text.find("room for 1 bytes"), std::string::npos);
}

TEST(NodeSchedule, RefusesWhatDoesNotFit) {
  NodeJobMessage job = job_of(communicator(4), {{0, {operation(Collective::kAllToAll)}}}, 1);
  const auto link = job.links.front();
  job.links.erase(job.links.begin());
  EXPECT_NE(node_kinds(job).error().text.find("names no link for rank"), std::string::npos);
  job.links.insert(job.links.begin(), link);
  job.links.front().slots = 0;
  EXPECT_NE(node_kinds(job).error().text.find("too little room"), std::string::npos);
  job.kinds = {{0, {operation(Collective::kAllReduce, Algorithm::kPat)}}};
  EXPECT_FALSE(node_kinds(job));  // NCCL has no such algorithm
}

// --- What is said ---

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
    EXPECT_EQ(request.local, expected.links[l].remote);
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
    EXPECT_EQ(theirs.gid, links[l].remote);
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
  has(neighbour.client.failure(), "job \"j\" is no ring all-reduce");
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
  EXPECT_TRUE(got.by_iteration);
  EXPECT_EQ(got.inside_rate, job.inside_rate);
  EXPECT_EQ(got.inside_latency, job.inside_latency);
  EXPECT_EQ(got.traffic_class, 104);
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
  has(failure("\"communicator\":{", "\"communicator\":5,\"x\":{"), "must be an object");
}

}  // namespace
}  // namespace understudy
