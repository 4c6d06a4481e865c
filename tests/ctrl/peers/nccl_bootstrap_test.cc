// NCCL's bootstrap with emulated ranks, every release: real ranks that act as NCCL's code does get
// what that code wants.
#include <gtest/gtest.h>

#include <random>

#include "tests/ctrl/peers/nccl_meeting.h"

namespace understudy::nccl_test {
namespace {

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

/// What every real rank must find in the all-gathers, whoever the others are.
void expect_right(Meeting& run) {
  const BootstrapLayout& l = run.job.layout;
  const uint32_t n = run.job.ranks;
  for (auto& task : run.ranks) {
    ASSERT_TRUE(task.done()) << waiting(run);
    ASSERT_FALSE(task.failed()) << waiting(run);
    const auto comm = task.result();
    std::map<uint64_t, uint32_t> node_of_host;
    std::set<uint64_t> pids;
    for (uint32_t r = 0; r < n; ++r) {
      ASSERT_EQ(nccl_u32(comm->peer_info[r], 0), r);
      const auto host = node_of_host.try_emplace(nccl_u64(comm->peer_info[r], 16), run.job.node[r]);
      ASSERT_EQ(host.first->second, run.job.node[r]);
      pids.insert(nccl_u64(comm->peer_info[r], 24));
      if (l.fabric_info > 0) {
        ASSERT_EQ(comm->peer_info[r][l.fabric_info], run.real[r] ? 0xaa : 0);
      }
      std::vector<uint32_t> own;
      for (uint32_t other = 0; other < n; ++other) {
        if (run.job.node[other] == run.job.node[r]) own.push_back(other);
      }
      const auto place = static_cast<size_t>(std::find(own.begin(), own.end(), r) - own.begin());
      const uint32_t right[7] = {own.front(),
                                 own.back(),
                                 place == 0 ? ~0u : own[place - 1],
                                 place + 1 == own.size() ? ~0u : own[place + 1],
                                 own.front(),
                                 own.front(),
                                 own.front()};
      for (uint32_t array = 0; array < 7; ++array) {
        ASSERT_EQ(nccl_u32(comm->gather_info[r], l.topo_ranks + array * l.channels * 4),
                  right[array])
            << "rank " << r << " array " << array;
      }
    }
    ASSERT_EQ(pids.size(), n);
    ASSERT_EQ(node_of_host.size(), std::set(run.job.node.begin(), run.job.node.end()).size());
  }
}

TEST_P(EachRelease, AnySetOfRealRanks) {
  std::minstd_rand engine(7);
  const auto random = [&] { return static_cast<uint32_t>(engine() >> 8); };
  for (int i = 0; i < 25; ++i) {
    const uint32_t per_node = 1 + random() % 4, nodes = 2 + random() % 6;
    std::vector<bool> real(per_node * nodes);
    const bool blocks = random() % 2 == 0;  // ranks of a node in a row, or dealt out
    std::vector<uint32_t> node;
    for (uint32_t r = 0; r < real.size(); ++r) node.push_back(blocks ? r / per_node : r % nodes);
    const uint32_t first = random() % nodes, count = 1 + random() % (nodes - 1);
    for (uint32_t r = 0; r < real.size(); ++r) real[r] = (node[r] + nodes - first) % nodes < count;
    Meeting run(layout(), real);
    run.job.node = node;
    run.world.in_pieces = random() % 2 == 0;
    std::string trace = "case " + std::to_string(i) + ":";
    for (uint32_t r = 0; r < real.size(); ++r) {
      trace += " " + std::to_string(node[r]) + (real[r] ? "R" : "e");
    }
    SCOPED_TRACE(trace);
    if (random() % 2 == 0) {
      run.start_emulated_root();
    } else {
      run.start_real_root();
    }
    expect_right(run);
    if (HasFatalFailure()) return;
    finish(run);
  }
}

TEST_P(EachRelease, NodesOfOtherSizesHaveChainsOfTheirOwn) {
  Meeting run(layout(), {true, false, false, true, true, false});
  run.job.node = {0, 1, 1, 2, 2, 3};
  run.start_real_root();
  expect_right(run);
  if (!HasFatalFailure()) finish(run);
}

/// Every pair on every channel, as an all-to-all's first use has it.
TEST_P(EachRelease, SetUpBetweenAllPairs) {
  for (const uint32_t n : {2u, 3u, 4u, 7u}) {
    std::vector<bool> real(n);
    real[n / 2] = true;
    if (n > 4) real[1] = true;
    Meeting run(layout(), real);
    run.world.in_pieces = true;
    run.start_emulated_root();
    expect_right(run);
    if (HasFatalFailure()) return;
    std::vector<Task<int>> tasks;
    size_t connectors = 0;
    for (auto& task : run.ranks) {
      const auto comm = task.result();
      std::vector<RealComm::Link> links;
      for (uint32_t peer = 0; peer < n; ++peer) {
        if (peer == comm->rank) continue;
        // Real ranks would need each other's handles; the emulated ones are what this is about.
        if (!real[peer]) links.push_back({peer, 2, 3});
      }
      connectors += 5 * links.size();
      tasks.push_back(comm->set_up(links, 0, comm->rank));
    }
    run.world.run();
    for (auto& task : tasks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
    EXPECT_EQ(run.world.connectors.size(), connectors);
    for (const NcclConnector& c : run.world.connectors) {
      EXPECT_EQ(c.index, 1);
      EXPECT_LT(c.channel, c.real_sends ? 2u : 3u);
      EXPECT_EQ(c.sender, c.real_sends ? c.real : c.emulated);
    }
    EXPECT_EQ(waiting(run), "\nnothing: all that real ranks have begun is answered");
    finish(run);
  }
}

TEST_P(EachRelease, BarriersOfAllRanks) {
  for (const uint32_t n : {2u, 5u, 8u}) {
    std::vector<bool> real(n);
    real[0] = true;
    if (n > 2) real[3] = true;
    Meeting run(layout(), real);
    run.start_real_root();
    expect_right(run);
    if (HasFatalFailure()) return;
    for (int i = 0; i < 3; ++i) {
      std::vector<Task<int>> tasks;
      tasks.push_back(run.comm(0)->barrier(0xbeef));
      run.world.run();
      if (n > 2) {
        EXPECT_FALSE(tasks[0].done());  // the other real rank is not there
        tasks.push_back(run.comm(1)->barrier(0xbeef));
        run.world.run();
      }
      for (auto& task : tasks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
    }
    finish(run);
  }
}

/// "0>1:0" for data from rank 0 to rank 1 on channel 0.
std::set<std::string> channels_of(const World& world) {
  std::set<std::string> all;
  for (const NcclConnector& c : world.connectors) {
    all.insert(std::to_string(c.real_sends ? c.real : c.emulated) + ">" +
               std::to_string(c.real_sends ? c.emulated : c.real) + ":" +
               std::to_string(c.channel));
  }
  return all;
}

/// docs/nccl 2.6 to 2.8, G.4: two channels, the second tree on the second one, PAT on both.
TEST_P(EachRelease, ChannelsOfRingTreesAndPat) {
  Meeting run(layout(), {true, false, false, false});
  run.start_real_root();
  expect_right(run);
  if (HasFatalFailure()) return;
  const auto comm = run.comm(0);
  const auto set_up = [&](std::vector<RealComm::Link> links, uint32_t part) {
    auto task = comm->set_up(std::move(links), part, 0);
    run.world.run();
    EXPECT_TRUE(task.done() && !task.failed()) << waiting(run);
    return channels_of(run.world);
  };
  std::set<std::string> all = {"0>1:0", "0>1:1", "3>0:0", "3>0:1"};
  EXPECT_EQ(set_up({{1, 2, 0}, {3, 0, 2}}, 1), all);
  all.insert({"0>2:0", "2>0:0", "1>0:1"});
  EXPECT_EQ(set_up({{2, 1, 1}, {1, 0, 1}}, 2), all);
  all.insert({"0>2:1", "2>0:1", "1>0:0", "0>3:0", "0>3:1"});
  EXPECT_EQ(set_up({{2, 1, 1}, {1, 0, 1}, {3, 2, 0}}, 2), all);
  finish(run);
}

/// Nodes of two GPUs: their network ends change places from one channel to the next.
TEST_P(EachRelease, ChannelsOfNodesWithSeveralGpus) {
  Meeting run(layout(), {true, true, false, false, false, false}, 2);
  run.job.channels = 2;
  run.job.rotated = true;
  run.start_emulated_root();
  for (auto& task : run.ranks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
  std::vector<Task<int>> tasks;
  tasks.push_back(run.comm(0)->set_up({{3, 2, 0}, {5, 0, 2}}, 1, 0));
  tasks.push_back(run.comm(1)->set_up({{2, 2, 0}, {4, 0, 2}}, 1, 1));
  run.world.run();
  for (auto& task : tasks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
  EXPECT_EQ(channels_of(run.world), (std::set<std::string>{"1>2:0", "1>2:2", "0>3:1", "0>3:3",
                                                           "5>0:0", "5>0:2", "4>1:1", "4>1:3"}));
  // Three nodes' trees: node 0 above node 2 in the first, node 0 below node 1 in the second; there
  // the rank that begins the chain talks.
  tasks.clear();
  tasks.push_back(run.comm(0)->set_up({{4, 1, 1}, {2, 1, 1}}, 2, 0));
  tasks.push_back(run.comm(1)->set_up({{5, 1, 1}, {3, 1, 1}}, 2, 1));
  run.world.connectors.clear();
  run.world.run();
  for (auto& task : tasks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
  EXPECT_EQ(channels_of(run.world), (std::set<std::string>{"0>4:0", "4>0:0", "1>5:1", "5>1:1",
                                                           "0>2:2", "2>0:2", "1>3:3", "3>1:3"}));
}

/// What is not known is copied, and said once a size.
TEST_P(EachRelease, OtherAllGathers) {
  Meeting run(layout(), {false, true, false, true, true});
  run.start_real_root();
  expect_right(run);
  if (HasFatalFailure()) return;
  for (int i = 0; i < 2; ++i) {
    std::vector<Task<std::vector<Bytes>>> tasks;
    for (auto& task : run.ranks) {
      tasks.push_back(task.result()->gather(Bytes(128, static_cast<uint8_t>(3))));
    }
    run.world.run();
    for (auto& task : tasks) {
      ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
      EXPECT_EQ(task.result(), std::vector<Bytes>(5, Bytes(128, 3)));
    }
  }
  EXPECT_EQ(run.world.said.size(), 1u);
  finish(run);
}

}  // namespace
}  // namespace understudy::nccl_test
