// ncclCommSplit and ncclCommShrink with emulated ranks beside reference ranks, in every release:
// who is in which child, as all ranks of a program would have it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "tests/rigs/nccl_rank/emulated_side.h"
#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {
namespace {

/// What a program's ranks say in one ncclCommSplit; or, of ncclCommShrink, who is left out.
struct Step {
  std::function<int(int rank)> color;
  std::function<int(int rank)> key = [](int rank) { return rank; };
  std::vector<int> excluded = {};
};

std::vector<int> child_of(const World& world, const Step& step, int rank) {
  std::vector<int> order;
  for (int r = 0; r < world.size(); ++r) {
    const bool out =
        std::find(step.excluded.begin(), step.excluded.end(), r) != step.excluded.end();
    if (step.color ? step.color(r) == step.color(rank) : !out) order.push_back(r);
  }
  if (step.color) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return step.key(a) < step.key(b); });
  }
  return order;
}

struct End {
  bool begins = false;
  size_t reached = 0;
};

struct Play {
  World world;
  std::vector<Step> steps;
  std::vector<RankPartition> groups = {};
  bool as_expected = true;  ///< children are those of the steps
  uint64_t seed = 1;
};

Task<> program(RealRank* rank, SocketAddress root, const Play* play, End* end) {
  Communicator* comm = co_await rank->init(root);
  for (const Step& step : play->steps) {
    Communicator* child = nullptr;
    std::vector<int> expected;
    if (step.color) {
      const int color = step.color(rank->rank());
      child = co_await rank->split(comm, color, step.key(rank->rank()));
      if (color < 0) continue;
    } else if (std::find(step.excluded.begin(), step.excluded.end(), rank->rank()) ==
               step.excluded.end()) {
      child = co_await rank->shrink(comm, step.excluded);
    } else {
      continue;
    }
    if (play->as_expected) {
      EXPECT_EQ(child->members.of, child_of(rank->world(), step, rank->rank()));
    }
  }
  rank->stand("its end");
  ++end->reached;
  co_await rank->until([end] { return end->begins; });
  rank->destroy_all();
  rank->close_all();
}

/// The emulated ranks' failure; all is well without one.
std::string play(const Play& p, std::vector<std::string>* said = nullptr) {
  MemoryNetwork network(p.seed, false);
  EmulatedSide emulated(p.world, network);
  emulated.set_groups(p.groups);
  std::vector<std::unique_ptr<RealRank>> reals;
  for (int r = 0; r < p.world.size(); ++r) {
    if (p.world.real(r)) reals.push_back(std::make_unique<RealRank>(p.world, network, r));
  }
  const SocketAddress root = reals[0]->start_root();
  End end;
  emulated.start(root);
  for (auto& rank : reals) rank->spawn(program(rank.get(), root, &p, &end));
  while (network.step()) {
  }
  if (said != nullptr) *said = emulated.said();
  if (!emulated.communicator().failure().empty()) return emulated.communicator().failure();
  EXPECT_EQ(end.reached, reals.size());
  end.begins = true;
  for (auto& rank : reals) rank->run();
  while (network.step()) {
  }
  for (auto& rank : reals) {
    EXPECT_EQ(rank->failure(), "") << "rank " << rank->rank();
    EXPECT_TRUE(rank->idle()) << "rank " << rank->rank() << " stands at " << rank->standing();
  }
  EXPECT_EQ(emulated.communicator().failure(), "");
  EXPECT_TRUE(emulated.communicator().finished());
  EXPECT_TRUE(emulated.connected().empty());
  return "";
}

constexpr int kNone = -1;

class NcclChildren : public testing::TestWithParam<size_t> {
 protected:
  nccl_decode::Release release() const { return nccl_decode::layouts()[GetParam()].release; }
  World world(int ranks, int per_node, const std::vector<int>& real) const {
    World w = make_world(ranks, per_node, real);
    w.release = release();
    return w;
  }
};

INSTANTIATE_TEST_SUITE_P(Nccl, NcclChildren,
                         testing::Range(size_t{0}, nccl_decode::layouts().size()),
                         [](const auto& info) {
                           std::string name = nccl_decode::layouts()[info.param].release.text();
                           for (char& c : name) c = c == '.' || c == ' ' ? '_' : c;
                           return name;
                         });

