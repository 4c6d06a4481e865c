// Random early marking by switches: which packets, how many of them, and never one that is not
// ECN-capable (rule A6.1).
#include <cmath>

#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

constexpr uint32_t kPackets = 3000;  ///< of each sender
constexpr uint32_t kBytes = 1000;

/// Two senders at one receiver behind a slow link; the first one's packets are ECN-capable.
class Burst final : public NetworkEnds {
 public:
  Burst(const Graph& graph, const NetworkSettings& settings) : network_(graph, settings, *this) {
    for (unsigned i = 0; i < 2; ++i) paths_[i] = path_of(graph, {numbered("h", i), "s", "h2"});
  }
  void run() {
    for (const auto& path : paths_) network_.ready(path[0], Time::zero());
    while (!network_.next().is_never()) network_.step();
  }
  PacketId pull(LinkId nic, uint8_t, Time) override {
    const unsigned i = nic == paths_[0][0] ? 0 : 1;
    if (sent_[i] == kPackets) return kNoPacketId;
    ++sent_[i];
    const PacketId id = network_.take();
    NetPacket& p = network_[id];
    p.way = Way::along(paths_[i].data());
    p.ect = i == 0;
    p.wire_bytes = p.buffer_bytes = kBytes;
    p.flow = i;
    return id;
  }
  void deliver(PacketId id, Time) override {
    ++come[network_[id].flow];
    if (network_[id].ce) ++marked[network_[id].flow];
    network_.release(id);
  }
  void lost(PacketId, PacketLoss, Time) override { ADD_FAILURE(); }
  void wake(uint32_t, Time) override {}

  const NetworkLinkCounters& bottleneck() const { return network_.counters(paths_[0][1]); }
  unsigned come[2] = {}, marked[2] = {};

 private:
  Network network_;
  std::vector<LinkId> paths_[2];
  unsigned sent_[2] = {};
};

Graph slow_star() {
  Graph g;
  const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  for (unsigned i = 0; i < 3; ++i) {
    const Rate rate = Rate::bits_per_second(i == 2 ? 100'000'000 : 400'000'000'000);
    g.connect(g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}), s, rate,
              Duration::ns(100));
  }
  return g;
}

NetworkSettings marking(uint64_t kmin, uint64_t kmax, double pmax) {
  NetworkSettings s;
  s.classes = {ClassSettings{}};
  s.classes[0].ecn = {{Rate::unlimited(), kmin, kmax, pmax}};
  return s;
}

// rules: A6.1
TEST(NetworkMarks, TheShareFollowsTheQueue) {
  // All have come before the first few are gone: behind the i-th there are the others.
  constexpr uint64_t kKmin = 1'000'000, kKmax = 4'000'000;
  for (const double pmax : {0.05, 0.5, 1.0}) {
    SCOPED_TRACE(pmax);
    const Graph g = slow_star();
    const NetworkSettings s = marking(kKmin, kKmax, pmax);
    Burst burst(g, s);
    burst.run();
    double expected = 0, variance = 0, sure = 0;
    for (uint32_t i = 0; i < 2 * kPackets; ++i) {
      const double q = (2.0 * kPackets - i - 1) * kBytes;
      const double p = q > kKmax ? 1 : q <= kKmin ? 0 : pmax * (q - kKmin) / (kKmax - kKmin);
      expected += p;
      variance += p * (1 - p);
      sure += p == 1 ? 1 : 0;
    }
    const double both = static_cast<double>(burst.bottleneck().marked + burst.bottleneck().not_ect);
    EXPECT_LT(std::abs(both - expected), 4.5 * std::sqrt(variance) + 3);
    EXPECT_GT(sure, 1000);
    EXPECT_EQ(burst.come[0], kPackets);
    EXPECT_EQ(burst.come[1], kPackets);
    // Those that would have been marked are counted instead.
    EXPECT_EQ(burst.marked[0], burst.bottleneck().marked);
    EXPECT_EQ(burst.marked[1], 0u);
    // The senders take turns, so that half of all are the one's.
    EXPECT_NEAR(burst.marked[0], expected / 2, 4.5 * std::sqrt(variance / 2) + 3);
  }
}

// rules: A6.1
TEST(NetworkMarks, AboveAStepAllAndBelowItNone) {
  const Graph g = slow_star();
  const NetworkSettings s = marking(2'000'000, 2'000'000, 1);
  Burst burst(g, s);
  burst.run();
  // 3,999 packets leave 2,000 or more behind them; the one with exactly so many is below the step.
  const uint64_t both = burst.bottleneck().marked + burst.bottleneck().not_ect;
  EXPECT_NEAR(static_cast<double>(both), 3999, 1);
  EXPECT_EQ(burst.marked[1], 0u);
}

TEST(NetworkMarks, WithoutThresholdsNone) {
  const Graph g = slow_star();
  NetworkSettings s = marking(0, 0, 1);
  s.classes[0].ecn.clear();
  Burst burst(g, s);
  burst.run();
  EXPECT_EQ(burst.bottleneck().marked + burst.bottleneck().not_ect, 0u);
}

}  // namespace
}  // namespace understudy
