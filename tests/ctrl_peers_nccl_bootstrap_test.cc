// NCCL's bootstrap with emulated ranks, every release: real ranks that act as NCCL's code does get
// what that code wants.
#include <gtest/gtest.h>

#include "tests/ctrl_peers_nccl_real_rank.h"

namespace understudy::nccl_test {
namespace {

struct Meeting {
  explicit Meeting(const BootstrapLayout& layout, std::vector<bool> real, uint32_t per_node = 1)
      : job{world, layout, {}, static_cast<uint32_t>(real.size()), {}, 1}, real(std::move(real)) {
    job.id.magic = 0x1122334455667788;
    for (uint32_t r = 0; r < job.ranks; ++r) job.node.push_back(r / per_node);
  }
  NcclCommunicatorSettings settings() const {
    NcclCommunicatorSettings s;
    s.version = {job.layout.minor};
    s.id = job.id;
    for (uint32_t r = 0; r < job.ranks; ++r) s.ranks.push_back({real[r], job.node[r]});
    return s;
  }
  void start_real_root() {
    job.id.root = world.real_listen();
    root.emplace(real_root(job, job.id.root));
    world.start(settings());
    begin();
  }
  void start_emulated_root() {
    const auto first =
        static_cast<uint32_t>(std::find(real.begin(), real.end(), false) - real.begin());
    const ListenerId listener = world.new_listener();
    job.id.root = *world.listen(first, listener);
    NcclCommunicatorSettings s = settings();
    s.emulated_root = true;
    s.root_rank = first;
    s.root_listener = listener;
    world.start(s);
    begin();
  }
  void begin() {
    for (uint32_t r = 0; r < job.ranks; ++r) {
      if (real[r]) ranks.push_back(init_rank(job, r));
    }
    world.run();
  }
  std::shared_ptr<RealComm> comm(size_t i) { return ranks[i].await_resume(); }

  World world;
  Job job;
  std::vector<bool> real;
  std::optional<Task<int>> root;
  std::vector<Task<std::shared_ptr<RealComm>>> ranks;
};

std::string waiting(Meeting& run) {
  std::string text = run.world.machine().failure();
  for (const auto& line : run.world.machine().waiting()) text += "\n" + line;
  return text;
}

class EachRelease : public testing::TestWithParam<size_t> {
 protected:
  const BootstrapLayout& layout() const { return bootstrap_layouts()[GetParam()]; }
};

INSTANTIATE_TEST_SUITE_P(Nccl, EachRelease, testing::Range(size_t{0}, bootstrap_layouts().size()),
                         [](const auto& info) {
                           std::string name(bootstrap_layouts()[info.param].releases);
                           for (char& c : name) c = c == '.' || c == ' ' ? '_' : c;
                           return name;
                         });

TEST_P(EachRelease, OneRealRankWithTheRoot) {
  Meeting run(layout(), {true, false, false, false});
  run.start_real_root();
  ASSERT_TRUE(run.ranks[0].done()) << waiting(run);
  ASSERT_FALSE(run.ranks[0].failed()) << waiting(run);
  const auto comm = run.comm(0);
  std::set<uint64_t> hosts, pids;
  const BootstrapLayout& l = layout();
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_EQ(nccl_u32(comm->peer_info[r], 0), r);
    hosts.insert(nccl_u64(comm->peer_info[r], 16));
    pids.insert(nccl_u64(comm->peer_info[r], 24));
    for (uint32_t array = 0; array < 7; ++array) {
      const uint32_t value = nccl_u32(comm->gather_info[r], l.topo_ranks + array * l.channels * 4);
      EXPECT_EQ(value, array == 2 || array == 3 ? ~0u : r) << array;
    }
    EXPECT_EQ(nccl_u32(comm->gather_info[r], l.graph_entry + 4), 1u);
    EXPECT_EQ(nccl_u32(comm->gather_info[r], 4 * l.graph_entry + 4), r > 0 ? 0u : 1u);  // NVLS
  }
  EXPECT_EQ(hosts.size(), 4u);
  EXPECT_EQ(pids.size(), 4u);

  auto ring = comm->set_up({{1, 2, 0}, {3, 0, 2}}, 1, 0);
  run.world.run();
  ASSERT_TRUE(ring.done() && !ring.failed()) << waiting(run);
  EXPECT_EQ(comm->senders, (std::vector<uint32_t>{3, 3}));
  EXPECT_EQ(run.world.dialed.size(), 2u);
  auto tree = comm->set_up({{2, 1, 1}}, 2, 0);
  run.world.run();
  ASSERT_TRUE(tree.done() && !tree.failed()) << waiting(run);
  EXPECT_EQ(run.world.connectors.size(), 6u);
  auto again = comm->gather(Bytes{0, 1});
  run.world.run();
  ASSERT_TRUE(again.done() && !again.failed()) << waiting(run);
  EXPECT_FALSE(comm->unexpected());

  comm->close();
  run.world.run();
  EXPECT_EQ(run.world.machine().failure(), "");
  EXPECT_TRUE(run.world.machine().finished());
  EXPECT_TRUE(run.world.connectors.empty());
  EXPECT_EQ(run.world.open_streams(), 0u);
  EXPECT_EQ(run.world.open_listeners(), 0u);
}

}  // namespace
}  // namespace understudy::nccl_test
