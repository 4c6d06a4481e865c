// ring_node's ranks as a whole node, without verbs: jobs of nodes whose queue pairs are replaced by
// memory.
#include <gtest/gtest.h>

#include <deque>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/rigs/node_jobs.h"
#include "tools/rigs/ring_node/whole_node/node_ranks.h"
#include "tools/rigs/ring_node/whole_node/node_schedule.h"

namespace understudy {
namespace {

/// All nodes of a communicator, each a NodeRanks. What is sent arrives, and is acknowledged, in an
/// order that a seed draws; each link keeps its own.
class Nodes {
 public:
  /// `seeds`: with values, the input seed of each node.
  Nodes(const Communicator& c, const std::vector<NodeJobMessage::Kind>& kinds, uint32_t seed,
        const std::vector<uint64_t>& seeds = {}, ReduceOp reduction = ReduceOp::kSum)
      : random_(seed) {
    for (uint32_t n = 0; n < c.nodes; ++n) {
      auto node = std::make_unique<Node>();
      node->job = job_of(c, kinds, n);
      node->job.exact = !seeds.empty();
      node->job.reduction = reduction;
      for (uint32_t rank = 0; rank < c.ranks(); ++rank) node->job.program_ranks.push_back(rank);
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
      if (!seeds.empty()) {
        const uint64_t own = seeds[node->job.node];
        node->values = std::make_unique<NodeValues>(node->job, node->kinds, own, true);
        EXPECT_EQ(node->values->why_not_verified(), "");
      }
      node->ranks =
          std::make_unique<NodeRanks>(node->job, node->kinds, std::move(links), node->values.get());
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
          if (nodes_[n]->values != nullptr) wrong_ += *nodes_[n]->values->wrong();
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
  uint64_t wrong() const { return wrong_; }
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
                         .idx = k + 1};
      return {};
    }
    const CreditEntry* credit(uint64_t k) override {
      const auto found = credits.find(k);
      return found == credits.end() ? nullptr : &found->second;
    }
    Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override {
      EXPECT_EQ(credit.idx, k + 1);
      std::copy_n(slot(k), bytes, far->slot(credit.address - 1));
      wire.push_back(bytes);
      return {};
    }
    std::byte* slot(uint64_t k) override {
      return memory.data() + k % slots * (memory.size() / slots);
    }
    Link* far = nullptr;
    uint32_t node = 0, number = 0, sender = 0;
    std::map<uint64_t, CreditEntry> credits;
    std::deque<uint32_t> wire;  ///< messages on their way
    uint32_t unacknowledged = 0;
    std::vector<std::byte> memory;  ///< of messages
    uint32_t slots = 1;
  };
  struct Node {
    NodeJobMessage job;
    std::vector<NodeKind> kinds;
    std::vector<std::unique_ptr<Link>> links;
    std::unique_ptr<NodeValues> values;
    std::unique_ptr<NodeRanks> ranks;
  };

  void make_links(uint32_t n) {
    for (uint32_t l = 0; l < nodes_[n]->job.links.size(); ++l) {
      const NodeJobMessage::Link& of = nodes_[n]->job.links[l];
      auto link = std::make_unique<Link>();
      link->node = n;
      link->number = l;
      link->sender = of.client_sends ? of.rank : of.peer_rank;
      link->slots = of.slots;
      link->memory.resize(size_t{of.slots} * of.slot_bytes);
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
  uint64_t messages_ = 0, idle_ = 0, wrong_ = 0;
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

TEST(NodeRanks, CarryTheirValues) {
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64,
                                 DataType::kFloat8E4m3};
  constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kProd};
  uint32_t number = 0;
  for (const Case& c : cases()) {
    const DataType type = kTypes[number % std::size(kTypes)];
    const ReduceOp reduction = kReductions[number % std::size(kReductions)];
    SCOPED_TRACE(c.name + ", " + std::string(name_of(kDataTypeNames, type)));
    std::vector<NodeJobMessage::Kind> kinds;
    for (Operation o : c.operations) {
      o.type = type;
      o.count = 20000 + number;
      kinds.push_back({o.bytes(), {o}});
    }
    const std::vector<uint64_t> seeds(c.communicator.nodes, 7);
    Nodes nodes(c.communicator, kinds, ++number, seeds, reduction);
    nodes.run(4);
    if (HasFatalFailure()) return;
    EXPECT_EQ(nodes.wrong(), 0u);
  }
}

TEST(NodeRanks, CarryTheValuesOfAGroup) {
  const std::vector<Operation> group = {
      operation(Collective::kAllGather, Algorithm::kRing, Protocol::kSimple, 1000),
      operation(Collective::kAllReduce, Algorithm::kRing, Protocol::kSimple, 9000)};
  Nodes nodes(communicator(3, 1, 2), {{40000, group}}, 1, {3, 3, 3});
  nodes.run(3);
  EXPECT_EQ(nodes.wrong(), 0u);
}

TEST(NodeRanks, AnotherNodesValuesAreFoundWrong) {
  const Operation o = operation(Collective::kAllGather, Algorithm::kRing, Protocol::kLL, 1000);
  Nodes nodes(communicator(3), {{o.bytes(), {o}}}, 1, {3, 3, 4});
  nodes.run(1);
  // Two nodes miss the third one's 1,000 values, the third one those of both.
  EXPECT_EQ(nodes.wrong(), 4 * 1000u);
}

TEST(NodeValues, SayWhyTheyAreNotVerified) {
  NodeJobMessage job = job_of(communicator(4), {{0, {operation(Collective::kAllToAll)}}}, 1);
  job.exact = true;
  job.program_ranks = {1, 2};
  const auto why_not = [&](bool shared) {
    const auto kinds = node_kinds(job);
    EXPECT_TRUE(kinds);
    return NodeValues(job, *kinds, 5, shared).why_not_verified();
  };
  EXPECT_NE(why_not(false).find("--input-seed"), std::string::npos);
  EXPECT_EQ(why_not(true), "");
  job.program_ranks = {1};
  EXPECT_EQ(why_not(false), "");
  job.kinds.front().operations.front().count = uint64_t{1} << 26;
  job.links = job_of(communicator(4), job.kinds, 1).links;
  EXPECT_NE(why_not(false).find("MiB"), std::string::npos);
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
  std::byte* slot(uint64_t) override { return nullptr; }
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
  mute[sends].entry = {
      .address = 1, .size = 1, .rkeys = {1}, .nreqs = 1, .tag = job.links[sends].rank, .idx = 1};
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
  EXPECT_NE(node_kinds(job).error().text.find("pat"), std::string::npos);  // not NCCL's
}

}  // namespace
}  // namespace understudy
