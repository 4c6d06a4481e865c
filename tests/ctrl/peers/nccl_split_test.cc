// ncclCommSplit with emulated ranks, every release: each goes where the real rank in its place
// goes; children have rings, messages and transports of their own.
#include <gtest/gtest.h>

#include "tests/ctrl/peers/nccl_meeting.h"

namespace understudy::nccl_test {
namespace {

class NcclSplit : public testing::TestWithParam<size_t> {
 protected:
  const BootstrapLayout& layout() const { return bootstrap_layouts()[GetParam()]; }
};

INSTANTIATE_TEST_SUITE_P(Nccl, NcclSplit, testing::Range(size_t{0}, bootstrap_layouts().size()),
                         [](const auto& info) {
                           std::string name(bootstrap_layouts()[info.param].releases);
                           for (char& c : name) c = c == '.' || c == ' ' ? '_' : c;
                           return name;
                         });

using Child = Task<std::shared_ptr<RealComm>>;

void expect_done(Meeting& run, std::vector<Child>& tasks) {
  run.world.run();
  for (auto& task : tasks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
}

/// Of the child that connectors number so; empty: there is none.
std::vector<uint32_t> ranks_of(Meeting& run, uint32_t number) {
  const auto children = run.world.machine().children();
  const auto found = std::ranges::find(children, number, &NcclCommunicator::Child::number);
  return found == children.end() ? std::vector<uint32_t>() : found->ranks;
}

TEST_P(NcclSplit, ACopyOfTheWhole) {
  for (const bool shares : {false, true}) {
    Meeting run(layout(), {false, true, false, false});
    run.world.in_pieces = true;
    run.start_real_root();
    std::vector<Child> tasks;
    tasks.push_back(run.comm(0)->split(5, 1, shares));
    expect_done(run, tasks);
    const auto child = tasks[0].result();
    EXPECT_EQ(child->ranks, 4u);
    EXPECT_EQ(ranks_of(run, 1), (std::vector<uint32_t>{0, 1, 2, 3}));
    for (uint32_t r = 0; r < 4; ++r) {
      EXPECT_EQ(nccl_u32(child->gather_info[r], layout().topo_ranks), r);
    }
    auto ring = child->set_up({{2, 1, 0}, {0, 0, 1}}, 1, 1);
    run.world.run();
    ASSERT_TRUE(ring.done() && !ring.failed()) << waiting(run);
    EXPECT_EQ(run.world.connectors.size(), 2u);
    EXPECT_EQ(run.world.connectors.begin()->communicator, 1u);
    child->close();
    run.world.run();
    EXPECT_TRUE(run.world.connectors.empty());
    EXPECT_FALSE(run.world.machine().finished());
    finish(run);
  }
}

/// Groups of the same place on all nodes, as data parallelism has them: one child for each of the
/// real node's ranks, begun by all of them at once.
TEST_P(NcclSplit, GroupsAcrossNodes) {
  for (const bool shares : {false, true}) {
    Meeting run(layout(), {true, true, true, false, false, false, false, false, false}, 3);
    run.start_emulated_root();
    std::vector<Child> tasks;
    // The middle rank's child counts backwards: keys need not be ranks.
    for (uint32_t r = 0; r < 3; ++r) {
      tasks.push_back(run.comm(r)->split(static_cast<int32_t>(10 + r),
                                         r == 1 ? 7 : static_cast<int32_t>(r), shares));
    }
    expect_done(run, tasks);
    std::vector<Task<int>> rings;
    for (uint32_t r = 0; r < 3; ++r) {
      const auto child = tasks[r].result();
      EXPECT_EQ(child->parents, (std::vector<uint32_t>{r, r + 3, r + 6}));
      rings.push_back(child->set_up({{1, 2, 0}, {2, 0, 2}}, 1, shares ? r : 0));
    }
    run.world.run();
    for (uint32_t r = 0; r < 3; ++r) {
      ASSERT_TRUE(rings[r].done() && !rings[r].failed()) << waiting(run);
      EXPECT_EQ(tasks[r].result()->senders, (std::vector<uint32_t>(2, shares ? r + 6 : 2)));
    }
    for (const NcclConnector& c : run.world.connectors) {
      EXPECT_EQ(c.real % 3, c.emulated % 3);
      EXPECT_EQ(c.sender, shares ? (c.real_sends ? c.real : c.emulated) : c.real_sends ? 0u : 2u);
    }
    for (auto& task : tasks) task.result()->close();
    finish(run);
  }
}

/// A split that leaves emulated ranks out, and one of a child.
TEST_P(NcclSplit, SomeStayOutAndChildrenHaveChildren) {
  Meeting run(layout(), {true, true, false, false, false, false}, 2);
  run.start_real_root();
  std::vector<Child> tasks;
  tasks.push_back(run.comm(0)->split(-1, 0, false));
  tasks.push_back(run.comm(1)->split(3, 1, true));
  expect_done(run, tasks);
  EXPECT_EQ(tasks[0].result(), nullptr);
  const auto child = tasks[1].result();
  EXPECT_EQ(child->parents, (std::vector<uint32_t>{1, 3, 5}));
  std::vector<Child> again;
  again.push_back(child->split(1, 0, true));
  expect_done(run, again);
  EXPECT_EQ(again[0].result()->ranks, 3u);
  EXPECT_EQ(ranks_of(run, 2), (std::vector<uint32_t>{1, 3, 5}));
  auto ring = again[0].result()->set_up({{1, 1, 0}}, 1, 1);
  // Meanwhile the first one goes on.
  std::vector<Task<std::vector<Bytes>>> others;
  for (uint32_t r = 0; r < 2; ++r) others.push_back(run.comm(r)->gather(Bytes(2)));
  run.world.run();
  ASSERT_TRUE(ring.done() && !ring.failed()) << waiting(run);
  for (auto& task : others) EXPECT_TRUE(task.done() && !task.failed());
  again[0].result()->close();
  child->close();
  finish(run);
}

}  // namespace
}  // namespace understudy::nccl_test