TEST_P(NcclChildren, FollowWhatTheRealRanksColorsShow) {
  const auto rank = [](int r) { return r; };
  const auto one = [](int) { return 0; };
  const struct {
    const char* what;
    int ranks, per_node;
    std::vector<int> real;
    Step step;
  } cases[] = {
      {"rails, first node", 32, 8, {0}, {[](int r) { return r % 8; }}},
      {"rails, a later node", 32, 8, {2}, {[](int r) { return r % 8; }}},
      {"rails, two nodes", 16, 4, {0, 2}, {[](int r) { return r % 4; }}},
      {"nodes", 32, 8, {2}, {[](int r) { return r / 8; }}},
      {"nodes, two of them real", 16, 4, {0, 2}, {[](int r) { return r / 4; }}},
      {"all", 32, 8, {1}, {one, rank}},
      {"all, keys reversed", 16, 8, {0}, {one, [](int r) { return 15 - r; }}},
      {"all, keys negative", 16, 8, {1}, {one, [](int r) { return -r; }}},
      {"all, keys alike", 16, 8, {1}, {one, one}},
      {"rails, keys reversed", 16, 4, {1}, {[](int r) { return r % 4; }, [](int r) { return -r; }}},
      {"rails, keys are nodes",
       16,
       4,
       {3},
       {[](int r) { return r % 4; }, [](int r) { return r / 4; }}},
      {"halves of the world", 16, 4, {1, 3}, {[](int r) { return r / 8; }}},
      {"halves, one node", 16, 4, {3}, {[](int r) { return r / 8; }}},
      {"halves of nodes", 32, 8, {1}, {[](int r) { return r / 4; }}},
      {"halves of nodes, together", 32, 8, {1}, {[](int r) { return r % 8 / 4; }}},
      {"one place has a child", 16, 8, {0}, {[](int r) { return r % 8 == 3 ? 5 : kNone; }}},
      {"some places have none", 16, 4, {1}, {[](int r) { return r % 4 < 2 ? kNone : r % 4; }}},
      {"pairs of nodes", 8, 1, {5}, {[](int r) { return r / 2; }}},
      {"a copy of one GPU a node", 5, 1, {1, 3}, {[](int) { return 9; }}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    EXPECT_EQ(play({world(c.ranks, c.per_node, c.real), {c.step}}), "");
  }
}

/// As PyTorch splits (distributed_c10d.py): for each new group all ranks call ncclCommSplit, with a
/// hash of its ranks as their color and their places as keys, or without a color. Hashes: Python's.
TEST_P(NcclChildren, PyTorchsColorsTellTheirRanks) {
  struct Group {
    std::vector<int> ranks;
    int color;
  };
  const std::vector<Group> groups = {
      {{0, 4, 8, 12}, 594338448},
      {{1, 5, 9, 13}, 2064644013},
      {{2, 6, 10, 14}, 2121794243},
      {{3, 7, 11, 15}, 1630367427},
      {{0, 1, 2, 3}, 2003953581},
      {{4, 5, 6, 7}, 728295930},
      {{8, 9, 10, 11}, 2062475300},
      {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1734919490},
      {{0, 4}, 923304772},
      {{4, 8}, 1789214518}};
  std::vector<Step> steps;
  for (const Group& g : groups) {
    const auto place = [g](int r) {
      return static_cast<int>(std::find(g.ranks.begin(), g.ranks.end(), r) - g.ranks.begin());
    };
    const auto inside = [g, place](int r) { return place(r) < static_cast<int>(g.ranks.size()); };
    steps.push_back({[=](int r) { return inside(r) ? g.color : kNone; },
                     [=](int r) { return inside(r) ? place(r) : 0; }});
  }
  for (const std::vector<int>& real : {std::vector<int>{0}, {1}, {0, 2}}) {
    EXPECT_EQ(play({world(16, 4, real), steps}), "");
  }
}

RankPartition parts(int ranks, const std::function<int(int)>& color) {
  std::map<int, std::vector<uint32_t>> by_color;
  for (int r = 0; r < ranks; ++r) by_color[color(r)].push_back(static_cast<uint32_t>(r));
  RankPartition partition;
  for (auto& [c, group] : by_color) partition.push_back(std::move(group));
  return partition;
}

/// On the first node colors by rank and by place are the same: the configuration tells.
TEST_P(NcclChildren, AreAsTheConfigurationSays) {
  const std::vector<Step> steps = {{[](int r) { return r / 8; }},
                                   {[](int r) { return r / 16; }},
                                   {[](int r) { return r / 4; }},
                                   {[](int r) { return r % 3; }},
                                   {[](int r) { return r % 8; }}};
  std::vector<RankPartition> groups;
  for (const Step& step : steps) groups.push_back(parts(32, step.color));
  EXPECT_EQ(play({world(32, 8, {0}), steps, groups}), "");
}

TEST_P(NcclChildren, AConfigurationThatTheRealRanksContradictIsNamed) {
  const auto node = [](int r) { return r / 4; };
  Play p{world(16, 4, {1}), {{[](int r) { return r % 4; }}}, {parts(16, node)}};
  p.as_expected = false;
  const std::string failure = play(p);
  EXPECT_NE(failure.find("groups of the [job]"), std::string::npos) << failure;
}

TEST_P(NcclChildren, Shrink) {
  if (release().minor < 27) GTEST_SKIP() << "has no ncclCommShrink";
  std::vector<std::string> said;
  // Only the configuration tells that rank 5 is out.
  const std::vector<uint32_t> left = {0, 1, 2, 3, 4, 6, 7};
  EXPECT_EQ(play({world(8, 1, {0}), {Step{{}, {}, {5}}}, {{left}}}, &said), "");
  ASSERT_FALSE(said.empty());
  EXPECT_NE(said.front().find("ncclCommShrink makes communicator 1 of 7 ranks"), std::string::npos)
      << said.front();
  EXPECT_NE(play({world(8, 1, {0}), {Step{{}, {}, {5}}}}).find("groups in the [job]"),
            std::string::npos);
  // The ranks before the real ones show themselves.
  EXPECT_EQ(play({world(8, 2, {0}), {Step{{}, {}, {6, 7}}}}, &said), "");
  // Real ones too.
  const std::vector<uint32_t> others = {0, 2, 4, 5, 6, 7};
  EXPECT_EQ(play({world(8, 2, {0, 1}), {Step{{}, {}, {1, 3}}}, {{others}}}), "");
}

}  // namespace
}  // namespace understudy::nccl_rank
