// Losses and marks are drawn by link and packet: what happens on other links changes none of them.
#include "dataplane/fabric/keyed_draw.h"

#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

const Rate k100G = Rate::bits_per_second(100'000'000'000);

/// h0 and h1 send to h2, h3 and h4 to h5, each three behind a switch of their own. Links to h2 and
/// h5 lose packets.
Graph two_stars() {
  Graph g;
  for (unsigned i = 0; i < 2; ++i) {
    const VertexId s = g.add_vertex({VertexKind::kSwitch, numbered("s", i), 0, 0, 1});
    for (unsigned k = 0; k < 3; ++k) {
      const unsigned host = 3 * i + k;
      const VertexId h = g.add_vertex({VertexKind::kNic, numbered("h", host), host, 0, 0});
      const LinkId up = g.connect(h, s, k100G, Duration::us(1));
      if (k == 2) g.link(reverse(up)).loss = 0.01;
    }
  }
  return g;
}

std::vector<FlowSpec> senders(const Graph& g, unsigned star, Duration start) {
  std::vector<FlowSpec> flows;
  for (unsigned k = 0; k < 2; ++k) {
    flows.push_back(
        flow_of(g, {numbered("h", 3 * star + k), numbered("s", star), numbered("h", 3 * star + 2)},
                4'000'000, start));
  }
  return flows;
}

NetworkSettings marking() {
  NetworkSettings s = store_and_forward(64 << 20, 1 << 20);
  s.classes[0].ecn = {{Rate::unlimited(), 100'000, 4'000'000, 0.5}};
  return s;
}

/// What becomes of the first star's flows beside the second one's, if those are there.
std::vector<FlowResult> results_beside(const std::vector<FlowSpec>& others) {
  const Graph g = two_stars();
  std::vector<FlowSpec> flows = senders(g, 0, {});
  flows.insert(flows.end(), others.begin(), others.end());
  FlowSettings f = bare();
  f.timeout = Duration::us(50);
  FlowRun r(g, flows, marking(), f);
  r.drain();
  EXPECT_TRUE(r.traffic.all_finished());
  return {r.traffic.results().begin(), r.traffic.results().begin() + 2};
}

TEST(KeyedDraws, AnotherStarChangesNoLossAndNoMark) {
  const Graph g = two_stars();
  const std::vector<FlowResult> alone = results_beside({});
  for (const Duration start : {Duration(), Duration::ns(100), Duration::us(20)}) {
    const std::vector<FlowResult> beside = results_beside(senders(g, 1, start));
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_GT(alone[i].lost, 0u);
      EXPECT_GT(alone[i].marked, 0u);
      EXPECT_EQ(beside[i].lost, alone[i].lost);
      EXPECT_EQ(beside[i].marked, alone[i].marked);
      EXPECT_EQ(beside[i].acknowledged, alone[i].acknowledged);
    }
  }
}

/// The share of `count` draws that say yes; `key(i)` is the place of the i-th.
template <typename Key>
double share(uint64_t count, double probability, const Key& key) {
  uint64_t yes = 0;
  for (uint64_t i = 0; i < count; ++i) yes += key(i, probability) ? 1 : 0;
  return static_cast<double>(yes) / static_cast<double>(count);
}

TEST(KeyedDraws, EveryPartOfTheKeyMakesADrawOfItsOwn) {
  const auto by_number = [](uint64_t i, double p) {
    return keyed_draw(1, DrawKind::kMark, 3, 0, i, p);
  };
  const auto by_link = [](uint64_t i, double p) {
    return keyed_draw(1, DrawKind::kMark, static_cast<LinkId>(i), 0, 5, p);
  };
  const auto by_seed = [](uint64_t i, double p) {
    return keyed_draw(i, DrawKind::kLoss, 3, 1, 5, p);
  };
  for (const double p : {0.0, 0.01, 0.3, 1.0}) {
    EXPECT_NEAR(share(100'000, p, by_number), p, 0.006);
    EXPECT_NEAR(share(100'000, p, by_link), p, 0.006);
    EXPECT_NEAR(share(100'000, p, by_seed), p, 0.006);
  }
  // Sequences of draws that differ in one part agree as often as chance has it.
  const auto agree = [&](uint64_t seed, DrawKind kind, LinkId link, unsigned cls) {
    return share(10'000, 0.5, [&](uint64_t i, double p) {
      return keyed_draw(1, DrawKind::kMark, 3, 0, i, p) == keyed_draw(seed, kind, link, cls, i, p);
    });
  };
  EXPECT_EQ(agree(1, DrawKind::kMark, 3, 0), 1);
  EXPECT_NEAR(agree(2, DrawKind::kMark, 3, 0), 0.5, 0.03);
  EXPECT_NEAR(agree(1, DrawKind::kLoss, 3, 0), 0.5, 0.03);
  EXPECT_NEAR(agree(1, DrawKind::kMark, 2, 0), 0.5, 0.03);
  EXPECT_NEAR(agree(1, DrawKind::kMark, 3, 1), 0.5, 0.03);
}

}  // namespace
}  // namespace understudy
