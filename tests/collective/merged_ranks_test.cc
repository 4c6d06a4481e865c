// Ranks whose messages go over several merged NICs: each part is a flow, and a message has come, is
// acknowledged or has its credit when all that it is made of, and all before it, has. What carries
// the flows here does so in any order.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {
namespace {

constexpr uint32_t kSender = 0, kReceiver = 1;

/// Knows which flows have started, and tells of them when it is asked to.
struct AnyOrder final : FlowCarrier {
  void hold(uint32_t flow) override { held.insert(flow); }
  void listen(FlowListener& l) override { listener = &l; }
  void release(uint32_t flow, Time) override {
    EXPECT_EQ(held.erase(flow), 1U) << "leaves once";
    started.push_back(flow);
  }
  void wake_listener(Time at, uint32_t index) override { wakes.emplace_back(at, index); }

  FlowListener* listener = nullptr;
  std::set<uint32_t> held;
  std::vector<uint32_t> started;
  std::vector<std::pair<Time, uint32_t>> wakes;
};

/// Rank 0 sends to rank 1, which somebody else plays.
class Sending : public PacketLevelRanks {
 public:
  Sending(std::vector<RankOperation> operations, const MessageWays& ways)
      : PacketLevelRanks(std::move(operations), {}, {true, false}) {
    add_flows(
        flows, [&](const Connection&) { return ways; }, 0);
    attach(carrier);
    record();
    start();
    while (!carrier.wakes.empty()) {  // its entry
      const auto [at, index] = carrier.wakes.back();
      carrier.wakes.pop_back();
      on_wake(index, at);
    }
  }
  void grant(uint64_t k) { other_grants(0, kReceiver, 0, k, Time()); }

  AnyOrder carrier;
  std::vector<FlowSpec> flows;
  uint32_t heard = 0;

 private:
  void other_received(uint32_t, uint32_t, uint32_t, Time) override { ++heard; }
};

std::vector<RankOperation> one_way(uint64_t bytes) {
  Communicator communicator;
  communicator.nodes = 2;
  communicator.channels_per_peer = 1;
  Operation operation;
  operation.collective = Collective::kScatter;
  operation.type = DataType::kInt8;
  operation.count = bytes;
  std::vector<RankOperation> out(1);
  for (uint32_t r = 0; r < 2; ++r) {
    out[0].ranks.push_back(rank_schedule(communicator, operation, {}, r));
  }
  return out;
}

/// Of messages whose flows are done, as many as are before the first one that lacks one.
uint64_t in_front(const std::vector<uint32_t>& done, uint32_t parts) {
  uint64_t k = 0;
  while (k < done.size() && done[k] == parts) ++k;
  return k;
}

TEST(MergedRanks, AMessageIsThereWithTheLastOfItsParts) {
  std::mt19937 random(11);
  const VertexId nics[] = {10, 11, 12, 13, 20, 21, 22, 23};
  for (unsigned i = 0; i < 200; ++i) {
    const auto out = static_cast<uint32_t>(1 + random() % 4);
    const auto in = static_cast<uint32_t>(out == 1 ? 2 + random() % 3 : 1 + random() % 4);
    const uint32_t parts = std::max(out, in);
    const uint64_t bytes = 1 + random() % 3'000'000;
    SCOPED_TRACE(std::to_string(out) + " to " + std::to_string(in) + " NICs, " +
                 std::to_string(bytes) + " bytes");
    const MessageWays ways = message_ways({nics, out}, {nics + 4, in});
    Sending ranks(one_way(bytes), ways);
    const std::vector<Connection>& connections = ranks.schedule(0, kSender).connections();
    ASSERT_EQ(connections.size(), 1U);
    const auto messages = static_cast<uint32_t>(connections[0].messages);
    ASSERT_EQ(ranks.parts(0, kSender, 0), parts);
    ASSERT_EQ(ranks.flows.size(), size_t{messages} * (parts + 1));

    // What each flow is.
    struct What {
      uint32_t k = 0;
      bool credit = true;
    };
    std::vector<What> what(ranks.flows.size());
    uint64_t sum = 0;
    for (uint32_t k = 0; k < messages; ++k) {
      const uint64_t whole = ranks.schedule(0, kSender).message(0, k).wire;
      uint64_t of_message = 0;
      for (uint32_t part = 0; part < parts; ++part) {
        const uint32_t flow = ranks.flow_of(0, kSender, 0, k, part);
        what[flow] = {k, false};
        EXPECT_EQ(ranks.flows[flow].from, nics[part % out]);
        EXPECT_EQ(ranks.flows[flow].to, nics[4 + part % in]);
        of_message += ranks.flows[flow].bytes;
      }
      EXPECT_EQ(of_message, whole);
      sum += of_message;
    }
    EXPECT_EQ(sum, bytes);
    uint32_t next = 0;
    for (uint32_t flow = 0; flow < what.size(); ++flow) {
      if (!what[flow].credit) continue;
      const uint32_t k = what[flow].k = next++;
      EXPECT_EQ(ranks.flows[flow].from, nics[4 + k % in]) << "each NIC of the receiver in turn";
      EXPECT_EQ(ranks.flows[flow].to, nics[k % in % out]);
    }
    EXPECT_EQ(next, messages);

    // In any order; a receiver grants as far ahead as NCCL's.
    std::vector<uint32_t> credits(messages), came(messages), acknowledged(messages);
    std::vector<uint32_t> on_way, to_acknowledge;
    uint64_t granted = 0, posted = 0;
    const auto take_one = [&](std::vector<uint32_t>& from) {
      std::swap(from[random() % from.size()], from.back());
      const uint32_t flow = from.back();
      from.pop_back();
      return flow;
    };
    while (in_front(acknowledged, parts) < messages) {
      while (granted < std::min<uint64_t>(messages, ranks.heard + connections[0].window)) {
        ranks.grant(granted++);
      }
      for (const uint32_t flow : ranks.carrier.started) {
        if (!what[flow].credit) {
          EXPECT_LT(what[flow].k, in_front(credits, 1)) << "its credit, and all before it, came";
          ++posted;
        }
        on_way.push_back(flow);
      }
      ranks.carrier.started.clear();
      const bool acks = on_way.empty() || (!to_acknowledge.empty() && random() % 2 == 0);
      ASSERT_FALSE(acks && to_acknowledge.empty()) << "nothing is left, and not all has come";
      if (acks) {
        const uint32_t flow = take_one(to_acknowledge);
        if (!what[flow].credit) ++acknowledged[what[flow].k];
        ranks.on_acknowledged(flow, Time());
        const uint64_t most = in_front(acknowledged, parts) + connections[0].window;
        EXPECT_LE(ranks.moments(0, kSender, 0).size(), most);
        continue;
      }
      const uint32_t flow = take_one(on_way);
      if (what[flow].credit) {
        ++credits[what[flow].k];
      } else {
        ++came[what[flow].k];
      }
      to_acknowledge.push_back(flow);
      ranks.on_received(flow, Time());
      EXPECT_EQ(ranks.heard, in_front(came, parts));
    }
    EXPECT_TRUE(ranks.finished());
    EXPECT_EQ(ranks.heard, messages);
    EXPECT_EQ(posted, uint64_t{messages} * parts);
  }
}

}  // namespace
}  // namespace understudy
